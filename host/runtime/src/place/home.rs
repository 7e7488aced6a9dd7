//! The private home of one Session: anchored at its opened folder, no link on the way to anything.

use std::{
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Component, Path},
};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::{
    ambient_authority,
    fs::{
        Dir, DirBuilder, DirBuilderExt as _, OpenOptions, OpenOptionsExt as _, Permissions,
        PermissionsExt as _,
    },
};
use plugin_host::contract::harness_launch::{HomeFile, LookAnswer, LookQuery};

use super::{HomeContent, HomeEntry, HomeError};

/// Answer to `entries`: files at most, two levels deep.
const ENTRIES: usize = 1000;
/// Answer to `head` and `tail`.
const PIECE: u64 = 256 * 1024;
/// Largest file that is compared with its new content before it is written.
const COMPARED: u64 = 16 * 1024 * 1024;

/// An opened private home.
#[derive(Debug)]
pub(super) struct Home(Dir);

impl Home {
    /// Opens `path`, making it with mode 0700 if it is not there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)?;
        Ok(Self(Dir::open_ambient_dir(path, ambient_authority())?))
    }

    /// Writes one entry.
    pub(super) fn put(&self, entry: &HomeEntry) -> Result<(), HomeError> {
        let (parents, name) = split(&entry.path)?;
        match &entry.content {
            HomeContent::File(content) => {
                let folder = self.descend(&parents, true)?;
                write_file(&folder, name, content.expose(), entry.mode)?;
            }
            HomeContent::Folder => {
                self.descend(&parents, true)?
                    .create_dir_or_keep(name, entry.mode)?;
            }
            HomeContent::Absent => match self.descend(&parents, false) {
                Ok(folder) => remove(&folder, name)?,
                Err(HomeError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            },
        }
        Ok(())
    }

    /// Answers a question.
    pub(super) fn look(&self, query: &LookQuery) -> LookAnswer {
        let answer = match query {
            LookQuery::Entries(path) => self.entries(path).map(LookAnswer::Entries),
            LookQuery::Head(path) => self.read(path, false).map(LookAnswer::Content),
            LookQuery::Tail(path) => self.read(path, true).map(LookAnswer::Content),
        };
        answer.unwrap_or_else(|error| match error {
            HomeError::Path => LookAnswer::Failed("path".to_owned()),
            HomeError::Io(error) if error.kind() == io::ErrorKind::NotFound => LookAnswer::Missing,
            HomeError::Io(_) => LookAnswer::Failed("unreadable".to_owned()),
        })
    }

    fn entries(&self, path: &str) -> Result<Vec<HomeFile>, HomeError> {
        let root = match path {
            "" | "." => self.0.try_clone()?,
            path => {
                let (parents, name) = split(path)?;
                self.descend(&parents, false)?.open_dir_nofollow(name)?
            }
        };
        let prefix = if path == "." { "" } else { path };
        let mut found = Vec::new();
        list(&root, prefix, 2, &mut found)?;
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn read(&self, path: &str, tail: bool) -> Result<Vec<u8>, HomeError> {
        let (parents, name) = split(path)?;
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        let mut file = self.descend(&parents, false)?.open_with(name, &options)?;
        let size = file.metadata()?.len();
        if tail && size > PIECE {
            file.seek(SeekFrom::Start(size - PIECE))?;
        }
        let mut content = Vec::new();
        file.take(PIECE).read_to_end(&mut content)?;
        Ok(content)
    }

    fn descend(&self, parents: &[&str], make: bool) -> Result<Dir, HomeError> {
        let mut folder = self.0.try_clone()?;
        for name in parents {
            if make {
                folder.create_dir_or_keep(name, 0o700)?;
            }
            folder = folder.open_dir_nofollow(name)?;
        }
        Ok(folder)
    }
}

trait KeepDir {
    fn create_dir_or_keep(&self, name: &str, mode: u32) -> io::Result<()>;
}

impl KeepDir for Dir {
    fn create_dir_or_keep(&self, name: &str, mode: u32) -> io::Result<()> {
        match self.create_dir_with(name, DirBuilder::new().mode(mode & 0o777)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }
}

/// Parents and last name of a clean relative path.
fn split(path: &str) -> Result<(Vec<&str>, &str), HomeError> {
    let part = |part| match part {
        Component::Normal(name) => name.to_str().ok_or(HomeError::Path),
        _ => Err(HomeError::Path),
    };
    let parts: Vec<&str> = Path::new(path)
        .components()
        .map(part)
        .collect::<Result<_, _>>()?;
    // `a/./b`, `a//b` and `a/` are other spellings; only one is clean.
    if path.contains('\0') || parts.join("/") != path {
        return Err(HomeError::Path);
    }
    match parts.split_last() {
        Some((name, parents)) => Ok((parents.to_vec(), name)),
        None => Err(HomeError::Path),
    }
}

/// Written beside and renamed, so a reader sees the old or the new file; an equal one is left alone.
fn write_file(folder: &Dir, name: &str, content: &[u8], mode: u32) -> Result<(), HomeError> {
    let mode = mode & 0o777;
    if is_equal(folder, name, content, mode) {
        return Ok(());
    }
    let beside = format!(".{name}.new");
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(mode)
        .follow(FollowSymlinks::No);
    let mut file = match folder.open_with(&beside, &options) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Left by a daemon that was killed in this place.
            folder.remove_file(&beside)?;
            folder.open_with(&beside, &options)?
        }
        opened => opened?,
    };
    file.write_all(content)?;
    // The umask may have taken bits away.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()?;
    folder.rename(&beside, folder, name)?;
    Ok(())
}

