//! The store itself: opening, writing, closing.

use std::{sync::Arc, time::Duration};

use domain::{InstallationId, OwnerId, Timestamp, lease::Authority};
use sqlx::Row;
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    conn::Conn,
    convert::parse_id,
    dialect::{Dialect, Role},
    error::{StoreError, WriteError},
    lease::{self, AcquireLease, Acquired, LeaseCell, LeaseToken, ReleaseLease, RenewLease},
    migrate,
    notify::{Committed, Notifier},
    pool::Pool,
    settings::{Location, StoreSettings},
    tx::read_clock,
    unit::Unit,
    wakes,
    writer::{
        group::GroupWriter,
        job::{Job, Reply, UnitJob},
        pooled::PooledWriter,
    },
};

/// Units that may wait for the writer; more wait in front of the queue, so memory stays bounded.
const QUEUE: usize = 1024;
/// Period of the SQLite checkpoint task.
const CHECKPOINT_PERIOD: Duration = Duration::from_secs(1);
/// Pages (of 4 KiB) that the log may have before the writer is made to wait for it to begin anew.
const LONGEST_LOG: i64 = (64 << 20) / 4096;

/// An open database. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) settings: StoreSettings,
    pub(crate) dialect: Dialect,
    pub(crate) readers: Pool,
    public: Option<PooledWriter>,
    queue: mpsc::Sender<Box<dyn Job>>,
    lease: LeaseCell,
    notifier: Notifier,
    failure: watch::Receiver<Option<StoreError>>,
    installation: Installation,
    tasks: TaskTracker,
    stop: CancellationToken,
}

struct Installation {
    id: InstallationId,
    fingerprints: seal::Fingerprinter,
}

impl Store {
    /// Opens (and creates) the database, brings its schema up to date and checks the service key.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`], [`StoreError::WrongServiceKey`], or what the database says.
    pub async fn open(settings: StoreSettings) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        crash::arm_from_environment().map_err(|_| StoreError::Settings(crash::MALFORMED))?;
        let dialect = settings.dialect();
        let options = settings.connect_options()?;
        let mut conn = Conn::open(&options, dialect, Role::Opening, None).await?;
        migrate::run(conn.raw()?, dialect).await?;
        if !cfg!(any(feature = "testing", feature = "crash-points")) {
            // Only test builds may live in another time.
            sqlx::query("UPDATE clock SET offset_ms = 0 WHERE offset_ms <> 0")
                .execute(&mut conn)
                .await?;
        }
        let installation = open_installation(&mut conn, dialect, &settings).await?;
        conn.close().await;
        if let Location::File(path) = &settings.location {
            restrict(path)?;
        }

        let readers = Pool::open(&settings, &options, settings.readers).await?;
        let (others, outgoing) = wakes::channel();
        let server = settings.server_options()?;
        let notifier = Notifier::new(server.is_some().then_some(others));
        let public = match dialect {
            Dialect::Sqlite => None,
            Dialect::Postgres => {
                let pool = Pool::open(&settings, &options, settings.public_writers).await?;
                Some(PooledWriter {
                    pool,
                    keys: settings.keys.clone(),
                    notifier: notifier.clone(),
                })
            }
        };
        let (queue, receiver) = mpsc::channel(QUEUE);
        let (failed, failure) = watch::channel(None);
        let lease = LeaseCell::new();
        let committed = Arc::new(Notify::new());
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        let writer = GroupWriter {
            options: options.clone(),
            dialect,
            limit: settings.limit(),
            keys: settings.keys.clone(),
            queue: receiver,
            lease: lease.clone(),
            notifier: notifier.clone(),
            observer: settings.observer.clone(),
            largest_batch: settings.batch.max(1),
            leased_budget: settings.leased_budget,
            committed: committed.clone(),
            failure: failed,
        };
        tasks.spawn(writer.run(stop.clone()));
        if let Some(server) = server {
            wakes::carry(server, outgoing, notifier.clone(), &tasks, &stop);
        }
        if dialect == Dialect::Sqlite {
            tasks.spawn(checkpoints(options, committed, stop.clone()));
        }
        let inner = Inner {
            settings,
            dialect,
            readers,
            public,
            queue,
            lease,
            notifier,
            failure,
            installation,
            tasks,
            stop,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Runs one unit and waits until its commit may be announced.
    ///
    /// # Errors
    /// The unit's refusal (then nothing was written), or a failure of the store. After
    /// [`StoreError::CommitUnknown`] the caller re-reads; it never derives a right from it (ENV-217).
    pub async fn write<U: Unit>(&self, unit: U) -> Reply<U> {
        let (job, answer) = UnitJob::new(unit, self.inner.settings.observer.clone());
        match &self.inner.public {
            Some(pooled) if !U::LEASED => {
                self.inner.tasks.spawn(pooled.clone().run(Box::new(job)));
            }
            _ => {
                if self.inner.queue.send(Box::new(job)).await.is_err() {
                    return Err(StoreError::Closed.into());
                }
            }
        }
        answer
            .await
            .unwrap_or(Err(WriteError::Store(StoreError::Closed)))
    }

    /// Tries to become the owner of execution. On success leased units run under the new epoch.
    ///
    /// # Errors
    /// What the database says.
    pub async fn acquire_lease(
        &self,
        owner: OwnerId,
        authority: Authority,
    ) -> Result<Acquired, StoreError> {
        let acquired = expect_no_refusal(self.write(AcquireLease { owner, authority }).await)?;
        if let Acquired::Held(token) = acquired {
            self.inner.lease.hold(token);
        }
        Ok(acquired)
    }

    /// Renews the lease (every 10 s; other leased work renews it too).
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] if it is not ours any more.
    pub async fn renew_lease(&self) -> Result<(), StoreError> {
        expect_no_refusal(self.write(RenewLease).await)
    }

