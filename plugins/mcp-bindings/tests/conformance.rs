//! The kit's suite, and the resolver's own fixtures: one request and its whole answer each.

use std::path::Path;

use kit::resolver::{Fixture, suite};
use mcp_bindings::{Bindings, MANIFEST};
use sdk::manifest::Kind;

#[test]
fn the_manifest_holds() {
    assert_eq!(
        kit::manifest::check(MANIFEST, Kind::McpResolver).err(),
        None
    );
}

#[test]
fn the_suite_passes() {
    assert_eq!(suite(&Bindings), Ok(()));
}

#[test]
fn every_fixture_has_its_answer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let fixtures = Fixture::read_all(&folder).unwrap();
    assert!(fixtures.len() >= 12, "{}", fixtures.len());
    for fixture in fixtures {
        assert_eq!(fixture.check(&Bindings), Ok(()), "{}", fixture.name);
    }
}
