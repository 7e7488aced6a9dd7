//! The writer task: waiting units run one after another, each in a savepoint, and share one commit.
//!
//! Every answer, a refusal too, leaves only after that commit, because it may rest on a row of the same batch.
//! A failed commit on SQLite ends the writer: after a failed fsync nobody knows what is on disk, and trying again
//! would pretend otherwise. Only a full disk does not: then certainly nothing was committed, and its units fail alone.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use sqlx::any::AnyConnectOptions;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::job::{Job, Ran};
use crate::{
    conn::Conn,
    dialect::{Dialect, Role},
    error::{StoreError, is_full},
    lease::{self, LeaseCell, LeaseToken},
    metrics::WriteObserver,
    notify::Notifier,
    tx::Tx,
    unit::Durability,
};

/// How long units that found a busy row wait for company before they try again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Everything the writer task owns.
pub(crate) struct GroupWriter {
    pub(crate) options: AnyConnectOptions,
    pub(crate) dialect: Dialect,
    /// Longest time of a statement on a server.
    pub(crate) limit: Option<Duration>,
    pub(crate) keys: Arc<seal::KeyRing>,
    pub(crate) queue: mpsc::Receiver<Box<dyn Job>>,
    pub(crate) lease: LeaseCell,
    pub(crate) notifier: Notifier,
    pub(crate) observer: Option<Arc<dyn WriteObserver>>,
    pub(crate) largest_batch: usize,
    pub(crate) leased_budget: Duration,
    /// Woken after commits, so that the checkpoint task has something to do.
    pub(crate) committed: Arc<Notify>,
    /// Why the writer stopped for good.
    pub(crate) failure: watch::Sender<Option<StoreError>>,
}

/// A connection and the durability mode it is in.
struct Open {
    conn: Conn,
    synced: Option<bool>,
    /// It has carried a transaction: its server may have been started again since.
    used: bool,
}

