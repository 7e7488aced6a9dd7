//! A fresh database for one test.

use std::{sync::Arc, time::Duration};

use sqlx::{AnyConnection, AssertSqlSafe, Connection};

use super::{Proxy, postgres};
use crate::{
    Location, Store, StoreError, StoreSettings, UnitError, conn::Conn, store::expect_no_refusal,
    tx::Tx, unit::Unit,
};

/// One database that goes away with this value (SQLite) or with its server (PostgreSQL).
pub struct TestDatabase {
    location: Location,
    /// How long its server may say nothing.
    silence: Option<Duration>,
    _folder: Option<tempfile::TempDir>,
}

impl TestDatabase {
    /// A SQLite file in a temporary folder.
    ///
    /// # Panics
    /// If the folder cannot be made.
    #[allow(clippy::expect_used)]
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // The name proves that a path is no URL.
        let path = folder.path().join("a b?c#d%20.db");
        Self {
            location: Location::File(path),
            silence: None,
            _folder: Some(folder),
        }
    }

    /// A new database on the server that `BERTH_TEST_POSTGRES_URL` names (a superuser without a password), or on a
    /// private server of this process.
    ///
    /// # Panics
    /// If there is no PostgreSQL on this machine: a suite for two databases must not pass on one.
    #[allow(clippy::expect_used)]
    pub async fn postgres() -> Self {
        let server = postgres::url();
        let name = format!("berth_{}", uuid::Uuid::new_v4().simple());
        sqlx::any::install_default_drivers();
        let mut admin = AnyConnection::connect(&server)
            .await
            .expect("the test server answers");
        sqlx::query(AssertSqlSafe(format!(
            "CREATE DATABASE {name} TEMPLATE template0"
        )))
        .execute(&mut admin)
        .await
        .expect("a test database");
        admin.close().await.expect("a clean end");
        let mut url = url::Url::parse(&server).expect("a URL");
        url.set_path(&name);
        Self {
            location: Location::Server {
                url: url.into(),
                password: None,
            },
            silence: None,
            _folder: None,
        }
    }

    /// As [`TestDatabase::postgres`], over a way on which the server can fall silent; who waits for it waits for half a second.
    ///
    /// # Panics
    /// As [`TestDatabase::postgres`].
    #[allow(clippy::expect_used)]
    pub async fn behind_a_proxy() -> (Proxy, Self) {
        let direct = Self::postgres().await;
        let proxy = Proxy::to(direct.server()).await;
        let database = Self {
            location: direct.through(proxy.port()),
            silence: Some(Duration::from_millis(500)),
            _folder: None,
        };
        (proxy, database)
    }

    /// Host and port of its server.
    ///
    /// # Panics
    /// If it is a file.
    #[allow(clippy::expect_used)]
    pub fn server(&self) -> String {
        let Location::Server { url, .. } = &self.location else {
            unreachable!("a file has no server")
        };
        let url = url::Url::parse(url).expect("a URL");
        let host = url.host_str().expect("a host");
        format!("{host}:{}", url.port().unwrap_or(5432))
    }

    /// The same database at another port of loopback.
    ///
    /// # Panics
    /// If it is a file.
    #[allow(clippy::expect_used)]
    pub fn through(&self, port: u16) -> Location {
        let Location::Server { url, .. } = &self.location else {
            unreachable!("a file has no server")
        };
        let mut url = url::Url::parse(url).expect("a URL");
        url.set_ip_host(std::net::Ipv4Addr::LOCALHOST.into())
            .expect("a host");
        url.set_port(Some(port)).expect("a port");
        Location::Server {
            url: url.into(),
            password: None,
        }
    }

    /// A fresh database of the same kind.
    ///
    /// # Panics
    /// As its constructor.
    pub async fn another(&self) -> Self {
        match self.location {
            Location::File(_) => Self::sqlite(),
            Location::Server { .. } => Self::postgres().await,
        }
    }

    /// Where it is.
    pub fn location(&self) -> Location {
        self.location.clone()
    }

    /// Settings with a fixed service key.
    ///
    /// # Panics
    /// Never: the key has the right length.
    #[allow(clippy::expect_used)]
    pub fn settings(&self) -> StoreSettings {
        let key = seal::ServiceKey::from_bytes(&[7; 32]).expect("32 bytes");
        let mut settings = StoreSettings::new(self.location(), Arc::new(seal::KeyRing::new(key)));
        settings.readers = 2;
        settings.public_writers = 8;
        if let Some(silence) = self.silence {
            (settings.silence, settings.acquire) = (silence, silence);
        }
        settings
    }

    /// Opens it.
    ///
    /// # Panics
    /// If it cannot be opened.
    #[allow(clippy::expect_used)]
    pub async fn open(&self) -> Store {
        Store::open(self.settings()).await.expect("the store opens")
    }

    /// Runs one statement behind the store's back, as an intruder would.
    ///
    /// # Errors
    /// What the database says.
    pub async fn execute(&self, statement: &str) -> Result<(), StoreError> {
        use sqlx::ConnectOptions;
        let mut conn = self.settings().connect_options()?.connect().await?;
        sqlx::query(AssertSqlSafe(statement.to_owned()))
            .execute(&mut conn)
            .await?;
        Ok(conn.close().await?)
    }

    /// Every row of every table as text, for comparing before and after (I33). The clock, the lease's expiry and the
    /// migration records are left out.
    ///
    /// # Errors
    /// What the database says.
    pub async fn dump(&self) -> Result<String, StoreError> {
        use sqlx::ConnectOptions;
        let settings = self.settings();
        let mut conn = settings.connect_options()?.connect().await?;
        let dump = super::databases::dump(&mut conn).await;
        conn.close().await?;
        dump
    }
}

