//! Turns that go well, are steered, cancelled, cut off and continued.

use kit::harness::Rig;
use sdk::harness_events::DeltaKind;
use sdk::harness_io::{AddMessage, CancelTurn, Command, Output};
use sdk::harness_session::{History, Workspace};
use serde_json::json;

use crate::stage::*;

#[test]
fn text() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    let messages = vec![
        message("in_1", "First of two."),
        scripted(
            "in_2",
            &json!([{"steps": [{"think": "The user wants a greeting."}, {"say": "Hello from the model."}]}]),
        ),
    ];
    start(&mut rig, "run_1", messages);
    settle(&mut rig);
    turn(
        &mut rig,
        "run_2",
        "in_3",
        &json!([{"steps": [{"say": "And again."}]}]),
    );
    close(&mut rig);
    stage.keep(rig, "text");
}

#[test]
fn none() {
    let stage = Stage::new();
    let mut configuration = stage.configuration(History::Fresh);
    configuration.workspace = Workspace::Absent;
    configuration.parameters = r#"{"model_reasoning_effort":"low"}"#.into();
    configuration.options.verbosity = Some("high".into());
    let mut rig = stage.open(configuration);
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([
            {"steps": [{"call": {"name": "exec_command", "arguments": {"cmd": "echo out"}}}]},
            {"steps": [{"say": "There is no shell: {{output}}"}]},
        ]),
    );
    close(&mut rig);
    stage.keep(rig, "none");
}

#[test]
fn command() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([
            {"steps": [{"shell": "for i in 1 2 3; do echo line $i; sleep 0.4; done; exit 3"}]},
            {"steps": [{"patch": "*** Begin Patch\n*** Add File: note.txt\n+one\n+two\n*** End Patch\n"}]},
            {"steps": [{"patch": "*** Begin Patch\n*** Update File: note.txt\n@@\n one\n-two\n+three\n*** End Patch\n"}]},
            {"steps": [{"say": "Done."}]},
        ]),
    );
    close(&mut rig);
    stage.keep(rig, "command");
}

#[test]
fn background_command() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([
            {"steps": [{"call": {"name": "exec_command",
                "arguments": {"cmd": "echo begun; sleep 600", "yield_time_ms": 300}}}]},
            {"steps": [{"say": "It runs on."}]},
        ]),
    );
    turn(
        &mut rig,
        "run_2",
        "in_2",
        &json!([{"steps": [{"say": "Still here."}]}]),
    );
    close(&mut rig);
    stage.keep(rig, "background_command");
}

#[test]
fn steer() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    start(
        &mut rig,
        "run_1",
        vec![scripted(
            "in_1",
            &json!([
                {"steps": [{"say": {"text": "word ", "every_ms": 30, "times": 20}}]},
            ]),
        )],
    );
    // One before the Turn runs, one in the middle of the answer.
    let add = |id: &str, say: &str| {
        let message = scripted(id, &json!([{"steps": [{"say": say}]}]));
        Command::AddMessage(AddMessage {
            run: "run_1".into(),
            message,
        })
    };
    delta(&mut rig, DeltaKind::Text);
    rig.command(add("in_2", "Steered.")).unwrap();
    received(&mut rig, "in_2");
    settle(&mut rig);
    rig.command(add("in_3", "Too late.")).unwrap();
    close(&mut rig);
    stage.keep(rig, "steer");
}

#[test]
fn cancel_command() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    start(
        &mut rig,
        "run_1",
        vec![scripted(
            "in_1",
            &json!([
                {"steps": [{"say": "I start."}, {"shell": "echo begun; sleep 1; echo more; sleep 600"}]},
            ]),
        )],
    );
    delta(&mut rig, DeltaKind::Output);
    rig.command(Command::CancelTurn(CancelTurn {
        id: "cancel_1".into(),
        run: "run_1".into(),
    }))
    .unwrap();
    received(&mut rig, "cancel_1");
    turn(
        &mut rig,
        "run_2",
        "in_2",
        &json!([{"steps": [{"say": "Ready again."}]}]),
    );
    rig.command(Command::CancelTurn(CancelTurn {
        id: "cancel_2".into(),
        run: "run_2".into(),
    }))
    .unwrap();
    close(&mut rig);
    stage.keep(rig, "cancel_command");
}

#[test]
fn cancel_at_once() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    start(
        &mut rig,
        "run_1",
        vec![scripted("in_1", &json!([{"steps": ["hang"]}]))],
    );
    rig.command(Command::CancelTurn(CancelTurn {
        id: "cancel_1".into(),
        run: "run_1".into(),
    }))
    .unwrap();
    received(&mut rig, "cancel_1");
    close(&mut rig);
    stage.keep(rig, "cancel_at_once");
}

#[test]
fn resume_and_recover() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([{"steps": [{"say": "Remember me."}]}]),
    );
    start(
        &mut rig,
        "run_2",
        vec![scripted(
            "in_2",
            &json!([{"steps": [{"say": "Half a"}, "hang"]}]),
        )],
    );
    delta(&mut rig, DeltaKind::Text);
    rig.kill(0).unwrap();
    settle(&mut rig);
    let thread = thread(&rig);
    stage.keep(rig, "killed");

    let mut rig = stage.open(stage.configuration(History::Resume(thread)));
    turn(
        &mut rig,
        "run_3",
        "in_3",
        &json!([{"steps": [{"say": "Resumed."}]}]),
    );
    close(&mut rig);
    stage.keep(rig, "resume");

    let mut rig = stage.open(stage.configuration(History::Recover));
    turn(
        &mut rig,
        "run_4",
        "in_4",
        &json!([{"steps": [{"say": "Recovered."}]}]),
    );
    close(&mut rig);
    stage.keep(rig, "recover");

    let missing = History::Resume("01a22cc0-b147-7d11-8560-ca3efa6ddb99".into());
    let mut rig = stage.open(stage.configuration(missing));
    close(&mut rig);
    stage.keep(rig, "resume_missing");
}

#[test]
fn recover_empty() {
    let stage = Stage::new();
    let mut rig = stage.fresh();
    rig.kill(0).unwrap();
    rig.until(LIMIT, |output| matches!(output, Output::Retire(_)))
        .unwrap();
    let mut rig = stage.open(stage.configuration(History::Recover));
    turn(
        &mut rig,
        "run_1",
        "in_1",
        &json!([{"steps": [{"say": "From the beginning."}]}]),
    );
    close(&mut rig);
    stage.keep(rig, "recover_empty");
}

fn thread(rig: &Rig) -> String {
    rig.outputs()
        .find_map(|output| match output {
            Output::Prepared(Ok(session)) => Some(session.id.clone()),
            _ => None,
        })
        .unwrap()
}
