import MarfaBase
import MarfaCopy

/// `doctor` (N6.4).
func doctorCommand() -> Command {
  Command(
    name: "doctor", summary: "look for what keeps folders from being in step, and say the way out",
    discussion:
      "Looks at every folder of this machine where none is named, and changes nothing. Exit 4 where there is a problem.",
    arguments: [Argument("DIR", optional: true, "A folder's directory.")], run: doctor)
}

@Sendable private func doctor(_ invocation: Invocation) throws(MarfaError) -> Int32 {
  var doctor = Doctor(Session(invocation))
  doctor.examine(invocation.argument(0).map { _ in directory(of: invocation) })
  let problems = doctor.findings.count { $0.result == .problem }
  let warnings = doctor.findings.count { $0.result == .warning }
  let answer: JSON = [
    "checks": .array(doctor.findings.map(\.json)), "problems": .int(problems), "warnings": .int(warnings),
  ]
  var lines = doctor.findings.map(\.line)
  lines.append("\(counted(problems, "problem")), \(counted(warnings, "warning"))")
  invocation.program.output.answer(answer, lines)
  return problems > 0 ? 4 : 0
}