/// Tables whose rows are part of the state.
const TABLES: &[(&str, &str)] = &[
    ("lease", "cast(epoch AS TEXT) || coalesce(owner, '')"),
    (
        "projects",
        "id || name || coalesce(cast(archived_at AS TEXT), '')",
    ),
    ("api_keys", "id || coalesce(cast(revoked_at AS TEXT), '')"),
    (
        "agents",
        "id || body || coalesce(cast(deleted_at AS TEXT), '')",
    ),
    ("model_defaults", "harness || body"),
    (
        "provider_selections",
        "cast(generation AS TEXT) || coalesce(provider, '') || settings",
    ),
    ("write_operations", "id || action"),
    ("audit_log", "id || action"),
    ("retries", "namespace || key || digest || resource_id"),
    ("configurations", "id || body"),
    (
        "sessions",
        "id || cast(last_event AS TEXT) || coalesce(cast(deleted_at AS TEXT), '') || body",
    ),
    (
        "environments",
        "id || status || initialization || connection || body",
    ),
    ("reservations", "id || state || body || messages"),
    ("turns", "id || status || body"),
    ("inputs", "id || body"),
    ("items", "id || body"),
    ("calls", "turn_id || call_id || body"),
    ("receipts", "id || body"),
    ("devices", "id || body"),
    ("bindings", "id || body"),
    ("allocations", "id || body"),
    (
        "artifacts",
        "id || path || digest || coalesce(cast(deleted_at AS TEXT), '')",
    ),
    ("files", "id || project_id || filename || digest"),
    (
        "skills",
        "id || project_id || cast(default_version AS TEXT) || cast(last_number AS TEXT)",
    ),
    (
        "skill_versions",
        "id || skill_id || cast(number AS TEXT) || digest",
    ),
    ("blob_references", "blob || holder"),
    (
        "templates",
        "id || project_id || coalesce(name, '') || body || cast(updated_at AS TEXT)",
    ),
    (
        "vaults",
        "id || project_id || coalesce(name, '') || metadata || status",
    ),
    (
        "credentials",
        "id || vault_id || name || auth || status || cast(updated_at AS TEXT)",
    ),
    ("provider_state", "provider || scope || key"),
    ("events", "session_id || cast(number AS TEXT) || id || body"),
];

async fn dump(conn: &mut AnyConnection) -> Result<String, StoreError> {
    use sqlx::Row;
    let mut out = String::new();
    for (table, text) in TABLES {
        let rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT {text} AS line FROM {table} ORDER BY 1"
        )))
        .fetch_all(&mut *conn)
        .await?;
        for row in rows {
            out.push_str(table);
            out.push(' ');
            out.push_str(&row.try_get::<String, _>("line")?);
            out.push('\n');
        }
    }
    Ok(out)
}

/// Every connection for reading, in the hands of somebody who does not give them back until this is dropped.
pub struct TakenReaders(#[allow(dead_code, reason = "held")] Vec<Conn>);

/// Takes every connection for reading.
///
/// # Errors
/// What the database says.
pub async fn take_readers(store: &Store) -> Result<TakenReaders, StoreError> {
    let mut taken = Vec::new();
    for _ in 0..store.inner.settings.readers {
        taken.push(store.read().connection().await?);
    }
    Ok(TakenReaders(taken))
}

/// Moves the database clock of this store by so much more.
///
/// # Errors
/// What the database says.
pub async fn move_clock(store: &Store, by: Duration) -> Result<(), StoreError> {
    struct MoveClock(i64);
    impl Unit for MoveClock {
        const NAME: &'static str = "MoveClock";
        const LEASED: bool = false;
        type Answer = ();
        type Refusal = std::convert::Infallible;

        async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Self::Refusal>> {
            sqlx::query("UPDATE clock SET offset_ms = offset_ms + $1 WHERE id = 1")
                .bind(self.0)
                .execute(&mut *tx.conn)
                .await?;
            Ok(())
        }
    }
    expect_no_refusal(
        store
            .write(MoveClock(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
            .await,
    )
}
