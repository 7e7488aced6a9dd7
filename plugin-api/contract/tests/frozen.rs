//! A released contract never changes: what was built against it must go on loading. A change of the WIT is a new version,
//! and a new line here.

#![allow(clippy::unwrap_used, reason = "tests")]

use sha2::{Digest as _, Sha256};

/// Version to SHA-256 over all WIT files in the order of their names.
const RELEASED: &[(&str, &str)] = &[
    (
        "0.1.0",
        "720672713516bfa64329373de98fd92f9984dac079fed069d9ee0404d40cbe35",
    ),
    (
        "0.2.0",
        "47a21aebc8dd75c003a8fe15126f6e4ee0bd5e2e9263e99c1e5b08ae5573d0b5",
    ),
];

/// Files of a folder by name, and their digest in the order of their names.
fn read(folder: &str, version: &str) -> (Vec<(String, String)>, String) {
    let folder = format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut hash = Sha256::new();
    let mut found = Vec::new();
    for path in &paths {
        let text = std::fs::read_to_string(path).unwrap();
        let package = format!("package berth:plugin@{version};");
        assert!(
            text.starts_with(&package),
            "{} is of another version",
            path.display()
        );
        hash.update(&text);
        let name = path.file_name().unwrap().to_str().unwrap();
        found.push((name.to_owned(), text));
    }
    (found, hex::encode(hash.finalize()))
}

#[test]
fn the_wit_is_the_one_of_its_version() {
    let (found, digest) = read("wit", contract::VERSION);
    let found: Vec<_> = found
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    assert_eq!(contract::WIT, found, "`WIT` does not hold every file");
    let (newest, expected) = RELEASED.last().unwrap();
    assert_eq!(*newest, contract::VERSION, "this version has no line");
    assert_eq!(digest, *expected, "the WIT changed without a new version");
}

#[test]
fn a_former_version_is_kept_as_it_was() {
    let former = &RELEASED[..RELEASED.len() - 1];
    for (version, expected) in former {
        let (_, digest) = read(&format!("released/{version}"), version);
        assert_eq!(digest, *expected, "the released {version} changed");
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/released");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), former.len());
}

#[test]
fn the_native_handshake_has_the_same_version() {
    let (major, minor) = contract::native::CONTRACT;
    assert!(contract::VERSION.starts_with(&format!("{major}.{minor}.")));
}
