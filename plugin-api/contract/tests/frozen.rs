//! A released contract never changes: what was built against it must go on loading. A change of the WIT is a new version,
//! and a new line here.

use sha2::{Digest as _, Sha256};

/// Version to SHA-256 over all WIT files in the order of their names.
const RELEASED: &[(&str, &str)] = &[(
    "0.1.0",
    "720672713516bfa64329373de98fd92f9984dac079fed069d9ee0404d40cbe35",
)];

#[test]
fn the_wit_is_the_one_of_its_version() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/wit");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut hash = Sha256::new();
    let mut found = Vec::new();
    for path in &paths {
        let text = std::fs::read_to_string(path).unwrap();
        found.push((path.file_name().unwrap().to_str().unwrap(), text.clone()));
        let package = format!("package berth:plugin@{};", contract::VERSION);
        assert!(
            text.starts_with(&package),
            "{} is of another version",
            path.display()
        );
        hash.update(text);
    }
    let found: Vec<_> = found
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    assert_eq!(contract::WIT, found, "`WIT` does not hold every file");
    let (_, expected) = RELEASED
        .iter()
        .find(|(version, _)| *version == contract::VERSION)
        .expect("this version has no line");
    assert_eq!(
        hex::encode(hash.finalize()),
        *expected,
        "the WIT changed without a new version"
    );
}

#[test]
fn the_native_handshake_has_the_same_version() {
    let (major, minor) = contract::native::CONTRACT;
    assert!(contract::VERSION.starts_with(&format!("{major}.{minor}.")));
}
