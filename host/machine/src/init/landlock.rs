//! The view where namespaces are forbidden: an allow-list of the same things at their real places (LOC-002). Other
//! processes are seen, but cannot be signalled, traced or read, because they are outside of the domain.

use std::io;
use std::path::{Path, PathBuf};

use super::plan::{Bind, What};
use crate::allowed::{Allowed, Use};

/// Devices that every program may expect.
const DEVICES: [&str; 10] = [
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd",
];

/// Restricts this process and all that it starts, for good. Called under the account that will work here, which must be
/// able to pass through the parent folders of its things: an allow-list gives no way where the modes give none.
pub(super) fn restrict(mounts: &[Bind]) -> io::Result<()> {
    for bind in mounts {
        if let What::Host { from, .. } = &bind.what
            && let Err(error) = std::fs::metadata(from)
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            return Err(error);
        }
    }
    let mut visible = places(mounts).into_iter();
    visible
        .try_fold(Allowed::nothing()?, |list, (path, what)| {
            list.allow(&path, what)
        })?
        .enter()
}

/// Where the things of a view are on the host. Links are followed where they are, and the host's own files stand in for
/// generated ones.
pub(super) fn places(mounts: &[Bind]) -> Vec<(PathBuf, Use)> {
    let mut places = Vec::new();
    for bind in mounts {
        match &bind.what {
            What::Host { from, writable } => {
                places.push((from.clone(), if *writable { Use::All } else { Use::Read }))
            }
            What::Scratch { instead, .. } => places.push((instead.clone(), Use::All)),
            What::Proc => places.push((PathBuf::from("/proc"), Use::Read)),
            What::Devices => {
                places.extend(DEVICES.map(|name| (Path::new("/dev").join(name), Use::All)))
            }
            What::Link { .. } | What::Text { .. } => {}
        }
    }
    places
}
