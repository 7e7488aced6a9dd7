//! Bytes of strangers: damaged components and messages are refused, never a crash and never an allocation of what a length
//! only claims. (Manifests and sections: `load/section.rs`; calls back from a library: `transport/native/host.rs`.)

use std::sync::OnceLock;

use plugin_host::Driver;
use plugin_host::Settings;
use plugin_host::contract::harness_declaration::{Declaration, ProbeVerdict};
use plugin_host::contract::harness_io::Output;
use plugin_host::contract::mcp_types::{McpBinding, ResolveRequest};
use plugin_host::contract::native::messages as m;
use plugin_host::contract::sandbox_types::{Health, Outcome, OwnedPage, ProviderDeclaration};
use plugin_host::load::{PluginFile, section};
use proptest::prelude::*;
use serde::de::DeserializeOwned;

/// Arbitrary bytes, and bytes that begin as a message does: a map, a list or bytes of a length that is not there.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let head = prop_oneof![
        Just(Vec::new()),
        Just(vec![0xdd, 0xff, 0xff, 0xff, 0xff]),
        Just(vec![0xdf, 0xff, 0xff, 0xff, 0xff]),
        Just(vec![0xc6, 0xff, 0xff, 0xff, 0xff]),
        Just(b"\x81\xa6inputs\xdd\xff\xff\xff\xff".to_vec()),
        // Lists in lists in lists.
        Just(vec![0x91; 4096]),
    ];
    (head, proptest::collection::vec(any::<u8>(), 0..512))
        .prop_map(|(head, tail)| [head, tail].concat())
}

fn read<T: DeserializeOwned>(bytes: &[u8]) {
    let _ = rmp_serde::from_slice::<T>(bytes);
}

fn component() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let [component, _] = crate::files("faulty-resolver");
        std::fs::read(component).unwrap()
    })
}

/// Loads it and, should it load, asks it something; any answer will do.
fn try_component(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wasm");
    std::fs::write(&path, bytes).unwrap();
    let Ok(file) = PluginFile::read(&path) else {
        return;
    };
    let Ok(plugin) = file.load(&file.asked(), &Settings::default()) else {
        return;
    };
    if let Driver::Resolver(resolver) = &plugin.driver {
        let _ = resolver.resolve(&ResolveRequest {
            declared: Vec::new(),
            plugins: Vec::new(),
            origins: Vec::new(),
            variables: Vec::new(),
            credentials: Vec::new(),
            abilities: Vec::new(),
            host_features: Vec::new(),
        });
    }
}

proptest! {
    // One decoder reads what a library answers and what it is asked.
    #[test]
    fn any_message_is_decoded_or_refused(bytes in message()) {
        read::<Vec<Output>>(&bytes);
        read::<Vec<Declaration>>(&bytes);
        read::<ProbeVerdict>(&bytes);
        read::<Outcome>(&bytes);
        read::<Health>(&bytes);
        read::<OwnedPage>(&bytes);
        read::<ProviderDeclaration>(&bytes);
        read::<Vec<McpBinding>>(&bytes);
        read::<m::Step>(&bytes);
        read::<m::Open>(&bytes);
        read::<m::Create>(&bytes);
        read::<m::Resolve>(&bytes);
        read::<m::StatePut>(&bytes);
    }
}

proptest! {
    // Each one that is still valid is compiled whole.
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_component_with_any_bytes_changed_is_loaded_or_refused(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        cut in proptest::option::weighted(0.2, any::<proptest::sample::Index>()),
    ) {
        let manifest = section::manifest(component()).unwrap();
        let mut bytes = component().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(end) = cut {
            bytes.truncate(end.index(bytes.len()));
        }
        try_component(&section::with_manifest(&bytes, &manifest));
    }
}
