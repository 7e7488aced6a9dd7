//! The arrows between our rooms: each crate may use the crates of its row and no other of ours.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Room (its folder) and what it may use. Development-only uses are in [`IN_TESTS`].
const MAY_USE: &[(&str, &[&str])] = &[
    ("host/domain", &[]),
    ("host/protocol", &["host/domain"]),
    ("host/seal", &["host/domain"]),
    ("host/crash", &[]),
    ("host/store", &["host/domain", "host/seal", "host/crash"]),
    ("host/blobs", &["host/domain", "host/seal"]),
    ("host/net", &["host/domain"]),
    ("host/machine", &["host/domain"]),
    (
        "host/plugin-host",
        &[
            "host/domain",
            "host/net",
            "host/machine",
            "plugin-api/contract",
        ],
    ),
    (
        "host/core",
        &[
            "host/domain",
            "host/crash",
            "host/protocol",
            "host/store",
            "host/blobs",
            "host/seal",
            "host/net",
            "host/machine",
            "host/plugin-host",
        ],
    ),
    (
        "host/runtime",
        &[
            "host/domain",
            "host/crash",
            "host/protocol",
            "host/net",
            "host/machine",
            "host/plugin-host",
        ],
    ),
    (
        "host/berth",
        &[
            "host/core",
            "host/runtime",
            "host/domain",
            "host/net",
            "host/machine",
            "host/plugin-host",
            "plugins/sandbox-local",
            "plugins/harness-codex",
            "plugins/mcp-bindings",
            "plugin-api/kit",
        ],
    ),
    ("plugin-api/contract", &[]),
    ("plugin-api/sdk", &["plugin-api/contract"]),
    ("plugin-api/kit", &["plugin-api/contract"]),
    ("plugins/sandbox-local", &["plugin-api/sdk"]),
    ("plugins/harness-codex", &["plugin-api/sdk"]),
    ("plugins/mcp-bindings", &["plugin-api/sdk"]),
    (
        "tests/xtask",
        &["host/domain", "host/protocol", "plugin-api/kit"],
    ),
    (
        "tests/simulation",
        &["host/domain", "host/protocol", "plugin-api/kit"],
    ),
    (
        "tests/scripted",
        &["host/domain", "host/protocol", "plugin-api/kit"],
    ),
    ("tests/faulty/breaking", &[]),
    (
        "tests/faulty/harness",
        &["plugin-api/sdk", "tests/faulty/breaking"],
    ),
    (
        "tests/faulty/provider",
        &["plugin-api/sdk", "tests/faulty/breaking"],
    ),
    (
        "tests/faulty/resolver",
        &["plugin-api/sdk", "tests/faulty/breaking"],
    ),
    (
        "tests/suites",
        &["host/domain", "host/protocol", "plugin-api/kit"],
    ),
    (
        "tests/bench",
        &[
            "host/domain",
            "host/protocol",
            "host/store",
            "host/plugin-host",
            "plugins/sandbox-local",
            "plugins/harness-codex",
        ],
    ),
];

/// What a room's own tests may use besides.
const IN_TESTS: &[(&str, &[&str])] = &[
    // Three transports of the same plugins.
    (
        "host/plugin-host",
        &[
            "plugin-api/kit",
            "plugins/harness-codex",
            "plugins/sandbox-local",
            "plugins/mcp-bindings",
        ],
    ),
    // Its own features, switched on for its tests.
    ("host/store", &["host/store"]),
    // The whole Runtime side is proven with the real binary.
    ("host/berth", &["host/protocol"]),
    // The Executor is proven with a real adapter.
    ("host/runtime", &["plugins/harness-codex"]),
    (
        "host/core",
        &[
            "plugins/harness-codex",
            "plugins/sandbox-local",
            "host/store",
        ],
    ),
    ("plugins/sandbox-local", &["plugin-api/kit"]),
    ("plugins/harness-codex", &["plugin-api/kit"]),
    ("plugins/mcp-bindings", &["plugin-api/kit"]),
];

#[test]
fn no_room_uses_another_that_it_may_not() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap();
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root)
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata");
    let packages = metadata["packages"].as_array().unwrap();
    let room = |path: &str| {
        Path::new(path)
            .strip_prefix(root)
            .ok()
            .map(|path| path.display().to_string())
    };
    let rows: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let tests: BTreeMap<&str, &[&str]> = IN_TESTS.iter().copied().collect();

    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for package in packages {
        let name = room(
            Path::new(package["manifest_path"].as_str().unwrap())
                .parent()
                .unwrap()
                .to_str()
                .unwrap(),
        )
        .unwrap();
        let Some(may) = rows.get(name.as_str()) else {
            wrong.push(format!("{name} is no room of the table"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let Some(target) = dependency["path"].as_str().and_then(room) else {
                continue;
            };
            let in_tests = dependency["kind"] == "dev"
                && tests
                    .get(name.as_str())
                    .is_some_and(|list| list.contains(&target.as_str()));
            if !may.contains(&target.as_str()) && !in_tests {
                wrong.push(format!("{name} -> {target}"));
            }
        }
        seen.insert(name);
    }
    let missing: Vec<&&str> = rows.keys().filter(|name| !seen.contains(**name)).collect();
    assert!(
        wrong.is_empty() && missing.is_empty(),
        "arrows that the table does not have: {wrong:#?}; rooms that are gone: {missing:?}"
    );
}
