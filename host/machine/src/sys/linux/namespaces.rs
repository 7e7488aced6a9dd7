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

/// In a fresh user namespace: one account and one group exist, each given as its number inside and outside. Outside
/// are the caller's own numbers from before.
pub(crate) fn map_ids(uid: (u32, u32), gid: (u32, u32)) -> io::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{} {} 1\n", uid.0, uid.1))?;
    std::fs::write("/proc/self/gid_map", format!("{} {} 1\n", gid.0, gid.1))
}
