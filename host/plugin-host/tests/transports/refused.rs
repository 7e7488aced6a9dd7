//! Files that are refused before a call, each with a sentence that says what is wrong and what to do.

use std::collections::BTreeSet;
use std::path::Path;

use plugin_host::contract::manifest::Capability;
use plugin_host::load::{Grants, PluginFile, Refusal, section};
use plugin_host::{Plugins, Settings, Transport};

fn refusal(path: &Path, granted: &BTreeSet<Capability>, settings: &Settings) -> String {
    match PluginFile::read(path).and_then(|file| file.load(granted, settings)) {
        Ok(_) => panic!("{} was loaded", path.display()),
        Err(refusal) => refusal.to_string(),
    }
}

/// The refusal of these bytes as a file of this name.
pub(crate) fn of_bytes(name: &str, bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let machine = BTreeSet::from([Capability::Machine]);
    refusal(&path, &machine, &crate::settings())
}

pub(crate) fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut copy = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = copy[at..]
        .windows(from.len())
        .position(|window| window == from.as_bytes())
    {
        at += found;
        copy[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    assert_ne!(copy, bytes, "{from} is not there");
    copy
}

#[track_caller]
fn says(refusal: &str, words: &[&str]) {
    for word in words {
        assert!(refusal.contains(word), "{word:?} is not in: {refusal}");
    }
}

#[test]
fn what_is_no_plugin_is_refused() {
    says(&of_bytes("a.wasm", b""), &["neither", "berth plugin build"]);
    says(
        &of_bytes("a.wasm", b"#!/bin/sh\n"),
        &["neither", "berth plugin build"],
    );
    says(
        &of_bytes("a.wasm", b"\0asm\x01\0\0\0"),
        &["core module", "berth plugin build"],
    );
    says(
        &of_bytes("a.wasm", b"\0asm\x0d\0\x01\0"),
        &["no plugin.toml", "beside it"],
    );
    says(&of_bytes("a.so", b"\x7fELF"), &["no plugin.toml"]);
}

#[test]
fn a_component_that_is_damaged_is_refused() {
    let [component, library] = crate::files("faulty");
    let bytes = std::fs::read(component).unwrap();
    let manifest = section::manifest(&bytes).unwrap();
    // The manifest is last; what is before it is cut or overwritten.
    for end in [9, bytes.len() / 3, bytes.len() / 2] {
        let cut = section::with_manifest(&bytes[..end], &manifest);
        assert!(!of_bytes("cut.wasm", &cut).is_empty());
    }
    let mut hostile = bytes.clone();
    let (start, end) = (bytes.len() / 4, bytes.len() * 3 / 4);
    hostile[start..end].fill(0xff);
    says(&of_bytes("hostile.wasm", &hostile), &["no valid component"]);
    let library = std::fs::read(library).unwrap();
    let cut = of_bytes("cut.so", &library[..library.len() / 2]);
    says(&cut, &["no plugin.toml"]);
    // With a manifest beside it, it is still not mapped.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.so");
    std::fs::write(path.with_extension("toml"), &manifest).unwrap();
    for end in [64, library.len() / 2, library.len() - 1] {
        std::fs::write(&path, &library[..end]).unwrap();
        let refusal = refusal(&path, &BTreeSet::new(), &crate::settings());
        says(&refusal, &["cut short", "get it again"]);
    }
}

#[test]
fn a_manifest_that_is_wrong_is_refused() {
    let [component, _] = crate::files("faulty");
    let bytes = std::fs::read(component).unwrap();
    let manifest = section::manifest(&bytes).unwrap();
    let with = |from: &str, to: &str| {
        let text = manifest.replace(from, to);
        assert_ne!(text, manifest, "{from}");
        of_bytes("a.wasm", &section::with_manifest(&bytes, &text))
    };
    says(
        &with("id = \"faulty\"\nversion", "ident = 1\nversion"),
        &["plugin.toml", "ident"],
    );
    says(
        &with("version = \"0.1.0\"\nname", "version = \"one\"\nname"),
        &["version", "1.2.3"],
    );
    says(
        &with("contract = \"0.2.0\"", "contract = \"0.3.0\""),
        &["contract 0.3.0", "this Berth has 0.2.0"],
    );
    says(
        &with("id = \"faulty\"\nversion", "id = \"../x\"\nversion"),
        &["not a valid name"],
    );
    let kind = with("kind = \"harness\"", "kind = \"mcp-resolver\"");
    says(&kind, &["plugin.toml", "harness"]);
}

#[test]
fn a_component_of_another_kind_or_contract_is_refused() {
    let [resolver, _] = crate::files("mcp-bindings");
    let [faulty, _] = crate::files("faulty");
    let resolver = std::fs::read(resolver).unwrap();
    let faulty = std::fs::read(faulty).unwrap();
    let harness_manifest = section::manifest(&faulty).unwrap();
    let wrong = section::with_manifest(&resolver, &harness_manifest);
    let refusal = of_bytes("a.wasm", &wrong);
    says(&refusal, &["harness-adapter", "does not export", "mend"]);
    let later = replaced(&faulty, "harness-adapter@0.2.0", "harness-adapter@0.3.0");
    says(
        &of_bytes("a.wasm", &later),
        &["contract 0.3.0", "this Berth has 0.2.0"],
    );
    let foreign = replaced(&faulty, "berth:plugin/log@0.2.0", "other:plugin/log@0.2.0");
    says(
        &of_bytes("a.wasm", &foreign),
        &["other:plugin/log@0.2.0", "not part of"],
    );
}

#[test]
fn a_library_of_another_kind_or_contract_is_refused() {
    let [_, resolver] = crate::files("faulty-resolver");
    let bytes = std::fs::read(resolver).unwrap();
    let wrong = replaced(
        &bytes,
        "name = \"Faulty resolver on request\"\nlicense = \"Apache-2.0\"\nkind = \"mcp-resolver\"",
        "name = \"Faulty resolver on req\"\nlicense = \"Apache-2.0\"\nkind = \"sandbox-provider\"",
    );
    says(
        &of_bytes("a.so", &wrong),
        &["another kind", "mend the kind"],
    );
    let later = replaced(&bytes, "contract = \"0.2.0\"", "contract = \"0.3.0\"");
    says(&of_bytes("a.so", &later), &["contract 0.3.0", "0.2.0"]);
}

#[test]
fn what_is_not_granted_is_not_linked() {
    let [component, library] = crate::files("local");
    for path in [&component, &library] {
        let refusal = refusal(path, &BTreeSet::new(), &crate::settings());
        says(&refusal, &["machine", "--grant machine"]);
    }
    // It imports more than its manifest says.
    let bytes = std::fs::read(component).unwrap();
    let manifest = section::manifest(&bytes).unwrap();
    let modest: String = manifest
        .lines()
        .take_while(|line| !line.starts_with("[permissions]"))
        .collect::<Vec<_>>()
        .join("\n");
    let refusal = of_bytes("a.wasm", &section::with_manifest(&bytes, &modest));
    says(&refusal, &["imports `machine`", "[permissions]"]);
}

#[test]
fn native_plugins_need_the_operators_word() {
    let [_, library] = crate::files("faulty");
    let settings = Settings::default();
    let refusal = refusal(&library, &BTreeSet::new(), &settings);
    says(&refusal, &["all rights", "--allow-native-plugins"]);
}

#[test]
fn a_library_that_is_no_plugin_is_refused() {
    // Any library without a state of its own will do; its manifest lies beside it.
    let foreign = [
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib/aarch64-linux-gnu/libm.so.6",
        "/lib64/libm.so.6",
    ]
    .into_iter()
    .find(|path| Path::new(path).is_file())
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.so");
    std::fs::copy(foreign, &path).unwrap();
    let manifest = "id = \"a\"\nversion = \"1.0.0\"\nname = \"A\"\nlicense = \"MIT\"\nkind = \"mcp-resolver\"\ncontract = \"0.2.0\"\n";
    std::fs::write(path.with_extension("toml"), manifest).unwrap();
    let refusal = refusal(&path, &BTreeSet::new(), &crate::settings());
    says(&refusal, &["no plugin", "berth_plugin_entry_v1", "SDK"]);
}

#[test]
fn one_bad_file_keeps_nobody_else_out() {
    let [component, library] = crate::files("faulty");
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        folder: Some(folder.path().to_owned()),
        allow_native: false,
        ..Settings::default()
    };
    std::fs::write(folder.path().join("broken.wasm"), "no").unwrap();
    std::fs::copy(&component, folder.path().join("good.wasm")).unwrap();
    let plugins = Plugins::open(&settings).unwrap();
    assert_eq!(
        plugins.get("faulty").unwrap().transport,
        Transport::Component
    );
    assert_eq!(plugins.refused().len(), 1);
    says(&plugins.refused()[0].to_string(), &["broken.wasm"]);
    assert!(!plugins.is_stale(&settings));

    // Two files with one id: neither, and each names the other.
    std::fs::copy(&library, folder.path().join("same.so")).unwrap();
    assert!(plugins.is_stale(&settings));
    let plugins = Plugins::open(&settings).unwrap();
    assert!(plugins.get("faulty").is_none());
    let refused: Vec<String> = plugins.refused().iter().map(ToString::to_string).collect();
    assert!(
        refused
            .iter()
            .any(|text| text.contains("good.wasm: ") && text.contains("same.so")),
        "{refused:?}"
    );
}