    /// Gives the lease up after a drain (SC-2.9).
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] if it was not ours any more.
    pub async fn release_lease(&self) -> Result<(), StoreError> {
        let held = self.inner.lease.current();
        expect_no_refusal(self.write(ReleaseLease).await)?;
        if let Some(token) = held {
            self.inner.lease.lose(token);
        }
        Ok(())
    }

    /// Stops leased work at once, for example because renewing failed for too long (SC-12.4).
    pub fn abandon_lease(&self, token: LeaseToken) {
        self.inner.lease.lose(token);
    }

    /// Loses every hint from now on, as a slow listener or a broken connection may (SC-3.3).
    #[cfg(feature = "testing")]
    pub fn lose_hints(&self) {
        let mute = &self.inner.notifier.mute;
        mute.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// Makes this process believe that it owns the lease, as a stopped owner does when it wakes up.
    #[cfg(feature = "testing")]
    pub fn assume_lease(&self, token: LeaseToken) {
        self.inner.lease.hold(token);
    }

    /// Who owns execution as far as this process knows; changes when the lease is gained or lost.
    pub fn lease(&self) -> watch::Receiver<Option<LeaseToken>> {
        self.inner.lease.subscribe()
    }

    /// Wakes after commits of this process, and as a rule of others. A listener that falls behind rescans.
    pub fn commits(&self) -> broadcast::Receiver<Committed> {
        self.inner.notifier.subscribe()
    }

    /// Hints of committed decisions, other processes' mostly too (SC-3.3): best effort, without authority.
    pub fn hints(&self) -> broadcast::Receiver<domain::Hint> {
        self.inner.notifier.subscribe_hints()
    }

    /// Resolves when the store can never write again; the process must end then.
    pub async fn failed(&self) -> StoreError {
        let mut failure = self.inner.failure.clone();
        match failure.wait_for(Option::is_some).await {
            Ok(error) => error.clone().unwrap_or(StoreError::Closed),
            Err(_) => StoreError::Closed,
        }
    }

    /// The database clock.
    ///
    /// # Errors
    /// What the database says.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        let mut conn = self.inner.readers.connection().await?;
        read_clock(&mut conn, self.inner.dialect).await
    }

    /// The lease row.
    ///
    /// # Errors
    /// What the database says.
    pub async fn lease_row(&self) -> Result<domain::lease::Lease, StoreError> {
        let mut conn = self.inner.readers.connection().await?;
        lease::read(&mut conn).await
    }

    /// Which database this is.
    pub fn dialect(&self) -> Dialect {
        self.inner.dialect
    }

    /// The identity of this installation.
    pub fn installation(&self) -> InstallationId {
        self.inner.installation.id
    }

    /// Fingerprints of secrets, under a key that lives with the database (KEY-005, KEY-007).
    pub fn fingerprints(&self) -> &seal::Fingerprinter {
        &self.inner.installation.fingerprints
    }

    /// The installation's keys.
    pub fn keys(&self) -> &Arc<seal::KeyRing> {
        &self.inner.settings.keys
    }

    /// Commits what is queued and closes every connection.
    pub async fn close(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        if let Some(public) = &self.inner.public {
            public.pool.close().await;
        }
        self.inner.readers.close().await;
    }
}

