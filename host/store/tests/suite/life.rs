//! Whole lives of Sessions, step by step.

use std::time::Duration;

use berth_store::{
    read::{List, Order},
    retries::RetryKey,
    testing::{TestDatabase, move_clock},
    units::{
        allocation::{BeginRelease, FinishRelease},
        create::Created,
        environment::{AckRelease, FailEnvironment, ObserveConnection},
        input::AdmitInput,
        reservation::{ExpireReservation, Expired, FailReservation},
        session::{DeleteSession, UpdateSession},
        turn::{FailQueuedTurn, FinishTurn, SettleRun},
    },
};
use domain::{
    Digest, Refusal,
    artifact::CapturedFile,
    environment::{FailureReason, Observe},
    input::{Admission, Batch},
    metadata::Metadata,
    session::{Deleted, Placement},
    turn::{Ending, Outcome, Settled, TurnFailure, TurnStatus},
};

use crate::fixture::{CANARY, Fixture, admit, answer, creation, message};

both! {
    /// 4.1 and 4.10: hosted create with input, run, capture, delete, purge.
    async fn a_hosted_session_from_creation_to_purge(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let store = &fixture.store;
        let session = fixture.create(Placement::OpenaiHosted, &["one", "two"]).await;
        assert_eq!(fixture.status(session).await, "Idle");
        assert_eq!(fixture.events(session).await, ["created", "environment.pending"]);
        assert_eq!(store.read().environments_to_allocate(None, 32).await.unwrap()[0].session, session);
        let machine = fixture.boot(session).await;
        assert!(store.read().environments_to_allocate(None, 32).await.unwrap().is_empty());
        assert!(store.read().environments_to_initialize(None, 32).await.unwrap().is_empty());
        let (turn, run) = fixture.promote(machine).await;
        assert_eq!(fixture.status(session).await, "InProgress");
        fixture.append(session, run, 1, answer("m1")).await;
        assert_eq!(fixture.write(SettleRun { session, run }).await, Settled::Capture);
        let file = CapturedFile { path: "/workspace/outputs/a".to_owned(), digest: Digest::of(b"a"), size_bytes: 1 };
        let finish = FinishTurn { session, run, ending: Ending::Completed, captured: vec![file.clone()] };
        assert_eq!(fixture.write(finish).await, Settled::Ended(Outcome::Completed));
        assert_eq!(
            fixture.events(session).await[2..],
            [
                "environment.connected", "environment.ready", "turn.created", "turn.item.added", "in_progress",
                "turn.item.added", "turn.in_progress", "turn.item.added", "turn.content_part.added",
                "turn.output_text.delta", "turn.output_text.delta", "turn.output_text.done", "turn.content_part.done",
                "turn.item.done", "turn.completed", "idle",
            ]
        );
        let record = store.read().session(fixture.project, session).await.unwrap().unwrap();
        assert_eq!(record.last_event, 18);
        assert_eq!(record.state.session.usage.public().unwrap().total_tokens, 15);
        let list = List { after: None, limit: 10, order: Order::Ascending };
        let artifacts = store.read().artifacts(session, None, &list).await.unwrap().items;
        assert_eq!((artifacts.len(), artifacts[0].turn_id, artifacts[0].digest), (1, turn, file.digest));
        assert!(store.read().blob_is_referenced(&file.digest.to_string()).await.unwrap());
        fixture.check(true).await;

        let delete = || DeleteSession { project: fixture.project, session, by: None };
        assert_eq!(fixture.write(delete()).await, Deleted::Now);
        assert_eq!(fixture.write(delete()).await, Deleted::Before);
        assert!(store.read().session(fixture.project, session).await.unwrap().is_none());
        assert_eq!(store.read().last_event(session).await.unwrap(), None);
        // Compute is still held: nothing is purged before it is gone.
        assert!(fixture.sweep().await.is_empty());
        let revision = fixture.revision(session).await;
        assert!(fixture.write(FinishRelease { session, revision }).await);
        assert_eq!(fixture.sweep().await, [session]);
        assert!(fixture.sweep().await.is_empty());
        assert!(!store.read().blob_is_referenced(&file.digest.to_string()).await.unwrap());
        fixture.check(true).await;
        let dump = db.dump().await.unwrap();
        assert!(!dump.contains("Hello") && !dump.contains("\"one\""), "content outlives the purge");
        store.close().await;
    }

    /// 4.4: `none`, with a message that joins the running Turn.
    async fn a_conversation_without_a_machine(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::None, &["hi"]).await;
        assert_eq!(fixture.status(session).await, "InProgress");
        let machine = fixture.bind(session).await;
        let run = fixture.claim_queued(machine).await;
        assert!(matches!(fixture.send(session, &["and"], None).await, Admission::Stored { .. }));
        let state = fixture.store.read().state(session, &berth_store::Parts::whole()).await.unwrap().unwrap();
        assert_eq!(state.inputs.len(), 2);
        let confirm = domain::turn::ConfirmInput {
            run_id: run,
            input_id: state.inputs[1].id,
            delivery: domain::input::Delivery::Accepted,
        };
        let confirm = berth_store::units::turn::ConfirmInput { session, confirm };
        assert!(fixture.write(confirm).await);
        assert!(!fixture.write(confirm).await, "a repeat moves nothing");
        fixture.append(session, run, 1, answer("m")).await;
        fixture.complete(session, run).await;
        assert_eq!(fixture.status(session).await, "Idle");
        // A second Turn continues, the third is deleted with its release owed.
        fixture.send(session, &["again"], None).await;
        let run = fixture.claim_queued(machine).await;
        fixture.complete(session, run).await;
        fixture.check(true).await;
        fixture.write(DeleteSession { project: fixture.project, session, by: None }).await;
        let releases = fixture.store.read().releases(machine.device).await.unwrap();
        assert_eq!(releases.len(), 1);
        assert!(fixture.sweep().await.is_empty());
        let release = AckRelease { session, binding: machine.binding, epoch: releases[0].epoch };
        assert!(fixture.write(release).await);
        assert!(fixture.store.read().releases(machine.device).await.unwrap().is_empty());
        assert_eq!(fixture.sweep().await, [session]);
        fixture.store.close().await;
    }

    /// 4.8: expiry by the database clock, at most 32 a scan; a late Promote is refused.
    async fn input_that_waits_too_long_expires(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let initial = fixture.create(Placement::OpenaiHosted, &["one"]).await;
        let later = fixture.create(Placement::OpenaiHosted, &[]).await;
        let Admission::Waits { reservation_id } = fixture.send(later, &["two"], Some("k")).await else { panic!("stored") };
        assert!(fixture.store.read().due_reservations(None, 32).await.unwrap().is_empty());
        let early = ExpireReservation { session: later, reservation: reservation_id };
        assert_eq!(fixture.write(early).await, Expired::NotDue);
        move_clock(&fixture.store, Duration::from_secs(301)).await.unwrap();
        let machine = fixture.boot(later).await;
        let promote = domain::reservation::Promote {
            reservation_id,
            claim: Fixture::claim(machine),
            generation: machine.generation,
        };
        let refused = fixture.write(berth_store::units::reservation::Promote { session: later, promote }).await;
        assert!(matches!(refused, domain::reservation::Promotion::Refused(_)), "{refused:?}");
        let due = fixture.store.read().due_reservations(None, 32).await.unwrap();
        assert_eq!(due.len(), 2);
        for row in due {
            assert_eq!(fixture.write(ExpireReservation { session: row.session, reservation: row.reservation }).await, Expired::Now);
        }
        assert_eq!((fixture.status(initial).await, fixture.status(later).await), ("Failed".into(), "Idle".into()));
        // The key of a settled reservation answers its outcome for ever (ENV-222).
        let repeat = AdmitInput {
            project: fixture.project,
            session: later,
            admit: admit(Batch::Messages(vec![message("two")]), Some("k"), "two"),
            provenance: None,
        };
        assert_eq!(fixture.refused(repeat).await, Refusal::InputExpired);
        assert!(matches!(fixture.send(later, &["three"], None).await, Admission::Waits { .. }));
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// 4.9: a failed Environment takes its pending input with it; failures of preparation do not.
    async fn failures_before_a_turn(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let broken = fixture.create(Placement::OpenaiHosted, &["one"]).await;
        assert!(fixture.write(FailEnvironment { session: broken, reason: FailureReason::Incomplete }).await);
        assert!(!fixture.write(FailEnvironment { session: broken, reason: FailureReason::File }).await);
        assert_eq!(fixture.events(broken).await[2..], ["environment.failed", "error", "failed"]
            .map(|kind| if kind == "error" { "error".to_owned() } else { kind.to_owned() }));
        assert_eq!(fixture.status(broken).await, "Failed");
        let again = AdmitInput {
            project: fixture.project,
            session: broken,
            admit: admit(Batch::Messages(vec![message("x")]), None, "x"),
            provenance: None,
        };
        assert_eq!(fixture.refused(again).await, Refusal::HostedEnvironmentFailed);

        let unprepared = fixture.create(Placement::OpenaiHosted, &["one"]).await;
        let reservation = fixture.pending(unprepared).await;
        assert!(fixture.write(FailReservation { session: unprepared, reservation }).await);
        assert_eq!(fixture.status(unprepared).await, "Failed");
        assert!(matches!(fixture.send(unprepared, &["two"], None).await, Admission::Waits { .. }));

        let queued = fixture.create(Placement::None, &["one"]).await;
        let turn = fixture.store.read().queued_turns(None, 10).await.unwrap()[0].turn;
        assert!(fixture.write(FailQueuedTurn { session: queued, turn }).await);
        let turn = fixture.store.read().turn(fixture.project, queued, turn).await.unwrap().unwrap();
        assert_eq!(turn.status(), TurnStatus::Failed);
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// 4.5: cancel of a running Turn, and of nothing.
    async fn cancels(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::None, &["hi"]).await;
        let machine = fixture.bind(session).await;
        let run = fixture.claim_queued(machine).await;
        fixture.append(session, run, 1, answer("m")[..2].to_vec()).await;
        fixture.cancel(session).await;
        let finish = FinishTurn { session, run, ending: Ending::Cancelled, captured: Vec::new() };
        assert_eq!(fixture.write(finish.clone()).await, Settled::Ended(Outcome::Cancelled));
        assert_eq!(fixture.write(finish).await, Settled::Inert, "a terminal Turn never changes");
        let list = List { after: None, limit: 10, order: Order::Descending };
        let items = fixture.store.read().items(session, None, &list).await.unwrap().items;
        // S-CAN-5: the partial text is kept.
        assert!(matches!(&items[0].body, domain::item::ItemBody::AssistantMessage { text: Some(text), .. } if text == "Hel"));
        let before = db.dump().await.unwrap();
        let events = fixture.events(session).await.len();
        fixture.cancel(session).await;
        assert_eq!(fixture.events(session).await.len(), events);
        assert_ne!(db.dump().await.unwrap(), before, "its receipt is kept");
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// RP-10.18: a Turn that certainly never began asks no later one for its history; an uncertain one does.
    async fn native_history_is_asked_for_only_where_it_may_exist(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::None, &["hi"]).await;
        let machine = fixture.bind(session).await;
        assert_eq!(fixture.store.read().native_session(session).await.unwrap(), (None, false));
        for (ending, may_exist) in [
            (Ending::NeverBegan, false),
            (Ending::Failed(TurnFailure::PreparationStartFailed), false),
            (Ending::Failed(TurnFailure::DeviceDisconnected), false),
            (Ending::Failed(TurnFailure::DeliveryUnknown), true),
            (Ending::Failed(TurnFailure::PreparationStartFailed), true),
        ] {
            let run = fixture.claim_queued(machine).await;
            fixture.cancel(session).await;
            fixture.write(FinishTurn { session, run, ending, captured: Vec::new() }).await;
            assert_eq!(fixture.store.read().native_session(session).await.unwrap(), (None, may_exist), "{ending:?}");
            fixture.send(session, &["next"], None).await;
        }
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// 4.6: a new owner settles what the former one left, once.
    async fn recovery_settles_what_an_owner_left_behind(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let project = fixture.project;
        let running = fixture.create(Placement::OpenaiHosted, &["one"]).await;
        let machine = fixture.boot(running).await;
        let (_, run) = fixture.promote(machine).await;
        fixture.append(running, run, 1, answer("m")[..3].to_vec()).await;
        let initializing = fixture.create(Placement::OpenaiHosted, &["one"]).await;
        let other = fixture.connect(initializing, fixture.allocate(initializing).await).await;
        fixture.write(berth_store::units::environment::BeginInit { session: initializing, generation: other.generation }).await;
        let queued = fixture.create(Placement::None, &["one"]).await;
        let waiting = fixture.create(Placement::OpenaiHosted, &["one"]).await;
        fixture.store.close().await;

        let fixture = Fixture::again(&db, project).await;
        let turn = fixture.store.read().session(project, running).await.unwrap().unwrap().state.turn.unwrap();
        let interrupted = domain::turn::TurnState::Ended {
            claim: turn.claim().copied(),
            outcome: Outcome::Failed { cause: TurnFailure::ExecutionInterrupted },
            at: turn.completed_at().unwrap(),
        };
        assert_eq!(turn.state, interrupted);
        let events = fixture.events(running).await;
        assert_eq!(events[events.len() - 3..], ["turn.failed", "failed", "environment.disconnected"]);
        assert_eq!(fixture.status(initializing).await, "Failed");
        assert_eq!(fixture.status(queued).await, "InProgress");
        assert_eq!(fixture.status(waiting).await, "Idle");
        fixture.pending(waiting).await;
        // I30: twice is once.
        let before = db.dump().await.unwrap();
        for session in [running, initializing, queued, waiting] {
            assert!(!fixture.write(berth_store::units::recovery::RecoverSession { session }).await);
        }
        assert_eq!(db.dump().await.unwrap(), before);
        // The machine comes back and the next input runs.
        let machine = fixture.connect(running, machine).await;
        fixture.send(running, &["two"], None).await;
        let (_, run) = fixture.promote(machine).await;
        fixture.complete(running, run).await;
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// 1.7, 1.9: older observations and revisions are inert; compute ends by release.
    async fn older_facts_change_nothing(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::OpenaiHosted, &[]).await;
        let machine = fixture.boot(session).await;
        let newer = fixture.connect(session, machine).await;
        assert_eq!(newer.generation, machine.generation + 1);
        let before = db.dump().await.unwrap();
        let stale = Observe::Lost { generation: machine.generation, revision: 9 };
        assert_eq!(fixture.write(ObserveConnection { session, observe: stale }).await, domain::environment::Observed::Inert);
        let revision = fixture.revision(session).await;
        assert!(!fixture.write(FinishRelease { session, revision }).await);
        assert!(!fixture.write(FinishRelease { session, revision: revision - 1 }).await);
        assert_eq!(db.dump().await.unwrap(), before);
        assert!(fixture.write(BeginRelease { session }).await);
        assert!(!fixture.write(BeginRelease { session }).await);
        let revision = fixture.revision(session).await;
        assert!(fixture.write(FinishRelease { session, revision }).await);
        let again = AdmitInput {
            project: fixture.project,
            session,
            admit: admit(Batch::Messages(vec![message("x")]), None, "x"),
            provenance: None,
        };
        assert_eq!(fixture.refused(again).await, Refusal::EnvironmentUnavailable);
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// I33: a refusal leaves every row as it is.
    async fn refusals_write_nothing(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::OpenaiHosted, &["one"]).await;
        let foreign = crate::fixture::id();
        let before = db.dump().await.unwrap();
        let send = |project, text: &str, key: Option<&str>| AdmitInput {
            project,
            session,
            admit: admit(Batch::Messages(vec![message(text)]), key, text),
            provenance: None,
        };
        assert_eq!(fixture.refused(send(fixture.project, "two", None)).await, Refusal::InputPending);
        assert_eq!(fixture.refused(send(foreign, "two", None)).await, Refusal::NotFound);
        let delete = |project| DeleteSession { project, session, by: None };
        assert_eq!(fixture.refused(delete(fixture.project)).await, Refusal::NotDeletable);
        assert_eq!(fixture.refused(delete(foreign)).await, Refusal::NotFound);
        let update = UpdateSession { project: foreign, session, metadata: Metadata::default(), provenance: None };
        assert_eq!(fixture.refused(update).await, Refusal::NotFound);
        let empty = creation(fixture.project, Placement::None, Vec::new(), Some("key"));
        assert_eq!(fixture.refused(empty).await, Refusal::InputRequired);
        assert_eq!(db.dump().await.unwrap(), before);
        fixture.store.close().await;
    }

    /// W-IDEM-3, W-IDEM-5: a key of creation names one request and one Session, for ever.
    async fn creation_keys(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let create = |body: &str| {
            let mut unit = creation(fixture.project, Placement::OpenaiHosted, Vec::new(), Some("key"));
            unit.key = Some(RetryKey { key: "key".to_owned(), digest: Digest::of(body.as_bytes()) });
            unit
        };
        let Created::Now { state, last_event } = fixture.write(create("a")).await else { panic!("made before") };
        assert_eq!(last_event, 2);
        let session = state.session.id;
        let before = db.dump().await.unwrap();
        assert!(matches!(fixture.write(create("a")).await, Created::Before { session: same } if same == session));
        assert_eq!(fixture.refused(create("b")).await, Refusal::KeyConflict);
        assert_eq!(db.dump().await.unwrap(), before);
        let known = fixture.store.read().creation(fixture.project, "key").await.unwrap().unwrap();
        assert_eq!(known.session, session);
        fixture.write(DeleteSession { project: fixture.project, session, by: None }).await;
        assert_eq!(fixture.refused(create("a")).await, Refusal::KeyConflict);
        fixture.store.close().await;
    }

    /// SC-11.6: deltas of ended Items may go; everything else stays, and numbers are never used again.
    async fn trimming_removes_only_old_deltas(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::None, &["hi"]).await;
        let run = fixture.claim_queued(fixture.bind(session).await).await;
        let append = |from: u64, to: u64| {
            let fixture = &fixture;
            async move {
                for n in from..to {
                    fixture.append(session, run, n * 5 + 1, answer(&format!("m{n}"))).await;
                }
            }
        };
        append(0, 60).await;
        let before = fixture.events(session).await;
        fixture.trim().await;
        assert_eq!(fixture.events(session).await, before, "nothing is worth a write yet");
        append(60, 100).await;
        // One Item still streams: its deltas are the only copy of its text.
        fixture.append(session, run, 501, answer("open")[..3].to_vec()).await;
        let before = fixture.events(session).await;
        assert_eq!(fixture.trim().await, 1);
        assert_eq!(fixture.trim().await, 0);
        let after = fixture.events(session).await;
        // The 256 newest events: four of the open Item and 36 whole answers of seven; all deltas before them are gone.
        assert_eq!(before.len() - after.len(), 2 * (100 - 36));
        assert!(after.ends_with(&before[before.len() - 256..]));
        fixture.check(true).await;
        let finish = FinishTurn { session, run, ending: Ending::Failed(TurnFailure::EngineFailed { class: None }), captured: Vec::new() };
        fixture.write(finish).await;
        let list = List { after: None, limit: 1, order: Order::Descending };
        let last = fixture.store.read().items(session, None, &list).await.unwrap().items.remove(0);
        assert!(matches!(last.body, domain::item::ItemBody::AssistantMessage { text: Some(text), .. } if text == "Hello"));
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// SC-11.6: 64 MiB of deltas are the bound where they are few and large; those of an open Item stay.
    async fn few_large_deltas_are_trimmed_too(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::None, &["hi"]).await;
        let run = fixture.claim_queued(fixture.bind(session).await).await;
        for n in 0..25 {
            let mut events = answer(&format!("m{n}"));
            if let domain::run::EventBody::Delta(delta) = &mut events[1].body {
                delta.text = "x".repeat(3_000_000);
            }
            if n == 0 {
                events.truncate(3);
            }
            fixture.append(session, run, if n == 0 { 1 } else { n * 5 - 1 }, events).await;
        }
        let before = fixture.events(session).await;
        assert_eq!(fixture.trim().await, 1);
        let after = fixture.events(session).await;
        // 22 large deltas are 66 MB and fit. Of the three others that of the open Item stays; a small one goes with the oldest.
        assert_eq!(before.len() - after.len(), 3);
        assert!(after.ends_with(&before[before.len() - 22 * 7..]));
        fixture.check(true).await;
        fixture.store.close().await;
    }

    /// Secrets are sealed in the rows and open again for dispatch.
    async fn secrets_lie_sealed(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let session = fixture.create(Placement::OpenaiHosted, &[]).await;
        let secrets = fixture.store.read().configuration_secrets(fixture.project, session).await.unwrap().unwrap();
        assert_eq!(secrets.provider_key.unwrap().as_str(), Some(CANARY));
        let foreign = crate::fixture::id();
        assert!(fixture.store.read().configuration_secrets(foreign, session).await.unwrap().is_none());
        fixture.store.close().await;
        if let berth_store::Location::File(path) = db.location() {
            for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
                let bytes = std::fs::read(entry.unwrap().path()).unwrap();
                assert!(!bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()));
            }
        }
    }
}