impl GroupWriter {
    /// Runs until the queue is closed and empty, or a commit fails for good.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut open = None;
        let mut waiting: VecDeque<Box<dyn Job>> = VecDeque::new();
        loop {
            if waiting.is_empty() {
                let next = tokio::select! {
                    biased;
                    job = self.queue.recv() => job,
                    () = stop.cancelled() => None,
                };
                match next {
                    Some(job) => waiting.push_back(job),
                    None => break,
                }
            } else if let Ok(Some(job)) = tokio::time::timeout(RETRY_PAUSE, self.queue.recv()).await
            {
                waiting.push_back(job);
            }
            while waiting.len() < self.largest_batch {
                match self.queue.try_recv() {
                    Ok(job) => waiting.push_back(job),
                    Err(_) => break,
                }
            }
            let batch = self.take_batch(&mut waiting);
            if batch.is_empty() {
                continue;
            }
            match self.connect(&mut open).await {
                Ok(mut ready) => match self.execute(&mut ready, batch).await {
                    Ok(busy) => {
                        waiting.extend(busy);
                        open = Some(ready);
                    }
                    // They did nothing, and try again on the next connection.
                    Err(Broken::Reconnect(busy)) => waiting.extend(busy),
                    Err(Broken::Stop(error)) => {
                        tracing::error!(%error, "a commit failed; the store stops");
                        self.failure.send_replace(Some(error));
                        break;
                    }
                },
                Err(error) => fail_all(batch, &error),
            }
        }
        self.queue.close();
        waiting
            .into_iter()
            .for_each(|job| job.fail(StoreError::Closed));
        while let Ok(job) = self.queue.try_recv() {
            job.fail(StoreError::Closed);
        }
        if let Some(open) = open {
            open.conn.close().await;
        }
    }

    /// Leased units that waited past their budget are answered now (SC-2.4).
    fn take_batch(&self, waiting: &mut VecDeque<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
        let mut batch = Vec::with_capacity(waiting.len().min(self.largest_batch));
        while batch.len() < self.largest_batch
            && let Some(job) = waiting.pop_front()
        {
            if job.leased() && job.waited() > self.leased_budget {
                job.fail(StoreError::Timeout);
            } else {
                batch.push(job);
            }
        }
        batch
    }

    async fn connect(&self, open: &mut Option<Open>) -> Result<Open, StoreError> {
        if let Some(open) = open.take() {
            return Ok(open);
        }
        let conn = Conn::open(&self.options, self.dialect, Role::Writer, self.limit).await?;
        Ok(Open {
            conn,
            synced: None,
            used: false,
        })
    }

    /// One transaction. Returns the units that found a busy row; they keep their place in time.
    async fn execute(
        &self,
        open: &mut Open,
        batch: Vec<Box<dyn Job>>,
    ) -> Result<Vec<Box<dyn Job>>, Broken> {
        let synced = batch
            .iter()
            .any(|job| job.durability() == Durability::Synced);
        if let Err(error) = self.begin(open, synced).await {
            if open.used && error.is_fatal() && self.dialect == Dialect::Postgres {
                return Err(Broken::Reconnect(batch));
            }
            fail_all(batch, &error);
            return Err(Broken::Reconnect(Vec::new()));
        }
        open.used = true;
        let (batch, token) = match self.check_lease(open, batch).await {
            Checked::Go(batch, token) => (batch, token),
            Checked::Busy(batch) => {
                return roll_back(open, batch).await;
            }
            Checked::Broken => return Err(Broken::Reconnect(Vec::new())),
        };
        let mut ran = Sorted::default();
        let mut tx = Tx::new(&mut open.conn, self.dialect, self.keys.clone(), token);
        let alone = batch.len() == 1;
        let mut jobs = batch.into_iter();
        while let Some(mut job) = jobs.next() {
            tx.lease = if job.leased() { token } else { None };
            match run_one(&mut tx, job.as_mut(), alone).await {
                Ok(Ran::Done) => ran.done.push(job),
                Ok(Ran::Refused) => ran.refused.push(job),
                Ok(Ran::Failed(error)) if error.is_lock() && self.dialect == Dialect::Postgres => {
                    ran.busy.push(job)
                }
                Ok(Ran::Failed(error)) => ran.failed.push((job, error)),
                Err(error) => {
                    // The transaction is gone, and with it what earlier units of the batch did.
                    job.fail(error.clone());
                    ran.fail(&error);
                    fail_all(jobs.collect(), &error);
                    return Err(Broken::Reconnect(Vec::new()));
                }
            }
        }
        let outbox = std::mem::take(&mut tx.outbox);
        if ran.done.is_empty() && (alone || token.is_none()) {
            // Nothing to commit: a unit that was alone has no savepoint, and the lease is renewed by whatever comes next.
            ran.conclude();
            return roll_back(open, ran.busy).await;
        }
        for job in &ran.done {
            visit_before(job.name());
        }
        let started = Instant::now();
        match sqlx::query("COMMIT").execute(&mut open.conn).await {
            Ok(_) => {
                for job in &ran.done {
                    visit_after(job.name());
                }
                if let Some(observer) = &self.observer {
                    observer.commit(ran.done.len(), synced, started.elapsed());
                }
                self.notifier.publish(outbox);
                self.committed.notify_one();
                ran.conclude();
                Ok(ran.busy)
            }
            Err(error) => Err(self.commit_failed(error, ran)),
        }
    }

    async fn begin(&self, open: &mut Open, synced: bool) -> Result<(), StoreError> {
        if open.synced != Some(synced)
            && let Some(statement) = self.dialect.durability_before_begin(synced)
        {
            sqlx::query(statement).execute(&mut open.conn).await?;
            open.synced = Some(synced);
        }
        sqlx::query(self.dialect.begin_write())
            .execute(&mut open.conn)
            .await?;
        if !synced && let Some(statement) = self.dialect.flushed_after_begin() {
            sqlx::query(statement).execute(&mut open.conn).await?;
        }
        Ok(())
    }

    /// First statement of a batch with leased units. Without the lease they are answered and taken out.
    async fn check_lease(&self, open: &mut Open, batch: Vec<Box<dyn Job>>) -> Checked {
        if !batch.iter().any(|job| job.leased()) {
            return Checked::Go(batch, None);
        }
        if let Some(token) = self.lease.current() {
            match lease::check_and_renew(&mut open.conn, self.dialect, token).await {
                Ok(true) => return Checked::Go(batch, Some(token)),
                Ok(false) => {
                    tracing::error!(epoch = token.epoch.0, "the execution lease is lost");
                    self.lease.lose(token);
                }
                // Somebody looks at the row, or a transaction whose connection was cut still holds it.
                Err(error) if error.is_lock() && self.dialect == Dialect::Postgres => {
                    return Checked::Busy(batch);
                }
                Err(error) => {
                    fail_all(batch, &error);
                    return Checked::Broken;
                }
            }
        }
        let (leased, public): (Vec<_>, Vec<_>) = batch.into_iter().partition(|job| job.leased());
        fail_all(leased, &StoreError::LeaseLost);
        Checked::Go(public, None)
    }

    fn commit_failed(&self, error: sqlx::Error, ran: Sorted) -> Broken {
        let refused_by_server =
            matches!(error, sqlx::Error::Database(_)) && self.dialect == Dialect::Postgres;
        // SQLite says that the disk is full when the record of the commit itself did not fit: nobody will ever read it.
        let error = if refused_by_server || is_full(&error) {
            error.into()
        } else {
            StoreError::CommitUnknown(Arc::new(error))
        };
        ran.fail(&error);
        match self.dialect {
            Dialect::Sqlite if error.is_unknown() => Broken::Stop(error),
            Dialect::Sqlite | Dialect::Postgres => Broken::Reconnect(Vec::new()),
        }
    }
}