/// A unit that the rules never refuse.
pub(crate) fn expect_no_refusal<T>(
    reply: Result<T, WriteError<std::convert::Infallible>>,
) -> Result<T, StoreError> {
    reply.map_err(|error| match error {
        WriteError::Store(error) => error,
        WriteError::Refused(never) => match never {},
    })
}

/// The database file holds sealed secrets and every conversation: only the owner reads it.
fn restrict(path: &std::path::Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, mode)
            .map_err(|_| StoreError::Settings("the mode of the database file cannot be set"))?;
    }
    Ok(())
}

/// Reads the installation row, or writes it at the first start.
async fn open_installation(
    conn: &mut Conn,
    dialect: Dialect,
    settings: &StoreSettings,
) -> Result<Installation, StoreError> {
    let binding = seal::Binding::new(seal::Purpose::Installation, &["fingerprint-key"]);
    let keys = &settings.keys;
    let chosen = settings
        .installation
        .unwrap_or_else(|| InstallationId::new(uuid::Uuid::new_v4()));
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(|_| StoreError::Seal(seal::SealError::NoRandomness))?;
    let now = read_clock(conn, dialect).await?;
    sqlx::query(
        "INSERT INTO installation (id, installation_id, fingerprint_key, created_at) VALUES (1, $1, $2, $3) \
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(chosen.to_string())
    .bind(keys.seal(&binding, &fresh)?)
    .bind(now.millis())
    .execute(&mut *conn)
    .await?;
    let row = sqlx::query("SELECT installation_id, fingerprint_key FROM installation WHERE id = 1")
        .fetch_one(&mut *conn)
        .await?;
    let sealed: Vec<u8> = row.try_get("fingerprint_key")?;
    let key = keys.open(&binding, &sealed).map_err(|error| match error {
        seal::SealError::WrongKey { needed, loaded } => {
            StoreError::WrongServiceKey { loaded, needed }
        }
        other => other.into(),
    })?;
    let id = parse_id(
        &row.try_get::<String, _>("installation_id")?,
        "installation",
        "installation_id",
    )?;
    if settings.installation.is_some_and(|expected| expected != id) {
        return Err(StoreError::OtherInstallation { found: id });
    }
    Ok(Installation {
        id,
        fingerprints: seal::Fingerprinter::from_bytes(&key)?,
    })
}

/// Moves committed pages from the log into the database file, away from the writer's commits.
async fn checkpoints(
    options: sqlx::any::AnyConnectOptions,
    committed: Arc<Notify>,
    stop: CancellationToken,
) {
    let mut conn = None;
    loop {
        tokio::select! {
            () = committed.notified() => {}
            () = stop.cancelled() => break,
        }
        if conn.is_none() {
            conn = Conn::open(&options, Dialect::Sqlite, Role::Checkpoint, None)
                .await
                .ok();
        }
        if let Some(open) = &mut conn
            && let Err(error) = checkpoint(open).await
        {
            tracing::warn!(%error, "a checkpoint failed");
            conn = None;
        }
        tokio::select! {
            () = tokio::time::sleep(CHECKPOINT_PERIOD) => {}
            () = stop.cancelled() => break,
        }
    }
    if let Some(open) = conn {
        open.close().await;
    }
}

/// One checkpoint. A writer that never pauses leaves no moment at which the log could begin anew, so that it grows without an
/// end; once it is long, this asks the writer to wait for that moment.
async fn checkpoint(conn: &mut Conn) -> Result<(), sqlx::Error> {
    let row = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)")
        .fetch_one(&mut *conn)
        .await?;
    let pages: i64 = row.try_get("log")?;
    if pages > LONGEST_LOG {
        sqlx::query("PRAGMA wal_checkpoint(RESTART)")
            .fetch_one(conn)
            .await?;
    }
    Ok(())
}
