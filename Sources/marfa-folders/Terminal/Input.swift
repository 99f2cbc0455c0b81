import Glibc
import MarfaBase
import MarfaCopy

/// All of standard input, at most 1 MiB.
func readStandardInput() throws(MarfaError) -> [UInt8] {
  var bytes: [UInt8] = []
  var piece = [UInt8](repeating: 0, count: 65536)
  while true {
    let count = read(STDIN_FILENO, &piece, piece.count)
    if count < 0, errno == EINTR { continue }
    guard count >= 0 else { throw MarfaError(.io, "standard input could not be read") }
    if count == 0 { return bytes }
    bytes += piece[..<count]
    guard bytes.count <= 1 << 20 else { throw MarfaError(.invalid, "standard input is larger than 1 MiB") }
  }
}
