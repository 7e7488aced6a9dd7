//! Namespaces of the calling process.

use std::io;

pub(crate) use rustix::thread::UnshareFlags as Spaces;

/// Leaves the named namespaces for new ones. The caller has one thread.
pub(crate) fn unshare(spaces: Spaces) -> io::Result<()> {
    if spaces.contains(Spaces::FILES) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: only `FILES` can make threads see descriptors that do not exist for them; it was refused above.
    Ok(unsafe { rustix::thread::unshare_unsafe(spaces) }?)
}

/// In a fresh user namespace: keeps one pair of account numbers, the caller's from before, and no other exists.
pub(crate) fn map_self(uid: u32, gid: u32) -> io::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))
}
