//! The task of one Session, without a link and without processes.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use domain::{
    BindingId, SessionId,
    run::{Binding, ExecutionConfiguration},
};
use machine::process::Spawner;
use protocol::wire::Capacity;
use tokio::{
    sync::mpsc,
    task::yield_now,
    time::{Duration, Instant},
};
use uuid::Uuid;

use super::{
    Shared,
    session::{Live, Order, State, Task},
};
use crate::{execute::Executor, harness::Catalogue, place::Machine, prepare::Store, relay::Relay};

fn configuration() -> ExecutionConfiguration {
    serde_json::from_value(serde_json::json!({
        "harness": "codex", "declaration_hash": "a".repeat(64), "workspace": {"kind": "absent"},
        "history": {"mode": "fresh"}, "options": {}, "parameters": "{}", "functions": [],
        "controls": {"tool_search": false}, "mcp": [], "permissions": "allow",
    }))
    .unwrap()
}

async fn task(folder: &std::path::Path) -> Task {
    let machine = Machine {
        spawner: Spawner::new("/bin/false"),
        relay: Arc::new(Relay::start().await.unwrap()),
        homes: folder.join("homes"),
        diagnostics: folder.join("diagnostics"),
        hidden: Vec::new(),
    };
    let capacity = Capacity {
        runs: 1,
        executors: 1,
        preparing: 1,
    };
    let store = Store::new(folder.join("store"));
    let shared = Shared::new(machine, None, store, capacity, Catalogue::default());
    let binding = Binding {
        session: SessionId::new(Uuid::now_v7()),
        environment: None,
        id: BindingId::new(Uuid::now_v7()),
        epoch: 1,
    };
    let (out, _) = mpsc::unbounded_channel();
    Task::new(binding, None, Arc::new(shared), out)
}

// TRN-010: a Session whose Executor takes its time waits for it, and does nothing else meanwhile.
#[tokio::test]
async fn a_closing_session_waits_without_spinning() {
    let folder = tempfile::tempdir().unwrap();
    let mut task = task(folder.path()).await;
    let (executor, mut told) = Executor::deaf();
    task.live = Some(Live {
        executor,
        configuration: configuration(),
        state: State::Idle {
            since: Instant::now(),
        },
        idle: Duration::from_secs(600),
    });
    let (orders, inbox) = mpsc::unbounded_channel::<Order>();
    let passes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&passes);
    let life = tokio::spawn(async move {
        let mut life = pin!(task.live(inbox));
        std::future::poll_fn(|context| {
            counted.fetch_add(1, Ordering::Relaxed);
            life.as_mut().poll(context)
        })
        .await;
    });
    drop(orders);
    assert!(told.recv().await.is_some(), "the Executor is told to close");
    let before = passes.load(Ordering::Relaxed);
    for _ in 0..100 {
        yield_now().await;
    }
    let after = passes.load(Ordering::Relaxed);
    assert!(after - before <= 2, "{} passes", after - before);
    life.abort();
}
