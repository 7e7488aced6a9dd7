//! The private home of one Session: no link on the way to anything. The agent writes there too, so every name in it may be
//! anything.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use machine::files::{Folder, Part};
use plugin_host::contract::harness_launch::{HomeFile, LookAnswer, LookQuery};

use super::{HomeContent, HomeEntry, HomeError};

/// Below a Session's folder: what the harness has for its home.
pub(super) const HARNESS: &str = "harness";
/// Answer to `entries`: files at most, and levels of folders below the one asked for.
const ENTRIES: usize = 1000;
const LEVELS: u32 = 1;
/// Answer to `head` and `tail`.
const PIECE: u64 = 256 * 1024;

/// The private home of one Session. It holds no descriptor: whatever an agent made of it since, each use opens what is ours
/// there.
#[derive(Debug)]
pub(super) struct Home {
    /// The folder of all Sessions, and this one's name in it.
    homes: PathBuf,
    name: PathBuf,
}

impl Home {
    /// Of the Session `name`, made with mode 0700 if it is not there. `homes` is ours; what is below it is the agent's.
    pub(super) fn open(homes: &Path, name: &str) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(homes)?;
        let home = Self {
            homes: homes.to_owned(),
            name: PathBuf::from(name),
        };
        home.unblock()?;
        Ok(home)
    }

    /// Takes away what a harness that looks into its home would read without end or wait for: pipes, sockets, devices, and
    /// links to them. Only at the top, where every harness looks, and only at the start, when nothing of the Session runs.
    fn unblock(&self) -> io::Result<()> {
        let folder = self.folder()?;
        for entry in std::fs::read_dir(self.homes.join(&self.name).join(HARNESS))? {
            let entry = entry?;
            // A link that leads nowhere keeps nobody waiting.
            let found = std::fs::metadata(entry.path());
            if found.is_ok_and(|found| !found.is_file() && !found.is_dir()) {
                folder.remove_all(Path::new(&entry.file_name()))?;
            }
        }
        Ok(())
    }

    fn homes(&self) -> io::Result<Folder> {
        Folder::open_unlocked(&self.homes)
    }

    fn folder(&self) -> io::Result<Folder> {
        self.homes()?.claim(&self.name.join(HARNESS))
    }

    /// Writes one entry: in one step, and an equal file is left alone. What is generated replaces what is in its way.
    pub(super) fn put(&self, entry: &HomeEntry) -> Result<(), HomeError> {
        let (path, mode) = (clean(&entry.path)?, entry.mode & 0o777);
        let folder = self.folder()?;
        let content = match &entry.content {
            HomeContent::File(content) => Some(content.expose()),
            HomeContent::Folder => None,
            HomeContent::Absent => return Ok(folder.remove_all(path)?),
        };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().map(Path::new)) else {
            return Err(HomeError::Path);
        };
        let folder = folder.claim(parent)?;
        let write = || match content {
            Some(bytes) if folder.holds(name, bytes, mode) => Ok(()),
            Some(bytes) => folder.replace(name, bytes, mode),
            None => folder.create_folder(name, mode),
        };
        match write() {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory
                ) =>
            {
                folder.remove_all(name)?;
                Ok(write()?)
            }
            written => Ok(written?),
        }
    }

    /// Removes the Session's folder with all that is in it.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.homes()?.remove_all(&self.name)
    }

    /// Answers a question.
    pub(super) fn look(&self, query: &LookQuery) -> LookAnswer {
        let answer = match query {
            LookQuery::Entries(path) => self.entries(path).map(LookAnswer::Entries),
            LookQuery::Head(path) => self.read(path, Part::Head).map(LookAnswer::Content),
            LookQuery::Tail(path) => self.read(path, Part::Tail).map(LookAnswer::Content),
        };
        answer.unwrap_or_else(|error| match error {
            HomeError::Path => LookAnswer::Failed("path".to_owned()),
            HomeError::Io(error) if error.kind() == io::ErrorKind::NotFound => LookAnswer::Missing,
            HomeError::Io(_) => LookAnswer::Failed("unreadable".to_owned()),
        })
    }

    fn entries(&self, path: &str) -> Result<Vec<HomeFile>, HomeError> {
        let below = match path {
            "" | "." => Path::new(""),
            path => clean(path)?,
        };
        let found = self.folder()?.files(below, LEVELS, ENTRIES)?;
        let whole = |(path, size): (String, u64)| HomeFile {
            path: below.join(path).to_string_lossy().into_owned(),
            size,
        };
        Ok(found.into_iter().map(whole).collect())
    }

    fn read(&self, path: &str, part: Part) -> Result<Vec<u8>, HomeError> {
        Ok(self.folder()?.part(clean(path)?, part, PIECE)?)
    }
}

