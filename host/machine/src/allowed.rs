//! Landlock allow-lists: what a process and all that it starts may still open, for good. Shared by the sandbox init and by
//! the supervisor, whose lists stack: the inner one can only take away.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};

/// File rights that must be enforceable, and the newest ones whose meaning we know.
const LEAST: ABI = ABI::V1;
const KNOWN: ABI = ABI::V6;
/// The first with scopes (Linux 6.12). Without them a tree can signal every process of its account.
const SCOPED: ABI = ABI::V6;
const SCOPES: BitFlags<Scope> = make_bitflags!(Scope::{Signal | AbstractUnixSocket});

/// What is allowed below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Reading and executing.
    Read,
    /// Everything.
    All,
}

/// Whether what is in a list must be kept from signalling processes outside, and from their abstract sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scopes {
    /// Else there is no list.
    Required,
    /// Where the kernel can.
    Wanted,
}

/// An allow-list in the making; it starts with nothing.
pub(crate) struct Allowed {
    list: RulesetCreated,
    scopes: Scopes,
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

impl Allowed {
    /// No file at all, and no process outside. An error where the kernel has no Landlock, or not the required scopes.
    pub(crate) fn nothing(scopes: Scopes) -> io::Result<Self> {
        let level = match scopes {
            Scopes::Required => CompatLevel::HardRequirement,
            Scopes::Wanted => CompatLevel::BestEffort,
        };
        let list = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(LEAST))
            .and_then(|list| list.set_compatibility(level).scope(SCOPES))
            .and_then(|list| {
                // Rights that a later kernel tells apart; the rules inherit that.
                list.set_compatibility(CompatLevel::BestEffort)
                    .handle_access(AccessFs::from_all(KNOWN))
            })
            .and_then(Ruleset::create)
            .map_err(failed)?;
        Ok(Self { list, scopes })
    }

    /// Every file, but no process outside: it can be neither signalled nor traced nor read. None where the kernel has no
    /// scopes.
    pub(crate) fn files() -> io::Result<Option<Self>> {
        let list = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .scope(SCOPES);
        let list = match list {
            Ok(list) => list.create().map_err(failed)?,
            Err(RulesetError::Scope(_)) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        Ok(Some(Self {
            list,
            scopes: Scopes::Required,
        }))
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
        let list = self.list.add_rule(PathBeneath::new(handle, rights));
        Ok(Self {
            list: list.map_err(failed)?,
            scopes: self.scopes,
        })
    }

    /// Restricts this thread and all that it starts. An error where the kernel says that it does not enforce what is
    /// required.
    pub(crate) fn enter(self) -> io::Result<()> {
        let entered = self.list.restrict_self().map_err(failed)?;
        suffices(entered.landlock, self.scopes)
    }
}

fn suffices(kernel: LandlockStatus, scopes: Scopes) -> io::Result<()> {
    let least = match scopes {
        Scopes::Required => SCOPED,
        Scopes::Wanted => LEAST,
    };
    match kernel {
        LandlockStatus::Available { effective_abi, .. } if effective_abi >= least => Ok(()),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // LOC-002
    #[test]
    fn a_kernel_without_scopes_separates_nothing() {
        let kernel = |effective_abi| LandlockStatus::Available {
            effective_abi,
            kernel_abi: None,
        };
        for new in [ABI::V6, ABI::V7] {
            suffices(kernel(new), Scopes::Required).unwrap();
        }
        for old in [ABI::V1, ABI::V5] {
            suffices(kernel(old), Scopes::Required).unwrap_err();
            suffices(kernel(old), Scopes::Wanted).unwrap();
        }
        for none in [LandlockStatus::NotEnabled, LandlockStatus::NotImplemented] {
            suffices(none, Scopes::Required).unwrap_err();
            suffices(none, Scopes::Wanted).unwrap_err();
        }
    }
}
