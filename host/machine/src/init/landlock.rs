//! The view where namespaces are forbidden: an allow-list of the same things at their real places (LOC-002). Other
//! processes are seen, but cannot be signalled, traced or read, because they are outside of the domain.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::plan::{Bind, What};

/// File rights that must exist, and the newest ones that we know.
const LEAST: ABI = ABI::V1;
const KNOWN: ABI = ABI::V6;

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

/// Restricts this process and all that it starts, for good.
pub(super) fn restrict(mounts: &[Bind]) -> io::Result<()> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LEAST))
        .and_then(|ruleset| {
            ruleset
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::from_all(KNOWN))
        })
        .and_then(|ruleset| ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    for bind in mounts {
        ruleset = match &bind.what {
            What::Host { from, writable } => allow(ruleset, from, *writable)?,
            What::Scratch { instead, .. } => allow(ruleset, instead, true)?,
            What::Proc => allow(ruleset, Path::new("/proc"), false)?,
            What::Devices => {
                for name in [
                    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd",
                ] {
                    ruleset = allow(ruleset, &Path::new("/dev").join(name), true)?;
                }
                ruleset
            }
            // Links are followed where they are; the host's own files stand in for generated ones.
            What::Link { .. } | What::Text { .. } => ruleset,
        };
    }
    ruleset.restrict_self().map(drop).map_err(failed)
}

fn allow(ruleset: RulesetCreated, path: &Path, writable: bool) -> io::Result<RulesetCreated> {
    let Ok(found) = std::fs::metadata(path) else {
        return Ok(ruleset);
    };
    let rights: BitFlags<AccessFs> = if writable {
        AccessFs::from_all(KNOWN)
    } else {
        AccessFs::from_read(KNOWN)
    };
    let rights = if found.is_dir() {
        rights
    } else {
        rights & AccessFs::from_file(KNOWN)
    };
    let handle = PathFd::new(path).map_err(failed)?;
    ruleset
        .add_rule(PathBeneath::new(handle, rights))
        .map_err(failed)
}
