//! kill -9 at every durable boundary (reliability 3.1), and an owner that is stopped and wakes up late (3.3).

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use berth_store::{
    Location, Store, StoreError, WriteError,
    projects::CreateProject,
    testing::{TestDatabase, move_clock},
    units::{
        allocation::FinishRelease,
        environment::{BeginInit, CompleteInit},
        retention::SweepDeleted,
        session::DeleteSession,
        turn::FinishTurn,
    },
};
use domain::{
    ProjectId, SessionId,
    allocation::AllocationPhase,
    environment::{ConnectionState, Initialization},
    lease::Authority,
    session::Placement,
    turn::{Ending, RunPhase, TurnState},
};

use crate::fixture::{Fixture, answer, creation, id, message};

const URL: &str = "BERTH_TEST_STORE";
const PROJECT: &str = "BERTH_TEST_PROJECT";
const KEY: &str = "the-creation";

/// One Session's life, written as a scheduler would: look at what is there, do the next step. Running it again after a
/// crash finishes what is left, whatever the crash left.
async fn script(fixture: &Fixture) -> SessionId {
    let (store, project) = (&fixture.store, fixture.project);
    if store.read().project(project).await.unwrap().is_none() {
        store
            .write(CreateProject {
                id: project,
                name: "crash".to_owned(),
                by: None,
            })
            .await
            .unwrap();
    }
    // The client retries its creation with its key until it is answered.
    let session = match store.read().creation(project, KEY).await.unwrap() {
        Some(known) => known.session,
        None => {
            let unit = creation(
                project,
                Placement::OpenaiHosted,
                vec![message("hello")],
                Some(KEY),
            );
            let made = unit.new.id;
            fixture.write(unit).await;
            made
        }
    };
    let parts = berth_store::Parts::whole();
    loop {
        let state = store.read().state(session, &parts).await.unwrap().unwrap();
        if state.session.deleted_at.is_some() {
            break;
        }
        let environment = state.environment.clone().unwrap();
        let Some(binding) = &state.binding else {
            fixture.reserve(session).await;
            continue;
        };
        if state
            .allocation
            .as_ref()
            .is_some_and(|row| row.phase != AllocationPhase::Running)
        {
            fixture.provision(session).await;
            continue;
        }
        let machine = crate::fixture::Machine {
            session,
            binding: binding.id,
            binding_epoch: binding.epoch,
            device: binding.device_id,
            generation: environment.observation.generation,
        };
        if environment.status.is_terminal() {
            break;
        }
        if environment.observation.state != ConnectionState::Connected {
            fixture.connect(session, machine).await;
            continue;
        }
        if environment.initialization == Initialization::Pending {
            fixture
                .write(BeginInit {
                    session,
                    generation: machine.generation,
                })
                .await;
            continue;
        }
        if let Initialization::Running { .. } = environment.initialization {
            let crate::fixture::Machine {
                generation,
                binding,
                binding_epoch,
                ..
            } = machine;
            assert!(
                fixture
                    .write(CompleteInit {
                        session,
                        generation,
                        binding,
                        binding_epoch
                    })
                    .await
            );
            continue;
        }
        match state.turn.as_ref().map(|turn| (&turn.state, turn.run_seq)) {
            Some((
                TurnState::Active {
                    claim,
                    phase: RunPhase::Capturing { .. },
                },
                _,
            )) => {
                let run = claim.run_id;
                fixture
                    .write(FinishTurn {
                        session,
                        run,
                        ending: Ending::Completed,
                        captured: Vec::new(),
                    })
                    .await;
            }
            Some((TurnState::Active { claim, .. }, 0)) => {
                fixture.append(session, claim.run_id, 1, answer("m")).await
            }
            Some((TurnState::Active { claim, .. }, _)) => {
                fixture
                    .write(berth_store::units::turn::SettleRun {
                        session,
                        run: claim.run_id,
                    })
                    .await;
            }
            Some((TurnState::Queued, _)) => panic!("queued"),
            Some((TurnState::Ended { .. }, _)) => break,
            None => {
                fixture.promote(machine).await;
            }
        }
    }
    let delete = DeleteSession {
        project,
        session,
        by: None,
    };
    fixture.write(delete).await;
    if let Some(allocation) = fixture.allocation(session).await
        && allocation.phase == AllocationPhase::Releasing
    {
        let revision = allocation.revision;
        fixture.write(FinishRelease { session, revision }).await;
    }
    fixture.sweep().await;
    session
}

