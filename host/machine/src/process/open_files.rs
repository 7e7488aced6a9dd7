//! How many files this process may open, and how many the programs that it starts.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The soft limit that this process was started with, once it is raised.
static FOUND: OnceLock<u64> = OnceLock::new();

/// Raises the soft limit of open files to the hard one: many sockets and process trees need more than the usual 1 024. What a
/// [`Spawner`](super::Spawner) starts gets the limit of before again, since a program that uses `select` breaks beyond it.
///
/// # Errors
/// The system refuses it; the limit stays.
pub fn raise_open_files() -> io::Result<()> {
    let now = getrlimit(Resource::Nofile);
    let Some(soft) = now.current else {
        return Ok(());
    };
    if now.maximum.is_none_or(|hard| soft < hard) {
        let wanted = Rlimit {
            current: now.maximum,
            maximum: now.maximum,
        };
        setrlimit(Resource::Nofile, wanted)?;
        // Raised once; a second call finds nothing to raise.
        let _ = FOUND.set(soft);
    }
    Ok(())
}

/// The soft limit of a program that has none of its own; none keeps what is inherited.
pub(super) fn usual() -> Option<u64> {
    FOUND.get().copied()
}