/// A relative path in its only clean spelling: `a/./b`, `a//b` and `a/` are others.
fn clean(path: &str) -> Result<&Path, HomeError> {
    let part = |part| match part {
        Component::Normal(name) => name.to_str().ok_or(HomeError::Path),
        _ => Err(HomeError::Path),
    };
    let parts: Vec<&str> = Path::new(path)
        .components()
        .map(part)
        .collect::<Result<_, _>>()?;
    if parts.is_empty() || path.contains('\0') || parts.join("/") != path {
        return Err(HomeError::Path);
    }
    Ok(Path::new(path))
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
        let home = Home::open(folder.path(), "home").unwrap();
        home.put(&file("a/b/config", "one")).unwrap();
        home.put(&file("a/b/config", "two")).unwrap();
        assert_eq!(
            home.look(&LookQuery::Head("a/b/config".into())),
            LookAnswer::Content(b"two".to_vec())
        );
        let path = folder.path().join("home/harness/a/b/config");
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
        let home = Home::open(folder.path(), "home").unwrap();
        std::fs::create_dir(folder.path().join("outside")).unwrap();
        std::os::unix::fs::symlink("../../outside", folder.path().join("home/harness/link"))
            .unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("home/harness/file")).unwrap();
        for path in ["", "/etc/x", "../x", "a/../../x", "a/./b", "a//b", "a/"] {
            assert!(home.put(&file(path, "x")).is_err(), "{path}");
        }
        assert_eq!(
            home.look(&LookQuery::Head("link/x".into())),
            LookAnswer::Failed("unreadable".into())
        );
        home.put(&file("link/x", "mine")).unwrap();
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

    // LOC-009: an agent leaves in its home what it likes, and the next start of its harness meets it there.
    #[test]
    fn what_an_agent_plants_is_neither_followed_nor_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("bootstrap.json");
        std::fs::write(&secret, "sentinel").unwrap();
        let home = Home::open(&folder.path().join("homes"), "session").unwrap();
        let at = folder.path().join("homes/session/harness");
        for name in ["config.toml", "sub/config.toml"] {
            home.put(&file(name, "old")).unwrap();
            std::fs::remove_file(at.join(name)).unwrap();
            let made = std::process::Command::new("mkfifo")
                .arg(at.join(name))
                .status();
            assert!(made.unwrap().success());
            assert_eq!(
                home.look(&LookQuery::Tail(name.into())),
                LookAnswer::Failed("unreadable".into())
            );
            home.put(&file(name, "new")).unwrap();
            assert_eq!(std::fs::read_to_string(at.join(name)).unwrap(), "new");
        }
        std::os::unix::fs::symlink(&secret, at.join("link")).unwrap();
        home.put(&file("link", "mine")).unwrap();
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "sentinel");

        home.remove().unwrap();
        assert!(!folder.path().join("homes/session").exists());
        for (name, target) in [("session", "."), ("other", "session")] {
            let link = folder.path().join("homes").join(name);
            std::os::unix::fs::symlink(folder.path().join(target), link).unwrap();
            let home = Home::open(&folder.path().join("homes"), name).unwrap();
            home.put(&file("config.toml", "mine")).unwrap();
        }
        assert!(!folder.path().join("harness").exists());
        home.remove().unwrap();
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "sentinel");
    }

    // A pipe that nobody fills and a device without end are no files of a home; what can be read stays.
    #[test]
    fn a_home_is_opened_without_what_keeps_a_harness_waiting() {
        let folder = tempfile::tempdir().unwrap();
        Home::open(folder.path(), "session").unwrap();
        let at = folder.path().join("session/harness");
        let left = "mkfifo pipe; ln -s pipe auth.json; ln -s /dev/zero endless; mkdir folder; mkfifo folder/pipe; \
                    touch file; ln -s file link; ln -s nowhere broken; ln -s / outside";
        let left = std::process::Command::new("/bin/sh")
            .args(["-c", left])
            .current_dir(&at)
            .status();
        assert!(left.unwrap().success());
        Home::open(folder.path(), "session").unwrap();
        let stays = std::fs::read_dir(&at).unwrap();
        let mut stays: Vec<_> = stays.map(|entry| entry.unwrap().file_name()).collect();
        stays.retain(|name| name != "auth.json");
        stays.sort();
        assert_eq!(stays, ["broken", "file", "folder", "link", "outside"]);
        assert!(std::fs::metadata(at.join("auth.json")).is_err());
        assert!(std::path::Path::new("/dev/zero").exists());
    }

    // Whatever an agent made of a name, what is generated there is written: its harness starts again.
    #[test]
    fn what_is_in_the_way_of_a_generated_file_is_replaced() {
        for act in [
            "mkdir -p config.toml/x",
            "mkdir config.toml; touch config.toml/x; chmod 0 config.toml",
            "mkfifo config.toml",
            "ln -s /etc/passwd config.toml",
            "ln -s config.toml config.toml",
            "truncate -s 1G config.toml",
            "touch config.toml; chmod 0 config.toml",
            "touch sub",
            "ln -s / sub",
            "mkdir -p sub/config.toml; chmod 0 sub",
            "cd ..; rm -r harness; touch harness",
            "cd ..; rm -r harness; ln -s / harness",
            "cd ../..; rm -r session",
            "chmod 0 ../.. .. .",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let homes = folder.path().join("homes");
            let home = Home::open(&homes, "session").unwrap();
            let at = homes.join("session/harness");
            let acted = std::process::Command::new("/bin/sh")
                .args(["-c", act])
                .current_dir(&at)
                .status();
            assert!(acted.unwrap().success(), "{act}");
            for name in ["config.toml", "sub/config.toml"] {
                home.put(&file(name, "mine")).expect(act);
                assert_eq!(
                    std::fs::read_to_string(at.join(name)).unwrap(),
                    "mine",
                    "{act}"
                );
            }
            let folders = HomeEntry {
                path: "sub/config.toml".into(),
                mode: 0o700,
                content: HomeContent::Folder,
            };
            home.put(&folders).expect(act);
            assert!(at.join("sub/config.toml").is_dir(), "{act}");
            home.remove().expect(act);
            assert!(!homes.join("session").exists(), "{act}");
        }
    }
}