#[test]
fn a_file_takes_the_place_of_the_linked_plugin_of_its_id() {
    let [component, _] = crate::files("local");
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        folder: Some(folder.path().to_owned()),
        allow_native: false,
        ..Settings::default()
    };
    let path = folder.path().join("local.wasm");
    std::fs::copy(&component, &path).unwrap();
    // Dropped in without a grant, the linked one stays.
    let plugins = Plugins::open(&settings).unwrap();
    assert_eq!(plugins.get("local").unwrap().transport, Transport::BuiltIn);
    says(&plugins.refused()[0].to_string(), &["--grant machine"]);
    let mut grants = Grants::default();
    let digest = PluginFile::read(&path).unwrap().digest;
    grants.grant(&digest, [Capability::Machine].into());
    grants.write(folder.path()).unwrap();
    let plugins = Plugins::open(&settings).unwrap();
    assert_eq!(
        plugins.get("local").unwrap().transport,
        Transport::Component
    );
    // A grant is for one file: a changed one asks again.
    let bytes = std::fs::read(&path).unwrap();
    let manifest = section::manifest(&bytes).unwrap();
    let changed = section::with_manifest(&bytes, &manifest.replace("This machine", "That machine"));
    std::fs::write(&path, changed).unwrap();
    let plugins = Plugins::open(&settings).unwrap();
    assert!(matches!(
        plugins.refused()[0].reason,
        Refusal::NotGranted(_)
    ));
}

