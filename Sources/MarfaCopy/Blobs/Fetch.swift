import MarfaBase

extension WorkingCopy {
  /// The bytes of a hash: from beside the store, else fetched by link first (B8.1).
  /// - Throws: `bytes_absent` where they are not to be had, `decoding` where what came hashes to another name.
  package func bytes(_ hash: ContentHash) throws(MarfaError) -> any ReadableFile {
    for _ in 0..<2 {
      do throws(FileError) {
        if let file = try blobs.open(hash) { return file }
      } catch { throw MarfaError(error) }
      try fetch(hash)
    }
    throw absent(hash, "they were taken away again")
  }

  /// Makes the bytes of a hash present beside the store: the link asked with the credential, then followed exactly as
  /// given, without it, hashed as the bytes stream in (B8, D37). One that broke off goes on with a range (B8.4).
  package func fetch(_ hash: ContentHash) throws(MarfaError) {
    try requireWriter()
    if blobs.has(hash) { return }
    let address = try link(to: hash)
    let incoming: any IncomingBlob
    do throws(FileError) { incoming = try blobs.incoming() } catch { throw MarfaError(error) }
    do throws(MarfaError) {
      var received: Int64 = 0
      var attempts = 0
      while try !receive(address, hash, incoming, &received) {
        attempts += 1
        guard attempts < 3 else { throw absent(hash, "the connection broke again and again") }
      }
    } catch {
      incoming.abandon()
      throw error
    }
    do throws(FileError) {
      let found = try incoming.finish(expecting: hash)
      guard found == hash else {
        throw FileError(code: 0, operation: "hash", path: "")
      }
    } catch {
      if error.operation == "hash", error.code == 0 {
        throw MarfaError(.decoding, "the bytes the server gave for \(hash) hash to another name; they were not kept")
      }
      throw MarfaError(error)
    }
    try keepToBudget()
  }

  private func absent(_ hash: ContentHash, _ why: String) -> MarfaError {
    MarfaError(.bytesAbsent, "the bytes of \(hash) are not to be had: \(why)")
  }

  private func link(to hash: ContentHash) throws(MarfaError) -> String {
    let answer: Answer
    do throws(MarfaError) { answer = try server.ask("GET", "/blobs/\(percentEncoded(hash.text))/url") } catch {
      // Unreachable bytes are absent ones; a redirect, another contract and an answer from in front say so themselves.
      if error.code == .network || error.code == .noConnection { throw absent(hash, error.message) }
      throw error
    }
    guard answer.isSuccess else {
      let refusal = server.refusal(answer)
      throw refusal.code == .notFound ? absent(hash, refusal.message) : refusal
    }
    guard let url = try answer.json()["url"]?.text?.string else {
      throw MarfaError(.decoding, "the server's link to \(hash) could not be read")
    }
    return resolve(url)
  }

  /// A link may be given without its server: a path of the instance's own.
  private func resolve(_ url: String) -> String {
    guard url.hasPrefix("/"), let base = server.endpoint?.baseURL else { return url }
    return base + url
  }

  /// One request of the link from where the bytes stand. Returns whether they are whole.
  private func receive(
    _ address: String, _ hash: ContentHash, _ incoming: any IncomingBlob, _ received: inout Int64
  ) throws(MarfaError) -> Bool {
    try checkStop()
    var request = HTTPRequest(method: "GET", url: address)
    request.bodyTimeout = 0
    if received > 0 { request.headers.append(HTTPHeader("Range", "bytes=\(received)-")) }
    var status = 0
    var location: String?
    var length: Int64?
    var failure: FileError?
    let start = received
    var taken = start
    let end: StreamEnd
    do throws(TransportError) {
      end = try context.transport.stream(
        request, silence: 60_000_000_000, stop: stop,
        head: { response in
          status = response.status
          location = response.header("Location")
          length = response.header("Content-Length").flatMap { Int64($0) }
          // A server that begins again where a range was asked would double the bytes.
          return status == (start > 0 ? 206 : 200) ? .more : .enough
        },
        piece: { bytes in
          do throws(FileError) {
            try incoming.write(bytes)
            taken += Int64(bytes.count)
            return .more
          } catch {
            failure = error
            return .enough
          }
        })
    } catch {
      received = taken
      if let failure { throw MarfaError(failure) }
      if case .stopped = error { throw MarfaError(.canceled, "stopped") }
      if taken > start { return false }
      throw absent(hash, server.failure(error).message)
    }
    received = taken
    if let failure { throw MarfaError(failure) }
    if (300..<400).contains(status) {
      throw MarfaError(
        .redirect, "the link to \(hash) answered \(status) and points elsewhere; redirects are not followed",
        server: .init(status: status, details: location.map { ["location": .string($0)] }))
    }
    guard status == (start > 0 ? 206 : 200) else { throw absent(hash, "the link answered \(status)") }
    if stop.isSet { throw MarfaError(.canceled, "stopped") }
    if let length { return taken - start >= length }
    return end == .ended
  }

  /// Above the budget the downloads read longest ago go first, never bytes a queued upload names (X10.3, B9.6).
  private func keepToBudget() throws(MarfaError) {
    guard let budget = blobBudget else { return }
    let held = blobs.all()
    var total = held.reduce(0) { $0 + Int($1.size) }
    guard total > budget else { return }
    let named = try store.read {
      Set(
        try database.allRows(
          "SELECT blob FROM queue WHERE blob IS NOT NULL AND (verdict IS NULL OR verdict IN ('blocked', 'dead'))"
        ) { ContentHash($0.text(0)) }.compactMap { $0 })
    }
    for blob in held where total > budget && !named.contains(blob.hash) {
      blobs.remove(blob.hash)
      total -= Int(blob.size)
    }
  }
}
