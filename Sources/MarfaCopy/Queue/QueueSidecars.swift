import MarfaBase

/// Queueing tags, metadata and extensions (each a write of its own, Q33.1), and uploads (chapter 19).
extension WriteQueue {
  /// Queues a tag.
  @discardableResult
  package func addTag(_ id: EntityID, _ tag: Text) throws(MarfaError) -> QueuedWrite {
    try queueing {
      let row = try held(id)
      try PropertyCheck.tag(tag)
      try PropertyCheck.tagCount(adding: [tag], to: row.tags)
      return try queueTag(tag, on: id)
    }
  }

  func queueTag(_ tag: Text, on id: EntityID) throws(MarfaError) -> QueuedWrite {
    var write = entry(.addTag)
    write.itemID = id
    write.tag = tag
    write.bodyText = tagsBody([tag])
    return try append(write)
  }

  /// Queues the loss of a tag.
  @discardableResult
  package func removeTag(_ id: EntityID, _ tag: Text) throws(MarfaError) -> QueuedWrite {
    try queueing {
      _ = try held(id)
      var write = entry(.removeTag)
      write.itemID = id
      write.tag = tag
      return try append(write)
    }
  }

  /// Queues a whole list of tags in the place of the item's.
  @discardableResult
  package func replaceTags(_ id: EntityID, _ tags: [Text]) throws(MarfaError) -> QueuedWrite {
    try metadata(.replaceMetadata, id, tags)
  }

  /// Queues tags beside the item's.
  @discardableResult
  package func mergeTags(_ id: EntityID, _ tags: [Text]) throws(MarfaError) -> QueuedWrite {
    try metadata(.mergeMetadata, id, tags)
  }

  private func metadata(_ kind: WriteKind, _ id: EntityID, _ tags: [Text]) throws(MarfaError) -> QueuedWrite {
    try queueing {
      let row = try held(id)
      for tag in tags { try PropertyCheck.tag(tag) }
      try PropertyCheck.tagCount(adding: tags, to: row.tags, replacing: kind == .replaceMetadata)
      var write = entry(kind)
      write.itemID = id
      write.bodyText = tagsBody(tags)
      return try append(write)
    }
  }

  private func tagsBody(_ tags: [Text]) -> Text {
    Text(bytes: JSON.object(JSONObject([("tags", .array(tags.map { .string($0) }))])).write())
  }

  /// Queues an extension's data under a namespace.
  @discardableResult
  package func writeExtension(_ id: EntityID, _ namespace: Text, _ data: JSONObject) throws(MarfaError) -> QueuedWrite {
    try queueing {
      _ = try held(id)
      var write = entry(.writeExtension)
      write.itemID = id
      write.namespace = namespace
      write.bodyText = Text(bytes: JSON.object(data).write())
      return try append(write)
    }
  }

  /// Queues the loss of an extension.
  @discardableResult
  package func deleteExtension(_ id: EntityID, _ namespace: Text) throws(MarfaError) -> QueuedWrite {
    try queueing {
      _ = try held(id)
      var write = entry(.deleteExtension)
      write.itemID = id
      write.namespace = namespace
      return try append(write)
    }
  }

  // MARK: Uploads

  /// Copies a file's bytes beside the store under their hash and queues their upload (Q37.1). The file may change after.
  /// - Throws: `invalid` for an empty file.
  @discardableResult
  package func upload(file: any ReadableFile, mimeType: Text) throws(MarfaError) -> QueuedWrite {
    try copy.requireWriter()
    let kept: (hash: ContentHash, size: Int64)
    do throws(FileError) { kept = try copy.blobs.put(from: file) } catch { throw MarfaError(error) }
    guard kept.size > 0 else { throw MarfaError(.invalid, "an empty file can't be uploaded") }
    return try upload(hash: kept.hash, mimeType: mimeType)
  }

  /// Queues the upload of bytes that lie beside the store already.
  @discardableResult
  package func upload(hash: ContentHash, mimeType: Text) throws(MarfaError) -> QueuedWrite {
    try queueing {
      _ = try standing()
      guard copy.blobs.has(hash) else {
        throw MarfaError(.bytesAbsent, "the bytes sha256:\(hash.hex) are not beside the store")
      }
      guard mimeType.isHeaderSafe else { throw MarfaError(.invalid, "'\(mimeType)' is no content type") }
      var write = entry(.uploadBlob)
      write.blob = hash
      write.mimeType = mimeType
      return try append(write)
    }
  }

  /// The hashes queued uploads name and the server has not taken: a cache never evicts their bytes (D209.1).
  package func blobsWaiting() throws(MarfaError) -> [ContentHash] {
    try table.all("kind = 'upload_blob' AND (\(WriteQueue.waits) OR verdict = 'refused')").compactMap(\.blob)
  }
}
