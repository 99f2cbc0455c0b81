// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
]

func cLibrary(_ name: String, _ pkgConfig: String, _ debian: String) -> Target {
  .systemLibrary(
    name: name, path: "Sources/CLibraries/\(name)", pkgConfig: pkgConfig, providers: [.apt([debian])])
}

let package = Package(
  name: "marfa-folders",
  products: [
    .executable(name: "marfa-folders", targets: ["marfa-folders"]),
    // Tests load it into the program.
    .library(name: "DiskLog", type: .dynamic, targets: ["DiskLog"]),
  ],
  targets: [
    // C libraries of Debian, wrapped thinly.
    cLibrary("CSQLite", "sqlite3", "libsqlite3-dev"),
    cLibrary("COpenSSL", "libcrypto", "libssl-dev"),
    cLibrary("CSecret", "libsecret-1", "libsecret-1-dev"),
    cLibrary("CYAML", "yaml-0.1", "libyaml-dev"),
    cLibrary("CMD4C", "md4c", "libmd4c-dev"),
    cLibrary("CUTF8Proc", "libutf8proc", "libutf8proc-dev"),
    .target(name: "CPosix", path: "Sources/CLibraries/CPosix"),
    // Loaded when they are first called.
    .target(name: "CLoading", path: "Sources/CLibraries/CLoading"),
    .target(name: "CCurl", dependencies: ["CLoading"], path: "Sources/CLibraries/CCurl"),
    .target(name: "CMicroHTTPD", dependencies: ["CLoading"], path: "Sources/CLibraries/CMicroHTTPD"),
    .target(name: "CSystemd", dependencies: ["CLoading"], path: "Sources/CLibraries/CSystemd"),

    // The rooms. Arrows point one way: marfa-folders -> FolderSync -> MarfaCopy -> MarfaBase.
    .target(
      name: "MarfaBase", dependencies: ["CSQLite", "COpenSSL", "CUTF8Proc", "CPosix"],
      resources: [.embedInCode("Catalog/catalog.json")], swiftSettings: strict),
    .target(name: "MarfaCopy", dependencies: ["MarfaBase", "CCurl", "CMD4C", "CPosix"], swiftSettings: strict),
    .target(
      name: "FolderSync", dependencies: ["MarfaCopy", "MarfaBase", "CYAML", "CMD4C", "CPosix", "CUTF8Proc"],
      swiftSettings: strict),
    .target(name: "Keyring", dependencies: ["MarfaBase", "CSecret", "CPosix"], swiftSettings: strict),
    .target(name: "LocalInstance", dependencies: ["MarfaBase", "CMicroHTTPD", "CPosix"], swiftSettings: strict),
    .executableTarget(
      name: "marfa-folders",
      dependencies: [
        "FolderSync", "MarfaCopy", "Keyring", "LocalInstance", "MarfaBase", "CSecret", "CSystemd", "CPosix",
      ],
      swiftSettings: strict),

    // Tests mirror the rooms.
    .target(
      name: "TestSupport",
      dependencies: [
        "FolderSync", "MarfaCopy", "LocalInstance", "MarfaBase", "CSecret", "CPosix", "PowerVFS",
      ],
      path: "Tests/Support", swiftSettings: strict),
    .target(name: "DiskLog", path: "Tests/DiskLog"),
    .target(name: "PowerVFS", dependencies: ["CSQLite"], path: "Tests/PowerVFS"),
    .executableTarget(
      name: "simulate",
      dependencies: ["FolderSync", "MarfaCopy", "LocalInstance", "MarfaBase", "TestSupport", "PowerVFS"],
      path: "Tests/Simulation", swiftSettings: strict),
    .executableTarget(
      name: "fuzz",
      dependencies: ["FolderSync", "MarfaCopy", "LocalInstance", "MarfaBase", "TestSupport"],
      path: "Tests/Fuzz", exclude: ["Corpus"], swiftSettings: strict),
    .executableTarget(
      name: "bench",
      dependencies: ["FolderSync", "MarfaCopy", "MarfaBase", "TestSupport", "CPosix"],
      path: "Tests/Benchmarks", swiftSettings: strict),
    .testTarget(
      name: "MarfaBaseTests", dependencies: ["MarfaBase", "TestSupport"], swiftSettings: strict),
    .testTarget(
      name: "LocalInstanceTests", dependencies: ["LocalInstance", "MarfaBase", "TestSupport"], swiftSettings: strict),
    .testTarget(
      name: "MarfaCopyTests", dependencies: ["MarfaCopy", "LocalInstance", "MarfaBase", "TestSupport"],
      swiftSettings: strict),
    .testTarget(
      name: "FolderSyncTests",
      dependencies: ["FolderSync", "MarfaCopy", "LocalInstance", "MarfaBase", "TestSupport"], swiftSettings: strict),
    .testTarget(
      name: "KeyringTests", dependencies: ["Keyring", "MarfaBase", "CPosix"], swiftSettings: strict),
    .testTarget(
      name: "CommandTests", dependencies: ["MarfaCopy", "MarfaBase", "TestSupport", "marfa-folders"],
      swiftSettings: strict),
    .testTarget(
      name: "Scenarios",
      dependencies: ["FolderSync", "MarfaCopy", "LocalInstance", "MarfaBase", "TestSupport", "marfa-folders"],
      swiftSettings: strict),
    .testTarget(
      name: "Faults",
      dependencies: ["FolderSync", "MarfaCopy", "LocalInstance", "MarfaBase", "TestSupport", "marfa-folders"],
      swiftSettings: strict),
  ],
  swiftLanguageModes: [.v6]
)