/// What the first statement of a batch found.
enum Checked {
    /// These units may run, under this lease if they are leased.
    Go(Vec<Box<dyn Job>>, Option<LeaseToken>),
    /// The lease row is locked: try all of them again.
    Busy(Vec<Box<dyn Job>>),
    /// The units are answered, the connection is of no use.
    Broken,
}

/// Ends a transaction with nothing to commit. Its units that found a busy row try again, also where the connection is gone.
async fn roll_back(open: &mut Open, busy: Vec<Box<dyn Job>>) -> Result<Vec<Box<dyn Job>>, Broken> {
    match sqlx::query("ROLLBACK").execute(&mut open.conn).await {
        Ok(_) => Ok(busy),
        Err(_) => Err(Broken::Reconnect(busy)),
    }
}

/// Why the connection cannot be used any more.
enum Broken {
    /// Open a new one for the next batch; these units did nothing and try again.
    Reconnect(Vec<Box<dyn Job>>),
    /// Never write again.
    Stop(StoreError),
}

/// The units of one transaction by their result.
#[derive(Default)]
struct Sorted {
    done: Vec<Box<dyn Job>>,
    refused: Vec<Box<dyn Job>>,
    failed: Vec<(Box<dyn Job>, StoreError)>,
    busy: Vec<Box<dyn Job>>,
}

impl Sorted {
    /// The transaction is over: everybody learns their own result.
    fn conclude(&mut self) {
        for job in self.done.drain(..).chain(self.refused.drain(..)) {
            job.conclude();
        }
        for (job, error) in self.failed.drain(..) {
            job.fail(error);
        }
    }

    /// The transaction is lost: whoever rested on it learns that.
    fn fail(self, error: &StoreError) {
        fail_all(self.done, error);
        fail_all(self.refused, error);
        fail_all(self.busy, error);
        for (job, own) in self.failed {
            job.fail(own);
        }
    }
}

fn fail_all(jobs: Vec<Box<dyn Job>>, error: &StoreError) {
    for job in jobs {
        job.fail(error.clone());
    }
}

/// Runs one body in a savepoint, unless it is alone: then the transaction itself is the savepoint.
/// `Err` means that the whole transaction is lost.
async fn run_one(tx: &mut Tx<'_>, job: &mut dyn Job, alone: bool) -> Result<Ran, StoreError> {
    let savepoint = !alone;
    let mark = tx.outbox.mark();
    tx.forget_clock();
    if savepoint {
        sqlx::query("SAVEPOINT unit").execute(&mut *tx.conn).await?;
    }
    let ran = job.run(tx).await;
    if let Ran::Failed(error) = &ran
        && error.is_fatal()
    {
        return Err(error.clone());
    }
    if !matches!(ran, Ran::Done) {
        tx.outbox.truncate(mark);
    }
    if savepoint {
        if !matches!(ran, Ran::Done) {
            sqlx::query("ROLLBACK TO SAVEPOINT unit")
                .execute(&mut *tx.conn)
                .await?;
        }
        sqlx::query("RELEASE SAVEPOINT unit")
            .execute(&mut *tx.conn)
            .await?;
    }
    Ok(ran)
}

/// The rows are written and not committed: a crash here leaves nothing.
pub(crate) fn visit_before(name: &str) {
    if crash::COMPILED_IN {
        crash::visit(&format!("{name}.before"));
        crash::visit("unit.before");
    }
}

/// The rows are committed and nobody knows yet.
pub(crate) fn visit_after(name: &str) {
    if crash::COMPILED_IN {
        crash::visit(&format!("{name}.after"));
        crash::visit("unit.after");
    }
}
