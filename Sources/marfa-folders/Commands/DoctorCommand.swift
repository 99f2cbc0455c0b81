import MarfaBase
import MarfaCopy

/// `doctor` (N6.4).
func doctorCommand() -> Command {
  Command(
    name: "doctor", summary: "look for what keeps folders from being in step, and say the way out",
    discussion:
      "Looks at every folder of this machine where none is named, and changes nothing. Exit 4 where there is a problem.",
    options: [
      Option(
        "report", .text("FILE"),
        "Also write what a helper would ask for into FILE: no text, name or key of yours. Read it before you send it.")
    ],
    arguments: [Argument("DIR", optional: true, repeats: true, "A folder's directory.")], run: doctor)
}

@Sendable private func doctor(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  let session = Session(invocation)
  var doctor = Doctor(session)
  let named =
    invocation.arguments.isEmpty ? nil : invocation.arguments.indices.map { directory(of: invocation, at: $0) }
  doctor.examine(named)
  if let file = invocation.value("report") {
    try DoctorReport(session, named, doctor.findings).write(to: invocation.program.absolute(PathBytes(file)))
  }
  let problems = doctor.findings.count { $0.result == .problem }
  let warnings = doctor.findings.count { $0.result == .warning }
  let answer: JSON = [
    "checks": .array(doctor.findings.map(\.json)), "problems": .int(problems), "warnings": .int(warnings),
  ]
  let output = invocation.program.output
  guard !output.json else {
    output.document(answer)
    return problems > 0 ? 4 : 0
  }
  var lines = doctor.findings.map { finding -> (Style, String) in
    switch finding.result {
    case .ok: (.good, finding.line)
    case .warning: (.careful, finding.line)
    case .problem: (.bad, finding.line)
    }
  }
  lines.append((.strong, "\(counted(problems, "problem")), \(counted(warnings, "warning"))"))
  output.lines(lines)
  return problems > 0 ? 4 : 0
}
