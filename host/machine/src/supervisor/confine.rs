//! What the tree must not see or touch: the daemon's state folder, and the daemon itself (LOC-009).
//!
//! A daemon that is restricted to a list of paths itself has no mount namespace around it, so its trees make no Unix sockets
//! either: they could reach those of the machine.
//!
//! Paths are hidden by a mount namespace of our own in which they are empty, else by a Landlock allow-list of
//! everything around them. In both cases the tree enters a Landlock domain where the kernel has one: it can then
//! neither signal nor trace nor read the memory of a process outside of the tree, whatever account it has. Before Linux
//! 6.12 it can signal what it sees, so whoever stops a supervisor does not wait for it for ever.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{DumpableBehavior, getgid, getuid, set_dumpable_behavior};

use crate::allowed::{Allowed, Scopes, Use};
use crate::calls::Refused;
use crate::sys::{self, Spaces};

/// What the program enters between fork and exec; the supervisor itself stays outside of it, so that the tree cannot
/// reach the supervisor either.
pub(super) struct Domain {
    list: Option<Allowed>,
    refused: Option<Refused>,
}

impl Domain {
    /// Enters it for good.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        self.list.take().map_or(Ok(()), Allowed::enter)?;
        self.refused.as_ref().map_or(Ok(()), Refused::enter)
    }
}

/// Hides the paths. Fails when a path can be hidden by no means of this machine; nothing may be started then. `visible`
/// is all that the caller itself can see, where it is restricted to a list.
pub(super) fn prepare(hidden: &[PathBuf], visible: &[PathBuf]) -> io::Result<Domain> {
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
    let refused = if visible.is_empty() {
        None
    } else {
        Some(Refused::new()?)
    };
    if hidden.is_empty() || hide_by_mounts(&hidden).is_ok() {
        let list = Allowed::files()?;
        return Ok(Domain { list, refused });
    }
    let whole = [PathBuf::from("/")];
    let list = around(&hidden, if visible.is_empty() { &whole } else { visible })?;
    let nothing = Allowed::nothing(Scopes::Wanted)?;
    let allowed = list
        .iter()
        .try_fold(nothing, |allowed, path| allowed.allow(path, Use::All))?;
    Ok(Domain {
        list: Some(allowed),
        refused,
    })
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

/// Everything visible but the hidden paths. Landlock can only allow, so each folder on the way to a hidden path allows its
/// other entries as they are now. The folders on the way themselves cannot be listed: a right to list them would hold
/// below them too.
fn around(hidden: &[PathBuf], visible: &[PathBuf]) -> io::Result<BTreeSet<PathBuf>> {
    let normal = |path: &PathBuf| {
        path.components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
    };
    if !hidden.iter().all(normal) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let is_hidden = |path: &Path| hidden.iter().any(|hidden| path.starts_with(hidden));
    let on_the_way = |path: &Path| hidden.iter().any(|hidden| hidden.starts_with(path));
    let mut allowed = BTreeSet::new();
    let mut ways: Vec<PathBuf> = visible.to_vec();
    while let Some(path) = ways.pop() {
        if is_hidden(&path) {
            continue;
        }
        if !on_the_way(&path) {
            allowed.insert(path);
            continue;
        }
        match std::fs::read_dir(&path) {
            Ok(entries) => {
                for entry in entries {
                    ways.push(entry?.path());
                }
            }
            // What we may not list, the tree may not either.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(allowed)
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
        let whole = [PathBuf::from("/")];
        let found = around(&[root.join("a/state")], &whole).unwrap();
        assert!(found.contains(&root.join("a/home")) && found.contains(&root.join("b")));
        assert!(!found.contains(&root.join("a")) && !found.contains(&root.join("a/state")));
        assert!(found.contains(Path::new("/usr")) && !found.contains(Path::new("/")));
        let listed = [root.join("a/state"), root.join("b"), root.join("a/home")];
        let found = around(&[root.join("a/state")], &listed).unwrap();
        assert_eq!(found, BTreeSet::from([root.join("a/home"), root.join("b")]));
    }
}
