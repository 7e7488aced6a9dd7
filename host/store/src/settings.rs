//! Where the database is and how the store talks to it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use domain::Secret;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sqlx::{ConnectOptions, any::AnyConnectOptions, postgres::PgConnectOptions};

use crate::{dialect::Dialect, error::StoreError, metrics::WriteObserver};

/// The database.
#[derive(Debug, Clone)]
pub enum Location {
    /// A SQLite file; made if missing. The caller holds the folder's lock.
    File(PathBuf),
    /// A PostgreSQL server; the password is never part of the URL.
    Server {
        /// `postgres://user@host:port/database?…`.
        url: String,
        /// The password, if one is needed.
        password: Option<Secret>,
    },
}

/// How to open a store.
#[derive(Clone)]
pub struct StoreSettings {
    /// The database.
    pub location: Location,
    /// The installation's keys.
    pub keys: Arc<seal::KeyRing>,
    /// Identity of the installation; a database of another one is refused. `None` draws one at the first opening.
    pub installation: Option<domain::InstallationId>,
    /// Connections for reading. SQLite is fastest with 2 to 4.
    pub readers: u32,
    /// Connections for public writes on PostgreSQL.
    pub public_writers: u32,
    /// Most units in one commit.
    pub batch: usize,
    /// Whole time of a leased unit, waiting included (SC-2.4).
    pub leased_budget: Duration,
    /// A caller that finds no connection for so long is told so (W-AUTH-2).
    pub acquire: Duration,
    /// A server that does not end a statement for so long is not there any more: the connection is given up. Longer than the
    /// limits that the server itself is told.
    pub silence: Duration,
    /// Told about every unit and commit.
    pub observer: Option<Arc<dyn WriteObserver>>,
}

impl StoreSettings {
    /// The usual settings.
    pub fn new(location: Location, keys: Arc<seal::KeyRing>) -> Self {
        let readers = match location {
            Location::File(_) => 4,
            Location::Server { .. } => 16,
        };
        Self {
            location,
            keys,
            installation: None,
            readers,
            public_writers: 16,
            batch: 32,
            leased_budget: Duration::from_secs(5),
            acquire: Duration::from_secs(5),
            silence: Duration::from_secs(12),
            observer: None,
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self.location {
            Location::File(_) => Dialect::Sqlite,
            Location::Server { .. } => Dialect::Postgres,
        }
    }

    /// Longest time of a statement as this side measures it; a file answers.
    pub(crate) fn limit(&self) -> Option<Duration> {
        match self.dialect() {
            Dialect::Sqlite => None,
            Dialect::Postgres => Some(self.silence),
        }
    }

    pub(crate) fn connect_options(&self) -> Result<AnyConnectOptions, StoreError> {
        let options = AnyConnectOptions::from_url(&self.url()?)
            .map_err(|_| StoreError::Settings("the database URL is not usable"))?;
        Ok(options.disable_statement_logging())
    }

    /// The same for what only a PostgreSQL server has; none for SQLite.
    pub(crate) fn server_options(&self) -> Result<Option<PgConnectOptions>, StoreError> {
        if self.dialect() == Dialect::Sqlite {
            return Ok(None);
        }
        let options = PgConnectOptions::from_url(&self.url()?)
            .map_err(|_| StoreError::Settings("the database URL is not usable"))?;
        Ok(Some(options.disable_statement_logging()))
    }

    fn url(&self) -> Result<url::Url, StoreError> {
        match &self.location {
            Location::File(path) => {
                // `/` stays: the driver decodes the rest, so that a folder may contain `?`, `#` or `%`.
                const PATH: &AsciiSet = &NON_ALPHANUMERIC
                    .remove(b'/')
                    .remove(b'.')
                    .remove(b'-')
                    .remove(b'_');
                let path = path.to_str().ok_or(StoreError::Settings(
                    "the path of the database is not UTF-8",
                ))?;
                url::Url::parse(&format!(
                    "sqlite://{}?mode=rwc",
                    utf8_percent_encode(path, PATH)
                ))
                .map_err(|_| StoreError::Settings("the path of the database cannot be used"))
            }
            Location::Server { url, password } => {
                let mut url = url::Url::parse(url)
                    .map_err(|_| StoreError::Settings("the database URL is not a URL"))?;
                if !matches!(url.scheme(), "postgres" | "postgresql") {
                    return Err(StoreError::Settings(
                        "the database URL must begin with postgres://",
                    ));
                }
                if let Some(password) = password {
                    let text = password
                        .as_str()
                        .ok_or(StoreError::Settings("the database password is not UTF-8"))?;
                    url.set_password(Some(text)).map_err(|()| {
                        StoreError::Settings("the database URL cannot carry a password")
                    })?;
                }
                Ok(url)
            }
        }
    }
}
