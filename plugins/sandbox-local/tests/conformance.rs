//! The kit's discipline for providers: manifest, and the six results under every fault of the machine.

use kit::provider::{Case, suite};
use sandbox_local::Local;
use sdk::manifest::Kind;

#[test]
fn the_manifest_holds() {
    let text = include_str!("../plugin.toml");
    assert_eq!(
        kit::manifest::check(text, Kind::SandboxProvider).err(),
        None
    );
}

#[test]
fn the_six_results_are_kept_apart() {
    assert_eq!(suite(&Local, &Case::plain(Vec::new())), Ok(()));
}