fn is_equal(folder: &Dir, name: &str, content: &[u8], mode: u32) -> bool {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No);
    let Ok(mut file) = folder.open_with(name, &options) else {
        return false;
    };
    let same_kind = file.metadata().is_ok_and(|known| {
        known.is_file()
            && known.len() == content.len() as u64
            && known.permissions().mode() & 0o777 == mode
    });
    let mut known = Vec::new();
    same_kind
        && content.len() as u64 <= COMPARED
        && file.read_to_end(&mut known).is_ok()
        && known == content
}

fn remove(folder: &Dir, name: &str) -> io::Result<()> {
    let removed = match folder.symlink_metadata(name) {
        Ok(found) if found.is_dir() => folder.remove_dir_all(name),
        Ok(_) => folder.remove_file(name),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn list(folder: &Dir, prefix: &str, depth: u32, found: &mut Vec<HomeFile>) -> io::Result<()> {
    for entry in folder.entries()? {
        let entry = entry?;
        let (Ok(name), kind) = (entry.file_name().into_string(), entry.file_type()?) else {
            continue;
        };
        let path = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}/{name}")
        };
        if kind.is_file() && found.len() < ENTRIES {
            found.push(HomeFile {
                path,
                size: entry.metadata()?.len(),
            });
        } else if kind.is_dir() && depth > 1 {
            list(&folder.open_dir_nofollow(&name)?, &path, depth - 1, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use domain::Secret;

    use super::*;

    fn file(path: &str, text: &str) -> HomeEntry {
        HomeEntry {
            path: path.to_owned(),
            mode: 0o600,
            content: HomeContent::File(Secret::from(text.to_owned())),
        }
    }

    #[test]
    fn entries_are_written_compared_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&folder.path().join("home")).unwrap();
        home.put(&file("a/b/config", "one")).unwrap();
        home.put(&file("a/b/config", "two")).unwrap();
        assert_eq!(
            home.look(&LookQuery::Head("a/b/config".into())),
            LookAnswer::Content(b"two".to_vec())
        );
        let path = folder.path().join("home/a/b/config");
        let inode =
            |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
        let before = inode(&path);
        home.put(&file("a/b/config", "two")).unwrap();
        assert_eq!(inode(&path), before, "an equal file is left alone");
        let found = home.look(&LookQuery::Entries("a".into()));
        assert_eq!(
            found,
            LookAnswer::Entries(vec![HomeFile {
                path: "a/b/config".into(),
                size: 3
            }])
        );

        for _ in 0..2 {
            home.put(&HomeEntry {
                path: "a".into(),
                mode: 0,
                content: HomeContent::Absent,
            })
            .unwrap();
        }
        assert_eq!(
            home.look(&LookQuery::Head("a/b/config".into())),
            LookAnswer::Missing
        );
    }

    #[test]
    fn nothing_leaves_the_home_by_name_or_by_link() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&folder.path().join("home")).unwrap();
        std::fs::create_dir(folder.path().join("outside")).unwrap();
        std::os::unix::fs::symlink("../outside", folder.path().join("home/link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("home/file")).unwrap();
        for path in [
            "",
            "/etc/x",
            "../x",
            "a/../../x",
            "a/./b",
            "a//b",
            "a/",
            "link/x",
        ] {
            assert!(home.put(&file(path, "x")).is_err(), "{path}");
        }
        assert!(
            std::fs::read_dir(folder.path().join("outside"))
                .unwrap()
                .next()
                .is_none()
        );
        assert_eq!(
            home.look(&LookQuery::Head("file".into())),
            LookAnswer::Failed("unreadable".into())
        );
        home.put(&file("file", "mine")).unwrap();
        assert_eq!(
            home.look(&LookQuery::Tail("file".into())),
            LookAnswer::Content(b"mine".to_vec())
        );
    }
}
