//! The view where namespaces are forbidden: an allow-list of the same things at their real places (LOC-002). Other
//! processes are seen, but cannot be signalled, traced or read, because they are outside of the domain.

use std::io;
use std::path::{Path, PathBuf};

use super::plan::{Plan, What};
use crate::allowed::{Allowed, Scopes, Use};
use crate::calls::Refused;

/// Devices that hold nothing of anybody. Not `shm`: it is the machine's own, with what others share there.
const DEVICES: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "fd"];
/// Terminals, for an account of its own only: those of Core's account are the operator's.
const TERMINALS: [&str; 2] = ["ptmx", "pts"];

/// Restricts this process and all that it starts, for good; what the supervisor will refuse to a tree besides is tried. Called under the account that will work here, which must be
/// able to pass through the parent folders of its things: an allow-list gives no way where the modes give none.
pub(super) fn restrict(plan: &Plan) -> io::Result<()> {
    for bind in &plan.mounts {
        if let What::Host { from, .. } = &bind.what
            && let Err(error) = std::fs::metadata(from)
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            return Err(error);
        }
    }
    Refused::prove()?;
    let mut visible = places(plan).into_iter();
    visible
        .try_fold(Allowed::nothing(Scopes::Required)?, |list, (path, what)| {
            list.allow(&path, what)
        })?
        .enter()
}

/// Where the things of a view are on the host. Links are followed where they are, and the host's own files stand in for
/// generated ones.
pub(super) fn places(plan: &Plan) -> Vec<(PathBuf, Use)> {
    let mut places = Vec::new();
    let terminals = if plan.real_uid.is_some() {
        &TERMINALS[..]
    } else {
        &[]
    };
    for bind in &plan.mounts {
        match &bind.what {
            What::Host { from, writable } => {
                places.push((from.clone(), if *writable { Use::All } else { Use::Read }))
            }
            What::Scratch { instead, .. } => places.push((instead.clone(), Use::All)),
            What::Proc => places.push((PathBuf::from("/proc"), Use::Read)),
            What::Devices => {
                let names = DEVICES.iter().chain(terminals);
                places.extend(names.map(|name| (Path::new("/dev").join(name), Use::All)));
            }
            What::Link { .. } | What::Text { .. } => {}
        }
    }
    places
}
