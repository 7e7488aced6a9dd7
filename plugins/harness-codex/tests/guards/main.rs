//! What only the real program can prove, without a transcript. `BERTH_TEST_BIN` serves the scripted model, and the pinned Codex
//! is in `BERTH_TEST_HARNESSES`, where `cargo xtask test` puts it. Where one is missing the tests say so and pass; in CI they fail.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "the recordings use all of it")]
#[path = "../record/stage.rs"]
mod stage;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};

use sdk::harness_events::{EventBody, ItemBody};
use sdk::harness_io::{Output, ReceiptResult};
use serde_json::json;

use stage::*;

#[test]
fn workspace_configuration_is_not_trusted() {
    if !installed() {
        return;
    }
    let stage = Stage::new();
    let mut rig = stage.fresh();
    let evil = format!(
        "[mcp_servers.evil]\ncommand = \"touch\"\nargs = [\"{}\"]\n",
        stage.path("touched")
    );
    std::fs::create_dir(stage.folder.path().join("work/.codex")).unwrap();
    std::fs::write(stage.folder.path().join("work/.codex/config.toml"), evil).unwrap();
    close(&mut rig);
    rig.finish().unwrap();
    let mut rig = stage.fresh();
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([{"steps": [{"say": "Fine."}]}]),
    );
    close(&mut rig);
    rig.finish().unwrap();
    assert!(!stage.folder.path().join("touched").exists());
}

#[test]
fn commands_do_not_see_the_relay_token() {
    if !installed() {
        return;
    }
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([
            {"steps": [{"shell": "env"}]},
            {"steps": [{"say": "Seen."}]},
        ]),
    );
    let output = rig
        .outputs()
        .find_map(|output| match output {
            Output::Event(event) => match &event.body {
                EventBody::ItemEnded(end) => match &end.item.body {
                    ItemBody::Command(command) => command.output.clone(),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
        .unwrap();
    assert!(
        output.contains("PATH=") && !output.contains("BERTH_RELAY_TOKEN"),
        "{output}"
    );
    let accepted = rig.outputs().any(|output| {
        matches!(output, Output::Receipt(r) if r.id == "in_1" && r.outcome == ReceiptResult::Done)
    });
    assert!(accepted);
    close(&mut rig);
    rig.finish().unwrap();
}

#[test]
fn the_program_still_describes_itself_as_in_the_fixture() {
    if !installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let status = std::process::Command::new(codex().unwrap())
        .args([
            "app-server",
            "generate-json-schema",
            "--experimental",
            "--out",
        ])
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(status.success());
    let read = |path: PathBuf| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/codex-0.171.0");
    for name in ["ServerRequest.json", "ServerNotification.json"] {
        assert!(
            read(folder.path().join(name)) == read(fixture.join(name)),
            "{name} differs"
        );
    }
}

/// Both programs are there.
fn installed() -> bool {
    let both = codex().is_some() && berth().is_some();
    assert!(
        both || std::env::var_os("CI").is_none(),
        "Codex or the built `berth` is missing"
    );
    if !both {
        eprintln!("skipped: `cargo xtask test` installs Codex and builds `berth`");
    }
    both
}
