//! The socket on which Core waits for the Runtimes of this machine.
//!
//! A TCP port belongs to whoever binds it first, and what runs in a sandbox shares the network of this machine (LOC-007): while
//! Core is away it could take Core's port and be sent the credentials of every daemon. This socket is a file in a private folder
//! of Core's, so nobody else can be there. Sandboxes see the folder and not the file, hence they find the socket of a Core that
//! was started again.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

/// Its name in its folder.
pub const NAME: &str = "core.sock";

/// Listens at `path`, whose folder is made if it is missing, in the place of whoever listened there before: the caller has the
/// data folder's lock, so that one is dead. Every account may connect that gets through the folders above.
///
/// # Errors
/// The folder or the socket cannot be made.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let (folder, name) = parts(path)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o711))?;
    let handle = handle(folder)?;
    let unfinished = below(&handle, unfinished(name));
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&unfinished)?;
    fs::set_permissions(&unfinished, Permissions::from_mode(0o666))?;
    fs::rename(&unfinished, below(&handle, name))?;
    Ok(listener)
}

/// The way to a socket. It holds the folder and stays good when the socket is made anew.
#[derive(Debug)]
pub struct Way {
    /// What the path goes through.
    _folder: OwnedFd,
    path: PathBuf,
}

impl Way {
    /// To the socket at `path`, which need not be there yet.
    ///
    /// # Errors
    /// Its folder is missing.
    pub fn to(path: &Path) -> io::Result<Self> {
        let (folder, name) = parts(path)?;
        let folder = handle(folder)?;
        let path = below(&folder, name);
        Ok(Self {
            _folder: folder,
            path,
        })
    }

    /// A path of the same socket that is short enough to connect to, for this process and as long as this value lives.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn parts(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let parts = path.parent().zip(path.file_name());
    parts.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Its name until it can be connected to.
fn unfinished(name: &OsStr) -> OsString {
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(".new");
    unfinished
}

fn handle(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(open(folder, flags, Mode::empty())?)
}

/// A socket's path has at most 107 bytes and a data folder may be anywhere, so it goes through an open folder.
fn below(folder: &OwnedFd, name: impl AsRef<Path>) -> PathBuf {
    Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(name)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn answers(listener: &UnixListener, way: &Way) {
        let mut client = UnixStream::connect(way.path()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"core").unwrap();
        drop(server);
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "core");
    }

    #[test]
    fn a_socket_is_found_by_the_same_way_after_it_was_made_anew_however_long_its_path_is() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("long".repeat(50)).join("link");
        let path = folder.join(NAME);
        let first = listen(&path).unwrap();
        let way = Way::to(&path).unwrap();
        answers(&first, &way);
        drop(first);
        UnixStream::connect(way.path()).unwrap_err();
        // A start that was interrupted leaves its unfinished one.
        fs::write(folder.join(".core.sock.new"), "").unwrap();
        answers(&listen(&path).unwrap(), &way);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o711, 0o666));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_socket_of_ours_is_neither_replaced_nor_reached() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(NAME);
        fs::create_dir(&path).unwrap();
        listen(&path).unwrap_err();
        Way::to(&root.path().join("missing").join(NAME)).unwrap_err();
        Way::to(Path::new("/")).unwrap_err();
    }
}