/// Runs a test of this file as another process, which finds [`URL`] set and plays the child's part on that database.
fn child(db: &TestDatabase, name: &str, project: ProjectId, point: Option<&str>) -> Child {
    let url = match db.location() {
        Location::File(path) => path.display().to_string(),
        Location::Server { url, .. } => url,
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([name, "--exact", "--nocapture"])
        .env(URL, url)
        .env(PROJECT, project.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    match point {
        Some(point) => command.env(crash::VARIABLE, point),
        None => command.env_remove(crash::VARIABLE),
    };
    command.spawn().unwrap()
}

async fn in_the_child() -> Fixture {
    let url = std::env::var(URL).unwrap();
    let location = if url.starts_with("postgres") {
        Location::Server {
            url,
            password: None,
        }
    } else {
        Location::File(url.into())
    };
    let mut settings = TestDatabase::sqlite().settings();
    settings.location = location;
    Fixture {
        store: Store::open(settings).await.unwrap(),
        project: std::env::var(PROJECT).unwrap().parse().unwrap(),
    }
}

/// The process that is killed: it does as much of the life as it is allowed to.
async fn child_that_crashes() {
    let fixture = in_the_child().await;
    fixture.own().await;
    fixture.recover().await;
    script(&fixture).await;
    fixture.store.close().await;
}

/// The process that is stopped.
async fn child_that_writes_until_it_is_no_owner() {
    let fixture = in_the_child().await;
    fixture.own().await;
    println!("owner");
    loop {
        match fixture.store.renew_lease().await {
            Ok(()) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(StoreError::LeaseLost) => break,
            // PostgreSQL cut the transaction in which this process slept.
            Err(StoreError::Database(_) | StoreError::CommitUnknown(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    // A stale write of state is refused just as well.
    let late = fixture.store.write(SweepDeleted { session: id() }).await;
    assert!(matches!(
        late,
        Err(WriteError::Store(StoreError::LeaseLost))
    ));
    println!("lost");
}

/// A signal takes effect a moment after it was sent, and a thread may still begin a commit in that moment.
fn until_stopped(pid: u32) {
    let stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().map(str::trim_start);
        state.is_none_or(|state| state.starts_with('T'))
    };
    while !std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .all(|task| task.map_or(true, stopped))
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}

both! {
    /// Every commit of a whole life, killed just before and just after: nothing accepted is lost, nothing happens twice.
    async fn a_crash_at_any_commit_leaves_a_state_that_goes_on(db: TestDatabase) {
        if std::env::var(URL).is_ok() {
            return child_that_crashes().await;
        }
        for side in ["before", "after"] {
            let mut crashes = 0;
            for nth in 1.. {
                let db = db.another().await;
                let project: ProjectId = id();
                let mut process = child(&db, "crash::a_crash_at_any_commit_leaves_a_state_that_goes_on::sqlite", project, Some(&format!("unit.{side}:{nth}")));
                let status = tokio::task::spawn_blocking(move || process.wait().unwrap()).await.unwrap();
                let finished = status.success();
                let fixture = Fixture::again(&db, project).await;
                fixture.check(true).await;
                let session = script(&fixture).await;
                fixture.check(true).await;
                // The creation was retried with its key: there is exactly one Session, and it had exactly one Turn at most.
                assert_eq!(db.dump().await.unwrap().lines().filter(|line| line.starts_with("sessions ")).count(), 1);
                assert!(fixture.store.read().session(project, session).await.unwrap().is_none());
                fixture.store.close().await;
                if finished {
                    break;
                }
                crashes += 1;
            }
            assert!(crashes >= 15, "only {crashes} commits were reached {side} the end");
        }
    }

    /// SIGSTOP beyond the lease, a second owner, SIGCONT: the first one finds out at its next write.
    async fn an_owner_that_slept_commits_nothing(db: TestDatabase) {
        if std::env::var(URL).is_ok() {
            return child_that_writes_until_it_is_no_owner().await;
        }
        let fixture = Fixture::new(&db).await;
        fixture.store.release_lease().await.unwrap();
        let mut process = child(&db, "crash::an_owner_that_slept_commits_nothing::sqlite", fixture.project, None);
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut wait_for = move |wanted: &str| {
            let found = lines.by_ref().map(|line| line.unwrap()).find(|line| line.trim_start_matches("test ").ends_with(wanted));
            assert!(found.is_some(), "the child ended without saying {wanted:?}");
        };
        wait_for("owner");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let pid = rustix::process::Pid::from_child(&process);
        // A process that is stopped inside a commit keeps SQLite's lock: let it go on and stop it elsewhere.
        loop {
            rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
            until_stopped(process.id());
            match move_clock(&fixture.store, Duration::from_secs(31)).await {
                Ok(()) => break,
                Err(_) => {
                    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
                    tokio::time::sleep(Duration::from_millis(7)).await;
                }
            }
        }
        // If it sleeps inside a transaction, PostgreSQL ends that after five seconds; until then the row is busy.
        let started = std::time::Instant::now();
        let taken = loop {
            match fixture.store.acquire_lease(id(), Authority::Expiry).await {
                Err(StoreError::Busy) if started.elapsed() < Duration::from_secs(30) => {}
                other => break other.unwrap(),
            }
        };
        assert!(matches!(taken, berth_store::Acquired::Held(_)), "{taken:?}");
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        let status = tokio::task::spawn_blocking(move || {
            wait_for("lost");
            // The pipe stays open until the child is gone.
            (process.wait().unwrap(), wait_for).0
        });
        assert!(status.await.unwrap().success());
        fixture.store.renew_lease().await.unwrap();
        fixture.check(true).await;
        fixture.store.close().await;
    }
}
