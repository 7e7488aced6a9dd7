//! The same answers over every transport.

use std::path::Path;

use harness_codex::Codex;
use kit::harness::Transcript;
use kit::provider::{Case, suite};
use kit::resolver::Fixture;
use mcp_bindings::Bindings;
use plugin_host::Driver;
use plugin_host::contract::HarnessAdapter;
use sandbox_local::Local;

fn plugins() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins"))
}

#[test]
fn the_codex_adapter_says_the_same_in_every_recorded_conversation() {
    let loaded = crate::both("harness-codex");
    let linked: &dyn HarnessAdapter = &Codex;
    let adapters = [
        linked,
        crate::harness(&loaded[0]),
        crate::harness(&loaded[1]),
    ];
    let folder = plugins().join("harness-codex/tests/transcripts");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let transcript = Transcript::read(&path).unwrap();
        for adapter in adapters {
            transcript
                .replay(adapter)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        replayed += 1;
    }
    assert!(replayed >= 14, "{replayed}");
}

#[test]
fn the_codex_adapter_declares_the_same() {
    let loaded = crate::both("harness-codex");
    let declared = Codex.describe(&[]);
    for plugin in &loaded {
        let adapter = crate::harness(plugin);
        assert_eq!(adapter.describe(&[]), declared);
        assert_eq!(adapter.features(), Codex.features());
        assert_eq!(kit::harness::suite(adapter, &[], &plugin.manifest), Ok(()));
    }
}

#[test]
fn the_local_provider_passes_the_suite_everywhere() {
    let loaded = crate::both("local");
    let case = Case::plain(Vec::new());
    assert_eq!(suite(&Local, &case), Ok(()));
    for plugin in &loaded {
        let Driver::Sandbox(provider) = &plugin.driver else {
            panic!("{plugin:?}");
        };
        assert_eq!(suite(&**provider, &case), Ok(()), "{plugin:?}");
    }
}

#[test]
fn the_resolver_gives_every_fixture_its_answer_everywhere() {
    let loaded = crate::both("mcp-bindings");
    let fixtures = Fixture::read_all(&plugins().join("mcp-bindings/tests/fixtures")).unwrap();
    for plugin in &loaded {
        let Driver::Resolver(resolver) = &plugin.driver else {
            panic!("{plugin:?}");
        };
        assert_eq!(kit::resolver::suite(&**resolver), Ok(()), "{plugin:?}");
        for fixture in &fixtures {
            assert_eq!(fixture.check(&Bindings), Ok(()), "{}", fixture.name);
            assert_eq!(
                fixture.check(&**resolver),
                Ok(()),
                "{plugin:?} {}",
                fixture.name
            );
        }
    }
}

#[test]
fn sessions_of_one_plugin_do_not_share_anything() {
    let loaded = crate::both("faulty");
    for plugin in &loaded {
        let adapter = crate::harness(plugin);
        let open = || adapter.open(crate::faults::configuration("none")).unwrap();
        let (mut one, mut two) = (open(), open());
        for step in 1..4 {
            let said = one.step(Vec::new()).unwrap();
            assert_eq!(said, [crate::faults::said(step)]);
        }
        assert_eq!(two.step(Vec::new()).unwrap(), [crate::faults::said(1)]);
        drop(one);
        assert_eq!(two.step(Vec::new()).unwrap(), [crate::faults::said(2)]);
    }
}
