//! Reliability 3.3: every execution unit is attempted under a stale epoch and changes nothing.

use std::{collections::BTreeMap, pin::Pin};

use berth_store::{
    LeaseToken, ReleaseLease, RenewLease, Store, StoreError, Unit, WriteError,
    provider_state::{PutProviderState, StateKey},
    renewals::{BeginRenewal, CredentialUse},
    testing::TestDatabase,
    units::{
        allocation::{
            BeginCreate, BeginRelease, BeginResume, BeginSuspend, FinishRelease, RecordAllocation,
            ReserveAllocation,
        },
        device::PutSharedDevice,
        environment::{
            AckRelease, BeginInit, BindDevice, CompleteInit, FailEnvironment, ObserveConnection,
        },
        recovery::RecoverSession,
        reservation::{ExpireReservation, FailReservation, Promote},
        retention::{PruneWriteOperations, SweepDeleted, TrimEvents},
        turn::{
            AppendRun, ApplyResult, ClaimTurn, ConfirmInput, FailQueuedTurn, FinishTurn,
            InterruptTurn, SettleRun,
        },
    },
};
use domain::{
    Digest,
    allocation::{Record, Reserve},
    environment::{FailureReason, Observe},
    input::Delivery,
    projection::Append,
    reservation,
    session::Placement,
    turn::{self, Ending},
};

use crate::fixture::{Fixture, answer, id};

type Attempt = Box<dyn Fn(Store) -> Pin<Box<dyn Future<Output = Option<StoreError>> + Send>>>;

/// One row of the table: the unit's name, and an attempt that would change something if it were let in.
fn row<U: Unit + Clone>(unit: U) -> (&'static str, Attempt) {
    assert!(U::LEASED, "{} is not leased", U::NAME);
    let attempt: Attempt = Box::new(move |store| {
        let unit = unit.clone();
        Box::pin(async move {
            match store.write(unit).await {
                Err(WriteError::Store(error)) => Some(error),
                _ => None,
            }
        })
    });
    (U::NAME, attempt)
}

/// The names of all units in the sources whose `LEASED` is true: a new one that the table forgets fails the test.
fn leased_in_the_sources() -> Vec<String> {
    fn visit(folder: &std::path::Path, names: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, names);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            if path.ends_with("writer/tests.rs") {
                continue;
            }
            let mut name = None;
            for line in text.lines().map(str::trim) {
                if let Some(rest) = line.strip_prefix("const NAME: &'static str = ") {
                    name = rest
                        .strip_prefix('"')
                        .and_then(|rest| rest.strip_suffix("\";"))
                        .map(str::to_owned);
                }
                if line == "const LEASED: bool = true;" {
                    names.extend(name.take());
                }
                // The units of one macro.
                if let Some((unit, _)) = line.split_once(" -> ")
                    && line.contains("= |self, state,")
                {
                    names.push(unit.to_owned());
                }
            }
        }
    }
    let mut names = Vec::new();
    visit(
        &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut names,
    );
    names.sort();
    names
}

