//! What stands between a process and a thread.

use sdk::common::Effect;
use sdk::harness_io::{Input, Looked, Output};
use sdk::harness_launch::LookAnswer;
use sdk::harness_session::{History, Workspace};
use serde_json::{Value, json};

use crate::frames::*;
use crate::support::configuration;

/// CDX-005: fails closed if Codex would have somewhere to run commands.
#[test]
fn without_an_environment_nothing_may_offer_one() {
    let mut configuration = configuration();
    configuration.workspace = Workspace::Absent;
    let mut bench = launched(&configuration);
    let outputs = answered(
        &mut bench,
        &[
            json!({"result": {}}),
            json!({"result": {"status": "unknown"}}),
            json!({"result": {"status": "ready"}}),
        ],
    );
    assert_eq!(refusal(&outputs), ("program_failed", Effect::None));
}

/// CDX-007, CDX-011: what the machine's own configuration of Codex adds or forces is never run, whatever it is.
#[test]
fn another_effective_configuration_is_refused() {
    let base_url = "model_providers.berth.base_url";
    let managed = json!({"name": {"type": "legacyManagedConfigTomlFromFile"}});
    for (part, member, value) in [
        (
            "config",
            "mcp_servers",
            json!({"evil": {"command": "touch"}}),
        ),
        ("config", "model_provider", json!("openai")),
        ("config", "approval_policy", json!("on-request")),
        ("config", "sandbox_mode", json!("read-only")),
        ("config", "web_search", json!("live")),
        ("config", "features", json!({"code_mode": true})),
        ("config", "features", json!({"code_mode_only": true})),
        ("config", "features", json!({"code_mode_prewarm": true})),
        (
            "config",
            "features",
            json!({"code_mode": {"enabled": true}}),
        ),
        ("origins", base_url, managed),
        ("origins", base_url, json!(null)),
    ] {
        let mut bench = launched(&configuration());
        let mut config = config();
        config["result"][part][member] = value.clone();
        let outputs = answered(&mut bench, &[json!({"result": {}}), config]);
        let expected = ("program_failed", Effect::None);
        assert_eq!(refusal(&outputs), expected, "{member} {value}");
    }
}

/// CDX-003: a thread that another provider would serve is not used.
#[test]
fn a_thread_with_another_model_provider_is_refused() {
    let mut bench = launched(&configuration());
    let mut thread = thread("t");
    thread["result"]["modelProvider"] = json!("openai");
    let outputs = answered(&mut bench, &[json!({"result": {}}), config(), thread]);
    assert_eq!(refusal(&outputs), ("program_failed", Effect::None));
}

/// HIS-001 to HIS-003.
#[test]
fn history_is_never_guessed() {
    let mut configuration = configuration();
    configuration.history = History::Recover;
    let row = |id: &str, cwd: &str| json!({"id": id, "cwd": cwd, "parentThreadId": null, "source": "vscode"});
    let list = |rows: Vec<Value>| json!({"result": {"data": rows, "nextCursor": null}});
    let cases = [
        (list(vec![row("a", "/elsewhere")]), "history_missing"),
        (
            list(vec![
                row("a", "/home/agent/work"),
                row("b", "/home/agent/work"),
            ]),
            "history_ambiguous",
        ),
    ];
    for (answer, code) in cases {
        let mut bench = launched(&configuration);
        let outputs = answered(&mut bench, &[json!({"result": {}}), config(), answer]);
        assert_eq!(refusal(&outputs), (code, Effect::None));
    }
    // What is not listed took no message: the newest of those that we named.
    let names = br#"{"id":"a","thread_name":"berth"}
{"id":"b","thread_name":"berth"}
"#;
    for (answer, resumed) in [
        (LookAnswer::Missing, None),
        (LookAnswer::Failed("unreadable".into()), None),
        (LookAnswer::Content(b"{}".into()), None),
        (LookAnswer::Content(names.into()), Some("b")),
    ] {
        let mut bench = launched(&configuration);
        let outputs = answered(&mut bench, &[json!({"result": {}}), config(), list(vec![])]);
        let [Output::Look(look)] = outputs.as_slice() else {
            panic!("{outputs:?}");
        };
        let look = look.look;
        let outputs = bench
            .step(vec![Input::Looked(Looked { look, answer })])
            .unwrap();
        match resumed {
            None => assert_eq!(refusal(&outputs), ("history_missing", Effect::None)),
            Some(thread) => {
                let asked = format!("{outputs:?}");
                assert!(asked.contains("thread/resume"), "{asked}");
                assert!(asked.contains(&format!("\\\"{thread}\\\"")), "{asked}");
            }
        }
    }
    configuration.history = History::Resume("t".into());
    for (message, code) in [
        ("no rollout found for thread id t", "history_missing"),
        ("thread t already has an active writer", "history_in_use"),
        ("something else", "program_failed"),
    ] {
        let mut bench = launched(&configuration);
        let error = json!({"error": {"code": -32600, "message": message}});
        let outputs = answered(&mut bench, &[json!({"result": {}}), config(), error]);
        assert_eq!(refusal(&outputs), (code, Effect::None));
    }
    let mut bench = launched(&configuration);
    let outputs = answered(
        &mut bench,
        &[json!({"result": {}}), config(), thread("another")],
    );
    assert_eq!(refusal(&outputs), ("program_failed", Effect::None));
}
