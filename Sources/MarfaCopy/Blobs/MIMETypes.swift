import MarfaBase

/// MIME types by extension, one table for every machine, never the host's (F12.18, F36.2).
package enum MIMETypes {
  /// The type of a name's extension, in any letter case; nil for an unknown one.
  package static func type(of name: PathBytes) -> String? {
    guard let ending = name.fileExtension, ending.bytes.count <= 16 else { return nil }
    let lower = ending.bytes.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }
    return table[PathBytes(bytes: lower)]
  }

  /// The type of a file a person adds as one: documents among them, which are notes to a folder (D46.2).
  package static func added(_ name: PathBytes) -> String? {
    if let type = type(of: name) { return type }
    switch DocumentKind(name: name) {
    case .markdown: return "text/markdown"
    case .text: return "text/plain"
    case nil: return nil
    }
  }

  /// For bytes whose name says nothing.
  package static let fallback = "application/octet-stream"

  private static let table: [PathBytes: String] = {
    var all: [PathBytes: String] = [:]
    for line in lines.split(separator: "\n") {
      let words = line.split(separator: " ")
      for ending in words.dropFirst() { all[PathBytes(ending)] = words.first.map(String.init) }
    }
    return all
  }()

  private static let lines = """
    image/png png
    image/apng apng
    image/jpeg jpg jpeg jpe jfif
    image/gif gif
    image/webp webp
    image/avif avif
    image/heic heic
    image/heif heif
    image/jxl jxl
    image/jp2 jp2
    image/bmp bmp
    image/tiff tif tiff
    image/svg+xml svg svgz
    image/x-icon ico
    image/vnd.adobe.photoshop psd
    image/x-xcf xcf
    image/x-canon-cr2 cr2
    image/x-canon-cr3 cr3
    image/x-nikon-nef nef
    image/x-sony-arw arw
    image/x-adobe-dng dng
    image/x-fuji-raf raf
    image/x-olympus-orf orf
    image/x-panasonic-rw2 rw2
    image/vnd.djvu djvu djv
    image/x-portable-pixmap ppm
    image/x-portable-graymap pgm
    image/x-portable-bitmap pbm
    image/x-portable-anymap pnm
    image/x-tga tga
    image/x-exr exr
    audio/mpeg mp3 mpga
    audio/mp4 m4a m4b
    audio/aac aac
    audio/ogg ogg oga
    audio/opus opus
    audio/flac flac
    audio/wav wav
    audio/aiff aif aiff aifc
    audio/x-ms-wma wma
    audio/amr amr
    audio/midi mid midi
    audio/x-caf caf
    audio/x-matroska mka
    audio/x-mpegurl m3u
    video/mp4 mp4 m4v
    video/quicktime mov qt
    video/webm webm
    video/x-matroska mkv
    video/x-msvideo avi
    video/mpeg mpg mpeg mpe
    video/ogg ogv
    video/3gpp 3gp
    video/3gpp2 3g2
    video/mp2t mts m2ts
    video/x-ms-wmv wmv
    video/x-flv flv
    application/pdf pdf
    application/epub+zip epub
    application/x-mobipocket-ebook mobi
    application/vnd.amazon.ebook azw azw3
    application/postscript ps eps ai
    application/rtf rtf
    application/msword doc dot
    application/vnd.ms-excel xls xlt
    application/vnd.ms-powerpoint ppt pps pot
    application/vnd.ms-outlook msg
    application/vnd.visio vsd vsdx
    application/vnd.openxmlformats-officedocument.wordprocessingml.document docx
    application/vnd.openxmlformats-officedocument.wordprocessingml.template dotx
    application/vnd.openxmlformats-officedocument.spreadsheetml.sheet xlsx
    application/vnd.openxmlformats-officedocument.spreadsheetml.template xltx
    application/vnd.openxmlformats-officedocument.presentationml.presentation pptx
    application/vnd.openxmlformats-officedocument.presentationml.slideshow ppsx
    application/vnd.openxmlformats-officedocument.presentationml.template potx
    application/vnd.ms-word.document.macroenabled.12 docm
    application/vnd.ms-excel.sheet.macroenabled.12 xlsm
    application/vnd.ms-powerpoint.presentation.macroenabled.12 pptm
    application/vnd.oasis.opendocument.text odt
    application/vnd.oasis.opendocument.spreadsheet ods
    application/vnd.oasis.opendocument.presentation odp
    application/vnd.oasis.opendocument.graphics odg
    application/vnd.oasis.opendocument.formula odf
    application/vnd.apple.pages pages
    application/vnd.apple.numbers numbers
    application/vnd.apple.keynote key
    application/zip zip
    application/gzip gz tgz
    application/x-bzip2 bz2 tbz2
    application/x-xz xz txz
    application/zstd zst
    application/x-tar tar
    application/x-7z-compressed 7z
    application/vnd.rar rar
    application/java-archive jar
    application/vnd.android.package-archive apk
    application/vnd.debian.binary-package deb
    application/x-rpm rpm
    application/x-iso9660-image iso
    application/x-apple-diskimage dmg
    application/octet-stream bin
    application/json json
    application/geo+json geojson
    application/ld+json jsonld
    application/x-ndjson ndjson jsonl
    application/xml xml xsl
    application/yaml yaml yml
    application/toml toml
    application/sql sql
    application/vnd.sqlite3 sqlite sqlite3 db
    application/javascript js mjs cjs
    application/typescript ts
    application/wasm wasm
    application/x-sh sh
    application/x-ipynb+json ipynb
    application/x-bibtex bib
    application/x-research-info-systems ris
    application/gpx+xml gpx
    application/vnd.google-earth.kml+xml kml
    application/vnd.google-earth.kmz kmz
    application/x-bittorrent torrent
    application/x-shockwave-flash swf
    application/pgp-signature sig
    application/x-tex tex latex
    text/html html htm
    application/xhtml+xml xhtml
    text/css css
    text/csv csv
    text/tab-separated-values tsv
    text/calendar ics
    text/vcard vcf
    text/x-rst rst
    text/x-org org
    text/x-log log
    text/vtt vtt
    application/x-subrip srt
    text/x-python py
    text/x-c c h
    text/x-c++ cpp cc cxx hpp
    text/x-java java
    text/x-swift swift
    text/x-go go
    text/x-rust rs
    text/x-ruby rb
    text/x-php php
    text/x-diff diff patch
    text/x-ini ini cfg conf
    message/rfc822 eml
    application/mbox mbox
    font/ttf ttf
    font/otf otf
    font/woff woff
    font/woff2 woff2
    model/gltf+json gltf
    model/gltf-binary glb
    model/obj obj
    model/stl stl
    model/3mf 3mf
    image/vnd.dxf dxf
    image/vnd.dwg dwg
    application/vnd.excalidraw+json excalidraw
    application/vnd.obsidian.canvas+json canvas
    """
}
