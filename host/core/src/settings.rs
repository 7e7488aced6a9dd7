//! What an operator decides before start. One validated struct; the command line and its variables live in the binary.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use domain::{InstallationId, OwnerId, Secret};
use url::Url;

use crate::issuers::IssuerSettings;
use crate::rotation::Unfinished;

/// Everything [`serve`](crate::serve) needs. Values are validated by whoever builds it, except where a field says otherwise.
pub struct CoreSettings {
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Origin under which clients and Runtimes reach this Core; the loopback listener if absent. Never taken from request
    /// headers (S-SES-4).
    pub public_url: Option<Url>,
    /// Private folder (0700) of this Core.
    pub data_dir: PathBuf,
    /// Where the truth is kept.
    pub database: Database,
    /// The service key that seals secrets: 32 bytes.
    pub credential_key: Secret,
    /// A rotation of that key that is not complete.
    pub unfinished_rotation: Option<Unfinished>,
    /// SHA-256 digests of the Core keys (OPS-003). Without any, `/core/v1` is not served.
    pub core_key_digests: Vec<[u8; 32]>,
    /// Identity of this installation; a database of another one is refused.
    pub installation: InstallationId,
    /// Project and key made when the database holds no Project yet (OPS-140).
    pub first_project: Option<FirstProject>,
    /// Harness declarations that may be used; `None` = every installed one (SLC-009).
    pub enabled_harnesses: Option<Vec<String>>,
    /// Harness used where nobody chose one; `None` = the enabled declaration with the lowest rank.
    pub default_harness: Option<String>,
    /// Runs at the same time, 1 to 1024.
    pub execution_concurrency: u16,
    /// How long an idle Executor is kept before the Runtime closes it.
    pub executor_idle: Duration,
    /// How long records of public writes are kept; those of creations stay (OPS-066). At least one hour.
    pub write_audit_retention: Duration,
    /// Accept plain `http` model URLs on a loopback address (development and tests; the only exception to MDL-002).
    pub allow_loopback_model_urls: bool,
    /// Which OAuth issuers may be asked beyond the public ones.
    pub issuers: IssuerSettings,
    /// Longest time between SIGTERM and exit.
    pub drain: Duration,
    /// Open client connections at the same time; more wait in the listen queue.
    pub max_connections: usize,
    /// Folder of installed harness programs, handed to daemons.
    pub harness_dir: PathBuf,
    /// The loaded plugins.
    pub plugins: plugin_host::Plugins,
    /// Where plugins are, handed to daemons.
    pub plugin_settings: plugin_host::Settings,
    /// This program, started as daemon, supervisor and sandbox init by its hidden sub-commands.
    pub program: PathBuf,
    /// Machine processes that a provider may be granted (LOC-025).
    pub sandboxes: machine::sandbox::Settings,
    /// Every setting, for the facts of the installation.
    pub shown: Vec<ShownSetting>,
    /// Stands for the data folder, whose lock the caller holds: a process that owned execution under this id is dead (D31).
    pub owner: OwnerId,
}

/// One setting of the process, as an operator may see it (OPS-082).
#[derive(Debug, Clone)]
pub struct ShownSetting {
    /// Its name on the command line.
    pub key: &'static str,
    /// What it is; `None` = not given.
    pub value: Option<String>,
    /// What it is where nobody sets it; `None` = nothing.
    pub default: Option<String>,
    /// The value is nobody's business: only whether there is one is shown.
    pub sensitive: bool,
}

/// The database of a Core.
pub enum Database {
    /// A file `berth.db` in the data folder.
    Sqlite,
    /// PostgreSQL by URL; the password is not part of it.
    Postgres {
        /// `postgres://user@host:port/name`.
        url: String,
        /// Password, if one is needed.
        password: Option<Secret>,
    },
}

/// The Project and key of a first start.
pub struct FirstProject {
    /// Name of the Project.
    pub name: String,
    /// Its only key, already saved by the caller: a crash between the two leaves a key that works on the next start.
    pub key: Secret,
}
