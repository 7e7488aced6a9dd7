//! A unit on its way: erased so that one queue holds all kinds.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::oneshot;

use crate::{
    error::{StoreError, UnitError, WriteError},
    metrics::{UnitOutcome, WriteObserver},
    tx::Tx,
    unit::{Durability, Unit},
};

/// How one run of a body ended.
pub(crate) enum Ran {
    /// There is an answer, and rows to commit.
    Done,
    /// There is a refusal, and nothing to commit.
    Refused,
    /// There is no result.
    Failed(StoreError),
}

/// A queued unit.
pub(crate) trait Job: Send {
    fn name(&self) -> &'static str;
    fn leased(&self) -> bool;
    fn durability(&self) -> Durability;
    fn waited(&self) -> Duration;
    /// Runs the body and keeps its result.
    fn run<'a, 'c: 'a>(&'a mut self, tx: &'a mut Tx<'c>) -> BoxFuture<'a, Ran>;
    /// Sends the kept result: its transaction is over.
    fn conclude(self: Box<Self>);
    /// Sends a failure instead.
    fn fail(self: Box<Self>, error: StoreError);
}

pub(crate) type Reply<U> = Result<<U as Unit>::Answer, WriteError<<U as Unit>::Refusal>>;

pub(crate) struct UnitJob<U: Unit> {
    unit: U,
    entered: Instant,
    result: Option<Result<U::Answer, U::Refusal>>,
    reply: oneshot::Sender<Reply<U>>,
    observer: Option<Arc<dyn WriteObserver>>,
}

impl<U: Unit> UnitJob<U> {
    pub(crate) fn new(
        unit: U,
        observer: Option<Arc<dyn WriteObserver>>,
    ) -> (Self, oneshot::Receiver<Reply<U>>) {
        let (reply, answer) = oneshot::channel();
        (
            Self {
                unit,
                entered: Instant::now(),
                result: None,
                reply,
                observer,
            },
            answer,
        )
    }

    fn send(self, reply: Reply<U>) {
        if let Some(observer) = &self.observer {
            let outcome = match &reply {
                Ok(_) => UnitOutcome::Committed,
                Err(WriteError::Refused(_)) => UnitOutcome::Refused,
                Err(WriteError::Store(error)) if error.is_unknown() => UnitOutcome::Unknown,
                Err(WriteError::Store(_)) => UnitOutcome::Failed,
            };
            observer.unit(U::NAME, outcome, self.entered.elapsed());
        }
        // A caller that gave up does not undo the unit.
        let _ = self.reply.send(reply);
    }
}

impl<U: Unit> Job for UnitJob<U> {
    fn name(&self) -> &'static str {
        U::NAME
    }

    fn leased(&self) -> bool {
        U::LEASED
    }

    fn durability(&self) -> Durability {
        self.unit.durability()
    }

    fn waited(&self) -> Duration {
        self.entered.elapsed()
    }

    fn run<'a, 'c: 'a>(&'a mut self, tx: &'a mut Tx<'c>) -> BoxFuture<'a, Ran> {
        async move {
            // A panic in one body must not take the writer, and with it every other caller, down.
            let body = AssertUnwindSafe(self.unit.run(tx)).catch_unwind().await;
            let result = match body {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(UnitError::Refused(refusal))) => Err(refusal),
                Ok(Err(UnitError::Store(error))) => return Ran::Failed(error),
                Err(_) => {
                    return Ran::Failed(StoreError::Impossible(format!("{} panicked", U::NAME)));
                }
            };
            let ran = if result.is_ok() {
                Ran::Done
            } else {
                Ran::Refused
            };
            self.result = Some(result);
            ran
        }
        .boxed()
    }

    fn conclude(mut self: Box<Self>) {
        let reply = match self.result.take() {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(refusal)) => Err(WriteError::Refused(refusal)),
            None => Err(WriteError::Store(StoreError::Impossible(format!(
                "{} has no result",
                U::NAME
            )))),
        };
        self.send(reply);
    }

    fn fail(self: Box<Self>, error: StoreError) {
        self.send(Err(WriteError::Store(error)));
    }
}