#[test]
fn a_compiled_component_is_kept_and_a_damaged_one_is_made_again() {
    let [component, _] = crate::files("mcp-bindings");
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        folder: Some(folder.path().to_owned()),
        allow_native: false,
        ..Settings::default()
    };
    std::fs::copy(&component, folder.path().join("mcp-bindings.wasm")).unwrap();
    let compiled = || -> Vec<_> {
        let cache = std::fs::read_dir(folder.path().join(".cache")).unwrap();
        cache.map(|entry| entry.unwrap().path()).collect()
    };
    let load = || {
        let plugins = Plugins::open(&settings).unwrap();
        assert_eq!(
            plugins.get("mcp-bindings").unwrap().transport,
            Transport::Component
        );
    };
    load();
    let kept = compiled();
    assert_eq!(kept.len(), 1);
    load();
    assert_eq!(compiled(), kept);
    std::fs::write(&kept[0], "damaged").unwrap();
    load();
    assert!(std::fs::metadata(&kept[0]).unwrap().len() > 1000);
}

#[test]
fn a_file_that_is_replaced_while_it_runs_goes_on() {
    for file in crate::files("faulty") {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            folder: Some(folder.path().to_owned()),
            allow_native: true,
            ..Settings::default()
        };
        let path = folder.path().join(file.file_name().unwrap());
        std::fs::copy(&file, &path).unwrap();
        let plugins = Plugins::open(&settings).unwrap();
        let adapter = crate::harness(plugins.get("faulty").unwrap());
        let open = || adapter.open(crate::faults::configuration("none")).unwrap();
        let mut session = open();
        // In place, as a careless copy does it.
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        assert_eq!(session.step(Vec::new()).unwrap(), [crate::faults::said(1)]);
        assert!(Plugins::open(&settings).unwrap().get("faulty").is_none());
        assert_eq!(session.step(Vec::new()).unwrap(), [crate::faults::said(2)]);
        assert_eq!(open().step(Vec::new()).unwrap(), [crate::faults::said(1)]);
    }
}
