//! The view of a sandbox: a new root in memory into which the named things are bound, and nothing else (LOC-005).

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
};

use super::plan::{Bind, What};

/// Where the host's root is until the view is complete.
const HOST: &str = "/host";
/// Where generated files are until they are bound.
const GENERATED: &str = "/generated";

/// Makes the view the root of this mount namespace.
pub(super) fn build(stage: &Path, mounts: &[Bind]) -> io::Result<()> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    memory(stage, 1, "755", MountFlags::NOEXEC)?;
    std::env::set_current_dir(stage)?;
    fs::create_dir(&HOST[1..])?;
    rustix::process::pivot_root(".", &HOST[1..])?;
    std::env::set_current_dir("/")?;
    fs::create_dir(GENERATED)?;
    memory(Path::new(GENERATED), 1, "755", MountFlags::NOEXEC)?;
    for (number, bind) in mounts.iter().enumerate() {
        place(bind, number).map_err(|error| named(&bind.inside, error))?;
    }
    unmount(GENERATED, UnmountFlags::DETACH)?;
    fs::remove_dir(GENERATED)?;
    unmount(HOST, UnmountFlags::DETACH)?;
    fs::remove_dir(HOST)?;
    mount_remount(
        "/",
        MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV,
        c"",
    )?;
    std::env::set_current_dir("/")
}

fn named(path: &Path, error: io::Error) -> io::Error {
    match error.raw_os_error() {
        // The number is what the host reports; a message would hide it.
        Some(_) => error,
        None => io::Error::other(format!("{}: {error}", path.display())),
    }
}

fn memory(at: &Path, mib: u32, mode: &str, more: MountFlags) -> io::Result<()> {
    let options =
        std::ffi::CString::new(format!("mode={mode},size={mib}m")).map_err(io::Error::other)?;
    Ok(mount(
        "berth",
        at,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV | more,
        options.as_c_str(),
    )?)
}

fn place(bind: &Bind, number: usize) -> io::Result<()> {
    let inside = &bind.inside;
    if !inside
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
    {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match &bind.what {
        What::Link { target } => {
            make_parent(inside)?;
            symlink(target, inside)
        }
        What::Host { from, writable } => {
            let from = Path::new(HOST).join(from.strip_prefix("/").map_err(io::Error::other)?);
            show(&from, inside, *writable)
        }
        What::Scratch { mib, .. } => {
            fs::create_dir_all(inside)?;
            memory(inside, *mib, "1777", MountFlags::empty())
        }
        What::Text { content } => {
            let file = PathBuf::from(format!("{GENERATED}/{number}"));
            fs::write(&file, content)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o444))?;
            show(&file, inside, false)
        }
        What::Proc => {
            fs::create_dir_all(inside)?;
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            Ok(mount("proc", inside, "proc", flags, None)?)
        }
        What::Devices => devices(inside),
    }
}

fn make_parent(inside: &Path) -> io::Result<()> {
    inside.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Binds a folder or file, with what is mounted below it, and makes all of it read-only if asked.
fn show(from: &Path, inside: &Path, writable: bool) -> io::Result<()> {
    if fs::metadata(from)?.is_dir() {
        fs::create_dir_all(inside)?;
        mount_bind_recursive(from, inside)?;
    } else {
        if fs::symlink_metadata(inside).is_err() {
            make_parent(inside)?;
            fs::write(inside, "")?;
        }
        mount_bind(from, inside)?;
    }
    for (path, flags) in mounted_below(inside)? {
        let wanted = if writable {
            MountFlags::empty()
        } else {
            MountFlags::RDONLY
        };
        let all = flags | wanted | MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
        match mount_remount(&path, all, c"") {
            Ok(()) => {}
            // A file system below that nobody but its owner may look at shows nothing.
            Err(rustix::io::Errno::ACCESS) if path != inside => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The mounts at and below a path with their flags: those of a foreign mount are locked and must be repeated.
fn mounted_below(inside: &Path) -> io::Result<Vec<(PathBuf, MountFlags)>> {
    // A path that is no text, somewhere on the machine, is no reason to refuse; one below is not found then.
    let table = fs::read(format!("{HOST}/proc/self/mountinfo"))?;
    Ok(String::from_utf8_lossy(&table)
        .lines()
        .filter_map(parse_mount)
        .filter(|(path, _)| path.starts_with(inside))
        .collect())
}

fn parse_mount(line: &str) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(' ').skip(4);
    let path = PathBuf::from(unescape(fields.next()?));
    let mut flags = MountFlags::empty();
    for option in fields.next()?.split(',') {
        flags |= match option {
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            _ => MountFlags::empty(),
        };
    }
    Some((path, flags))
}

/// The table writes blank, tab, line feed and back-slash as three octal digits.
fn unescape(text: &str) -> String {
    let mut result = text.to_owned();
    for (code, character) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        result = result.replace(code, character);
    }
    result
}

fn devices(inside: &Path) -> io::Result<()> {
    fs::create_dir_all(inside)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("berth", inside, "tmpfs", flags, c"mode=755,size=1m")?;
    for name in ["null", "zero", "full", "random", "urandom", "tty"] {
        fs::write(inside.join(name), "")?;
        mount_bind(Path::new(HOST).join("dev").join(name), inside.join(name))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(target, inside.join(name))?;
    }
    fs::create_dir(inside.join("shm"))?;
    memory(&inside.join("shm"), 64, "1777", MountFlags::NOEXEC)?;
    fs::create_dir(inside.join("pts"))?;
    mount(
        "devpts",
        inside.join("pts"),
        "devpts",
        flags,
        c"newinstance,ptmxmode=0666,mode=620",
    )?;
    Ok(mount_remount(
        inside,
        flags | MountFlags::BIND | MountFlags::RDONLY,
        c"",
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_line_gives_its_path_and_the_flags_that_are_locked() {
        let line = "36 35 98:0 /mnt1 /mnt\\0402\\134x rw,nosuid,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let (path, flags) = parse_mount(line).unwrap();
        assert_eq!(path, Path::new("/mnt 2\\x"));
        assert_eq!(flags, MountFlags::NOSUID | MountFlags::NOATIME);
        assert!(parse_mount("36 35").is_none());
    }
}
