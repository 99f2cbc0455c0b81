/// The shipped types and edge types as data (the contract's `catalog.json`): own fields only, read by T108 to T111.
/// Reading it is each room's own work, so that instance and copy cannot share a misreading.
public enum ShippedCatalog {
  /// The JSON text.
  public static var json: [UInt8] { PackageResources.catalog_json }
}