both! {
    async fn a_stale_owner_changes_nothing(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        // Sessions in the states in which each unit would act.
        let waiting = fixture.create(Placement::OpenaiHosted, &["x"]).await;
        let machine = fixture.boot(waiting).await;
        let reservation_id = fixture.pending(waiting).await;
        let fresh = fixture.create(Placement::OpenaiHosted, &[]).await;
        let reserved = fixture.create(Placement::OpenaiHosted, &[]).await;
        let connected = fixture.connect(reserved, fixture.allocate(reserved).await).await;
        let queued = fixture.create(Placement::None, &["x"]).await;
        let queued_turn = fixture.store.read().queued_turns(None, 1).await.unwrap()[0].turn;
        let bound = fixture.bind(queued).await;
        let running = fixture.create(Placement::None, &["x"]).await;
        let run = fixture.claim_queued(fixture.bind(running).await).await;
        let input = fixture.store.read().state(running, &berth_store::Parts::whole()).await.unwrap().unwrap().inputs[0].id;
        let revision = fixture.revision(reserved).await;
        let provider = StateKey { provider: "local".to_owned(), allocation: None, key: "k".to_owned() };
        let reserve = Reserve {
            provider: "local".to_owned(), generation: 1, device_id: id(), credential: Digest::of(b"new"),
            plugin: None,
        };
        let claim = Fixture::claim(machine);
        let promote = reservation::Promote { reservation_id, claim, generation: machine.generation };
        let credential = CredentialUse { project: fixture.project, attached: Vec::new(), id: id(), server_url: String::new() };
        let observe = Observe::Registered { connection_id: id(), key_id: None };
        let table: BTreeMap<_, _> = [
            row(RenewLease),
            row(ExpireReservation { session: waiting, reservation: reservation_id }),
            row(FailReservation { session: waiting, reservation: reservation_id }),
            row(Promote { session: waiting, promote }),
            row(ClaimTurn { session: queued, turn: queued_turn, claim: Fixture::claim(bound) }),
            row(FailQueuedTurn { session: queued, turn: queued_turn }),
            row(AppendRun { session: running, append: Append { run_id: run, first_seq: 1, events: answer("m") } }),
            row(ConfirmInput { session: running, confirm: turn::ConfirmInput { run_id: run, input_id: input, delivery: Delivery::Accepted } }),
            row(ApplyResult { session: running, apply: turn::ApplyResult { run_id: run, delivery_id: id() } }),
            row(SettleRun { session: running, run }),
            row(FinishTurn { session: running, run, ending: Ending::Completed, captured: Vec::new() }),
            row(InterruptTurn { session: running }),
            row(ObserveConnection { session: waiting, observe }),
            row(PutSharedDevice { device: id(), credential: Digest::of(b"other") }),
            row(BindDevice { session: queued, device: bound.device }),
            row(AckRelease { session: queued, binding: bound.binding, epoch: bound.binding_epoch }),
            row(BeginInit { session: reserved, generation: connected.generation }),
            row(CompleteInit {
                session: reserved, generation: connected.generation, binding: connected.binding, binding_epoch: connected.binding_epoch,
            }),
            row(FailEnvironment { session: reserved, reason: FailureReason::Incomplete }),
            row(ReserveAllocation { session: fresh, reserve, limit: None }),
            row(BeginCreate { session: reserved, revision, node: None }),
            row(RecordAllocation { session: reserved, revision, record: Record::CreateSettled }),
            row(BeginSuspend { session: reserved, revision, operation: id() }),
            row(BeginResume { session: reserved, revision, operation: id(), limit: None }),
            row(BeginRelease { session: reserved }),
            row(FinishRelease { session: reserved, revision }),
            row(RecoverSession { session: running }),
            row(SweepDeleted { session: fresh }),
            row(TrimEvents { session: running }),
            row(PruneWriteOperations { retention_ms: 0, most: 1 }),
            row(BeginRenewal { wanted: credential }),
            row(PutProviderState { key: provider, value: Some("v".to_owned().into()) }),
            row(ReleaseLease),
        ]
        .into_iter()
        .map(|(name, attempt)| (name.to_owned(), attempt))
        .collect();
        assert_eq!(table.keys().cloned().collect::<Vec<_>>(), leased_in_the_sources());

        // Another process takes over while this one believes that it still owns the lease.
        let stale: LeaseToken = fixture.store.lease().borrow().expect("held");
        let usurper = Fixture { store: db.open().await, project: fixture.project };
        usurper.own().await;
        let before = db.dump().await.unwrap();
        for (name, attempt) in &table {
            fixture.store.assume_lease(stale);
            let error = attempt(fixture.store.clone()).await;
            assert!(matches!(error, Some(StoreError::LeaseLost)), "{name}: {error:?}");
            assert_eq!(*fixture.store.lease().borrow(), None, "{name} leaves the process believing");
            assert_eq!(db.dump().await.unwrap(), before, "{name} changed something");
        }
        // The new owner may do all of it.
        usurper.recover().await;
        usurper.check(true).await;
        fixture.store.close().await;
        usurper.store.close().await;
    }
}
