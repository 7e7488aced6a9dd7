//! Landlock allow-lists: what a process and all that it starts may still open, for good. Shared by the sandbox init and by
//! the supervisor, whose lists stack: the inner one can only take away.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};

/// File rights that must be enforceable, and the newest ones whose meaning we know.
const LEAST: ABI = ABI::V1;
const KNOWN: ABI = ABI::V6;

/// What is allowed below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Reading and executing.
    Read,
    /// Everything.
    All,
}

/// An allow-list in the making; it starts with nothing.
pub(crate) struct Allowed(RulesetCreated);

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

impl Allowed {
    /// No file at all, and no process outside. An error where the kernel has no Landlock.
    pub(crate) fn nothing() -> io::Result<Self> {
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(LEAST))
            .and_then(|list| {
                list.set_compatibility(CompatLevel::BestEffort)
                    .handle_access(AccessFs::from_all(KNOWN))
            })
            .and_then(|list| list.scope(Scope::Signal | Scope::AbstractUnixSocket))
            .and_then(Ruleset::create)
            .map(Self)
            .map_err(failed)
    }

    /// Every file, but no process outside: it can be neither signalled nor traced nor read.
    pub(crate) fn files() -> io::Result<Self> {
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .scope(Scope::Signal | Scope::AbstractUnixSocket)
            .and_then(Ruleset::create)
            .map(Self)
            .map_err(failed)
    }

    /// Allows a file, or a folder with what is below it. What is not there, or what we may not open ourselves, gives no
    /// right and needs none.
    pub(crate) fn allow(self, path: &Path, what: Use) -> io::Result<Self> {
        let (Ok(found), Ok(handle)) = (std::fs::metadata(path), PathFd::new(path)) else {
            return Ok(self);
        };
        let rights: BitFlags<AccessFs> = match what {
            Use::Read => AccessFs::from_read(KNOWN),
            Use::All => AccessFs::from_all(KNOWN),
        };
        let rights = if found.is_dir() {
            rights
        } else {
            rights & AccessFs::from_file(KNOWN)
        };
        self.0
            .add_rule(PathBeneath::new(handle, rights))
            .map(Self)
            .map_err(failed)
    }

    /// Restricts this thread and all that it starts.
    pub(crate) fn enter(self) -> io::Result<()> {
        self.0.restrict_self().map(drop).map_err(failed)
    }
}
