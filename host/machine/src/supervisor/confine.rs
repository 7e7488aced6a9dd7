//! What the tree must not see or touch: the daemon's state folder, and the daemon itself (LOC-009).
//!
//! Paths are hidden by a mount namespace of our own in which they are empty, else by a Landlock allow-list of
//! everything around them. In both cases the tree enters a Landlock domain where the kernel has one: it can then
//! neither signal nor trace nor read the memory of a process outside of the tree, whatever account it has.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::path::{Component, Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{DumpableBehavior, getgid, getuid, set_dumpable_behavior};

use crate::sys::{self, Spaces};

/// The newest Landlock whose meaning we know: file rights up to device control, scopes for signals and sockets.
const KNOWN: ABI = ABI::V6;

/// What the program enters between fork and exec; the supervisor itself stays outside of it, so that the tree cannot
/// reach the supervisor either.
pub(super) struct Domain(Option<RulesetCreated>);

impl Domain {
    /// Enters it for good.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        match self.0.take() {
            Some(ruleset) => ruleset.restrict_self().map(drop).map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

/// Hides the paths. Fails when a path can be hidden by no means of this machine; nothing may be started then.
pub(super) fn prepare(hidden: &[PathBuf]) -> io::Result<Domain> {
    if let Some(path) = hidden.iter().find(|path| !path.is_absolute()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is not absolute", path.display()),
        ));
    }
    let hidden: Vec<PathBuf> = hidden
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    if hidden.is_empty() || hide_by_mounts(&hidden).is_ok() {
        return Ok(Domain(scopes_only().ok()));
    }
    allow_around(&hidden).map(|ruleset| Domain(Some(ruleset)))
}

/// A mount namespace in which each hidden folder is empty and each hidden file is `/dev/null`.
fn hide_by_mounts(hidden: &[PathBuf]) -> io::Result<()> {
    let (uid, gid) = (getuid(), getgid());
    if uid.is_root() {
        sys::unshare(Spaces::NEWNS)?;
    } else {
        // The files of a non-dumpable process belong to root, its own map too.
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        let mapped = sys::unshare(Spaces::NEWUSER | Spaces::NEWNS).and_then(|()| {
            sys::map_ids((uid.as_raw(), uid.as_raw()), (gid.as_raw(), gid.as_raw()))
        });
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        mapped?;
    }
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    for path in hidden {
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                let flags = MountFlags::RDONLY
                    | MountFlags::NOSUID
                    | MountFlags::NODEV
                    | MountFlags::NOEXEC;
                let options = CString::new("size=4k,mode=000").unwrap_or_default();
                mount("none", path, "tmpfs", flags, options.as_c_str())?;
            }
            Ok(_) => mount_bind("/dev/null", path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

/// A domain that keeps every file right and only separates processes.
fn scopes_only() -> io::Result<RulesetCreated> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal | Scope::AbstractUnixSocket)
        .and_then(Ruleset::create)
        .map_err(failed)
}

/// Everything but the hidden paths: Landlock can only allow, so each folder on the way to a hidden path allows its
/// other entries as they are now. The folders on the way themselves cannot be listed: a right to list them would hold
/// below them too.
fn allow_around(hidden: &[PathBuf]) -> io::Result<RulesetCreated> {
    let all = AccessFs::from_all(KNOWN);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(|ruleset| {
            ruleset
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(all)
        })
        .and_then(|ruleset| ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    let files = AccessFs::from_file(KNOWN);
    for path in around(hidden)? {
        // An entry that went away or that we may not open gives no right, and needs none.
        let Ok(handle) = PathFd::new(&path) else {
            continue;
        };
        let is_folder = std::fs::metadata(&path).is_ok_and(|found| found.is_dir());
        let rights: BitFlags<AccessFs> = if is_folder { all } else { files };
        ruleset = ruleset
            .add_rule(PathBeneath::new(handle, rights))
            .map_err(failed)?;
    }
    Ok(ruleset)
}

fn ancestors(hidden: &[PathBuf]) -> BTreeSet<PathBuf> {
    hidden
        .iter()
        .flat_map(|path| path.ancestors().skip(1))
        .map(Path::to_path_buf)
        .collect()
}

/// The siblings along the way to each hidden path.
fn around(hidden: &[PathBuf]) -> io::Result<BTreeSet<PathBuf>> {
    let normal = |path: &Path| {
        path.components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
    };
    if !hidden.iter().all(|path| normal(path)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let way = ancestors(hidden);
    let mut siblings = BTreeSet::new();
    for folder in &way {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            if !way.contains(&path) && !hidden.contains(&path) {
                siblings.insert(path);
            }
        }
    }
    Ok(siblings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_around_a_hidden_folder_has_every_sibling_and_neither_the_way_nor_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for name in ["a/state", "a/home", "b"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let found = around(&[root.join("a/state")]).unwrap();
        assert!(found.contains(&root.join("a/home")) && found.contains(&root.join("b")));
        assert!(!found.contains(&root.join("a")) && !found.contains(&root.join("a/state")));
        assert!(found.contains(Path::new("/usr")) && !found.contains(Path::new("/")));
    }
}
