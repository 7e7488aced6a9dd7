//! The fault cases of a harness, as far as they are the Runtime's.

use std::time::{Duration, Instant};

use domain::run::{FailureCode, ItemStatus, PrepareCode, PrepareState, RunFailure};
use protocol::wire::{CancelReason, RunCancel, RunInput};

use super::*;

fn failure(events: &[RunEvent]) -> Option<RunFailure> {
    events.iter().find_map(|event| match &event.body {
        EventBody::Error(failure) => Some(failure.clone()),
        _ => None,
    })
}

async fn cancel(bench: &Bench, core: &mut Connection, run_id: domain::RunId) -> TurnStatus {
    let reason = CancelReason::Requested;
    match core
        .answer(
            bench.binding,
            Operation::RunCancel(RunCancel { run_id, reason }),
        )
        .await
    {
        Answer::Ok(Proof::Cancelled(proof)) if proof.settled => proof.outcome,
        other => panic!("{other:?}"),
    }
}

// F01: the harness is alive and deaf; the tree is killed after the grace, the receipt comes within 15 s, the next Turn resumes.
#[tokio::test(flavor = "multi_thread")]
async fn f01_an_interrupt_that_is_never_acknowledged() {
    let Some((bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let native = bench.first_turn(&mut core).await;
    let text = r#"timeline: [{"begin": "I am"}, "deaf"]"#;
    let run = bench
        .begin(&mut core, History::Resume(native.clone()), text)
        .await;
    let asked = Instant::now();
    assert_eq!(cancel(&bench, &mut core, run).await, TurnStatus::Cancelled);
    assert!(
        asked.elapsed() < Duration::from_secs(15),
        "{:?}",
        asked.elapsed()
    );
    let events = core.done().await;
    assert_eq!(outcome(&events), TurnStatus::Cancelled);
    assert_eq!(bench.next_turn(&mut core, &native, "Next.").await, "Next.");
}

// F03: a harness that closes its output can say nothing any more; one that ends in the middle of a Turn has failed.
#[tokio::test(flavor = "multi_thread")]
async fn f03_a_harness_that_ends_or_falls_silent_in_a_turn() {
    let Some((bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let native = bench.first_turn(&mut core).await;
    for step in [r#""close_stdout""#, r#"{"exit": 3}"#, r#""kill""#] {
        let text = format!(r#"timeline: [{{"begin": "half"}}, {step}]"#);
        let events = bench
            .turn(&mut core, History::Resume(native.clone()), &text)
            .await;
        assert!(
            matches!(outcome(&events), TurnStatus::Failed | TurnStatus::Unknown),
            "{step}: {events:#?}"
        );
    }
    bench.next_turn(&mut core, &native, "Next.").await;
}

// F05: one enormous line is not the end of the stream, and output is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn f05_one_enormous_line() {
    let Some((bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let text = r#"timeline: [{"huge_line": 20000000}, {"flood": {"lines": 3000, "bytes": 1000}}, {"say": "Seen."}]"#;
    let events = bench.turn(&mut core, History::Fresh, text).await;
    assert_eq!(
        (outcome(&events), answer_text(&events).as_str()),
        (TurnStatus::Completed, "Seen.")
    );
    let mut sent = 0;
    for event in &events {
        match &event.body {
            EventBody::Delta(delta) if delta.kind == domain::run::DeltaKind::Output => {
                sent += delta.text.len()
            }
            EventBody::ItemEnded(end) => {
                if let ItemBody::Command(command) = &end.item.body {
                    let output = command.output.as_deref().unwrap_or_default();
                    assert!(output.len() <= 1 << 20, "{}", output.len());
                }
            }
            _ => {}
        }
    }
    assert!(sent <= 1 << 20, "{sent}");
}

// F05: what becomes six bytes on the wire, and what no rule of its own cuts, ends neither the Turn nor the connection.
#[tokio::test(flavor = "multi_thread")]
async fn f05_control_characters_and_a_large_patch() {
    let Some((bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let text = r#"timeline: [{"flood": {"lines": 1, "bytes": 700000, "fill": "\u0000"}}, {"patch": 4194304}, {"say": "Seen."}]"#;
    let events = bench.turn(&mut core, History::Fresh, text).await;
    assert_eq!(
        (outcome(&events), answer_text(&events).as_str()),
        (TurnStatus::Completed, "Seen.")
    );
    let cut: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ItemEnded(end) => match &end.item.body {
                ItemBody::Command(command) => command.output.clone(),
                ItemBody::FileChanges(changes) => changes[0].diff.clone(),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(cut.len(), 2);
    for text in cut {
        let last = text.lines().last().unwrap_or_default().to_owned();
        assert!(
            last.starts_with("[cut: ") && last.ends_with(" bytes]"),
            "{last}"
        );
    }
}

// F06: a grandchild that outlives its command ends with the harness.
#[tokio::test(flavor = "multi_thread")]
async fn f06_a_grandchild_that_keeps_the_pipe() {
    let Some((bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let script = "(setsid sleep 600 & echo $! > pid) ; echo ready";
    let text =
        format!(r#"timeline: [{{"start": "{script}"}}, {{"await_file": "pid"}}, {{"exit": 0}}]"#);
    let began = Instant::now();
    let events = bench.turn(&mut core, History::Fresh, &text).await;
    assert!(
        matches!(outcome(&events), TurnStatus::Failed | TurnStatus::Unknown),
        "{events:#?}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    let pid = std::fs::read_to_string(bench.workspace().join("pid")).unwrap();
    eventually("the grandchild still runs", || {
        !Path::new("/proc").join(pid.trim()).exists()
    })
    .await;
}

// F08, RP-12.6: a message that the Turn never took prevents completion, and is never sent again.
#[tokio::test(flavor = "multi_thread")]
async fn f08_a_message_that_is_not_taken() {
    let Some(mut bench) =
        Bench::with(Limits::default(), r#"{"refuse": {"turn/steer": "no"}}"#).await
    else {
        return;
    };
    let mut core = bench.ready().await;
    let text = r#"timeline: [{"begin": "I am"}, {"await_file": "go"}, {"say": "Done."}]"#;
    let run_id = bench.begin(&mut core, History::Fresh, text).await;
    let request = protocol::wire::Request::input(bench.binding, run_id, core::message("more"));
    let id = request.id;
    core.send(protocol::core_end::Command::Request {
        request: Box::new(request),
        body: None,
    });
    let settled = core.settled(id).await;
    assert!(
        !matches!(settled, protocol::core_end::Settled::Receipt(Answer::Ok(_))),
        "{settled:?}"
    );
    std::fs::write(bench.workspace().join("go"), "").unwrap();
    let events = core.done().await;
    assert_eq!(outcome(&events), TurnStatus::Failed, "{events:#?}");
    // Another Run is addressed by nobody (RP-2.5).
    let other = RunInput {
        run_id: domain::RunId::new(Uuid::now_v7()),
        message: core::message("x"),
    };
    assert!(matches!(
        core.answer(bench.binding, Operation::RunInput(other)).await,
        Answer::Rejected(_)
    ));
}

// F09: a history that is gone fails the preparation with its reason; nothing native runs.
#[tokio::test(flavor = "multi_thread")]
async fn f09_a_history_that_is_gone() {
    let Some((bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let configuration = bench.configuration(&core, History::Resume(Uuid::now_v7().to_string()));
    let (_, state) = core.prepare(bench.binding, configuration).await;
    assert_eq!(state, Ok(PrepareState::Failed(PrepareCode::HistoryMissing)));
    eventually("a harness is left", || bench.harness_processes() == 0).await;
    let events = bench
        .turn(&mut core, History::Fresh, r#"timeline: [{"say": "Next."}]"#)
        .await;
    assert_eq!(outcome(&events), TurnStatus::Completed);
}

// F15: no separator of Unicode cuts a frame, and text arrives as it was.
#[tokio::test(flavor = "multi_thread")]
async fn f15_unicode_separators() {
    let Some((bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let odd = "a\u{2028}b\u{2029}c\u{85}d\u{feff}🦀";
    let text = format!("timeline: [{{\"say\": \"{odd}\"}}]")
        .replace('\u{85}', "\\u0085")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let events = bench.turn(&mut core, History::Fresh, &text).await;
    assert_eq!(answer_text(&events), odd);
}

// RP-9.7, HAR-002: no program, no binding; nothing is installed.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_program_is_not_offered_and_found_when_it_comes() {
    let Some(mut bench) = Bench::start().await else {
        return;
    };
    let core = bench.core.connection().await;
    assert!(core.hello.harnesses[0].available);
    let version = bench.folder.path().join("harnesses/codex/0.171.0");
    let aside = bench.folder.path().join("aside");
    std::fs::rename(&version, &aside).unwrap();
    drop(core);
    bench.restart();
    let mut core = bench.core.connection().await;
    assert!(
        core.hello.harnesses.iter().all(|offer| !offer.available),
        "{:?}",
        core.hello.harnesses
    );
    // RP-7, the rescan: more than before needs another `hello`.
    std::fs::rename(&aside, &version).unwrap();
    core.offered(true).await;
}

// HAR-002: without the pin the newest version of the range runs, which is not the last one in the alphabet.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_qualified_version_is_chosen() {
    let mut linked = plugin_host::Plugins::built_in()
        .unwrap()
        .harnesses()
        .unwrap();
    linked.retain(|harness| harness.declaration.id.as_str() == "codex");
    linked[0].range = ">=0.9.0, <0.200.0".parse().unwrap();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    for version in ["0.9.0", "0.10.0", "0.9.5", "1.0.0"] {
        let program = folder.path().join(PROGRAM.replace("0.171.0", version));
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        std::fs::write(&program, format!("#!/bin/sh\necho codex-cli {version}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
    }
    let spawner = machine::process::Spawner::new(BERTH);
    let placement = domain::run::Placement::Hosted;
    let found =
        runtime::harness::Catalogue::discover(&linked, folder.path(), placement, &spawner).await;
    let offers = found.offers();
    assert!(
        offers[0].available && offers[0].version == "0.10.0",
        "{offers:?}"
    );
}

// RP-7.2: a probe that failed because the machine had a bad moment is repeated, without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_fails_once_is_not_the_last_word() {
    let Some(mut bench) = Bench::start().await else {
        return;
    };
    let before = bench.core.connection().await;
    bench.kill();
    drop(before);
    let program = bench.folder.path().join("harnesses").join(PROGRAM);
    std::fs::rename(&program, program.with_file_name("scripted")).unwrap();
    let script = "#!/bin/sh\nif mkdir \"${0%/*}/tried\" 2>/dev/null; then exit 1; fi\nexec \"${0%/*}/scripted\" \"$@\"\n";
    std::fs::write(&program, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    bench.restart();
    let mut core = bench.core.connection().await;
    assert!(!core.hello.harnesses[0].available);
    core.offered(true).await;
    bench.bind(&mut core).await;
    bench.initialize(&mut core).await;
    bench.first_turn(&mut core).await;
}

// A process that ends in preparation is said to have failed, not to be slow.
#[tokio::test(flavor = "multi_thread")]
async fn a_harness_that_ends_at_once_fails_the_preparation() {
    let Some(mut bench) = Bench::with(Limits::default(), r#"{"start": [{"exit": 1}]}"#).await
    else {
        return;
    };
    let mut core = bench.ready().await;
    let configuration = bench.configuration(&core, History::Fresh);
    let (_, state) = core.prepare(bench.binding, configuration).await;
    assert!(
        matches!(state, Ok(PrepareState::Failed(code)) if code.ends_pending_input()),
        "{state:?}"
    );
}

// S-CAN-7: what a cancelled Turn left running, in a session of its own, is gone before the Turn's end is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_what_left_the_harness() {
    let Some((bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let script = "(setsid sleep 600 & echo $! > pid) ; echo ready";
    let text = format!(r#"timeline: [{{"start": "{script}"}}, {{"await_file": "pid"}}, "hang"]"#);
    let run = bench.begin(&mut core, History::Fresh, &text).await;
    let pid = bench.workspace().join("pid");
    eventually("the command does not run", || {
        std::fs::read_to_string(&pid).is_ok_and(|pid| !pid.is_empty())
    })
    .await;
    assert_eq!(cancel(&bench, &mut core, run).await, TurnStatus::Cancelled);
    let pid = std::fs::read_to_string(&pid).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists());
    let events = core.done().await;
    assert_eq!(outcome(&events), TurnStatus::Cancelled, "{events:#?}");
}

// S-CAN-5: what a cancel cut off is reported as incomplete, and the process is kept (TRN-006).
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_keeps_the_process_and_marks_the_item() {
    let Some((bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let text = r#"timeline: [{"begin": "I am"}, "hang"]"#;
    let run = bench.begin(&mut core, History::Fresh, text).await;
    assert_eq!(cancel(&bench, &mut core, run).await, TurnStatus::Cancelled);
    let events = core.done().await;
    let incomplete = |event: &RunEvent| matches!(&event.body, EventBody::ItemEnded(end) if end.status == ItemStatus::Incomplete);
    assert!(events.iter().any(incomplete), "{events:#?}");
    assert_eq!(bench.harness_processes(), 1);
    assert_eq!(
        failure(&events).and_then(|failure| failure.code()),
        None::<FailureCode>
    );
}
