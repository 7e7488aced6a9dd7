//! Where the parts of one sandbox are (LOC-010, LOC-011).
//!
//! `<root>/<tenant>/<session>/` holds `workspace`, `home`, `state` (the daemon's: bootstrap file, log), and beside them,
//! where nothing inside can reach, the records that Core trusts.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

use super::record::{self, Record};
use super::types::{Identity, Refusal, Settings};
use crate::files::Folder;

/// Prefix of a folder that is being made or removed; it is no sandbox before it has its name, or after it.
const UNFINISHED: &str = ".new-";

/// Folders of a sandbox that belong to its account.
pub(super) const PARTS: [&str; 4] = ["workspace", "home", "scratch", "state"];
/// How often a tenant's folder is made again that others take away.
const TRIES: u32 = 100;

/// The folder of one sandbox.
pub(super) struct Place {
    tenant: PathBuf,
    name: String,
    pub(super) path: PathBuf,
}

impl Place {
    /// Where the sandbox of that identity is or would be.
    pub(super) fn of(settings: &Settings, whose: &Identity) -> Result<Self, Refusal> {
        for (what, part) in [("tenant", &whose.tenant), ("session", &whose.session)] {
            if !is_name(part) {
                tracing::error!(what, "not usable as the name of a folder");
                return Err(Refusal::Refused("identity_invalid"));
            }
        }
        if !is_name(&whose.name) || whose.name.len() > 63 {
            return Err(Refusal::Refused("identity_invalid"));
        }
        Ok(Self::at(settings, &whose.tenant, &whose.session))
    }

    pub(super) fn at(settings: &Settings, tenant: &str, session: &str) -> Self {
        let tenant = settings.root.join(tenant);
        Self {
            path: tenant.join(session),
            tenant,
            name: session.to_owned(),
        }
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.path.join("workspace")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    pub(super) fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    /// Stands in for file systems in memory where there is no mount namespace.
    pub(super) fn scratch(&self) -> PathBuf {
        self.path.join("scratch")
    }

    /// The record, if it is this identity's.
    pub(super) fn record_of(&self, whose: &Identity) -> Result<Record, Refusal> {
        match record::read(&self.path) {
            Ok(Some(record)) if record.whose == *whose => Ok(record),
            Ok(Some(_)) => Err(Refusal::NotOurs),
            Ok(None) => match fs::symlink_metadata(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Refusal::NotFound),
                // Something that we did not make has the name.
                _ => Err(Refusal::NotOurs),
            },
            Err(error) => Err(Refusal::Unknown {
                code: "record_unreadable",
                cause: error,
            }),
        }
    }

    /// Makes the folder with its record in one step: it gets its name last, and never another one's place (LOC-022).
    ///
    /// # Errors
    /// What has the name is as before. Only of the last look at the disk the folder is there all the same.
    pub(super) fn make(&self, record: &Record) -> io::Result<()> {
        self.sweep_unfinished()?;
        let named = self.fill(record).and_then(|unfinished| {
            let (here, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::NOREPLACE);
            let named = rustix::fs::renameat_with(here, &unfinished, here, &self.path, flags);
            Ok(named?)
        });
        if named.is_err() {
            // What cannot be removed now goes with the removal of the sandbox.
            let _ = self.forget();
        }
        named?;
        fs::File::open(&self.tenant)?.sync_all()
    }

    /// Everything of a new sandbox, under a name that is none.
    fn fill(&self, record: &Record) -> io::Result<PathBuf> {
        let unfinished = self.unfinished();
        let mut tries = 0;
        loop {
            private_folder(&self.tenant)?;
            match fs::DirBuilder::new().mode(0o711).create(&unfinished) {
                // The last other sandbox of the tenant has just taken its folder away.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                    tries += 1;
                }
                made => break made?,
            }
        }
        for part in PARTS {
            let part = unfinished.join(part);
            fs::DirBuilder::new().mode(0o700).create(&part)?;
            if let Some(uid) = record.real_uid {
                chown(&part, Some(uid), Some(uid))?;
            }
        }
        record::write(&unfinished, record)?;
        Ok(unfinished)
    }

    fn unfinished(&self) -> PathBuf {
        self.tenant.join(format!("{UNFINISHED}{}", self.name))
    }

    /// An interrupted make or removal of this name left only an unnamed folder.
    fn sweep_unfinished(&self) -> io::Result<()> {
        let unfinished = format!("{UNFINISHED}{}", self.name);
        match Folder::open(&self.tenant) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            tenant => tenant?.remove_all(Path::new(&unfinished)),
        }
    }

    /// What an interrupted removal left; nothing of it is a sandbox.
    pub(super) fn forget(&self) -> io::Result<()> {
        self.sweep_unfinished()?;
        // The tenant's folder goes with its last sandbox; another one in it keeps it.
        let _ = fs::remove_dir(&self.tenant);
        Ok(())
    }

    /// Removes everything; the record goes last, so that an interrupted removal is found again, and with its name, so that
    /// no folder without a record is taken for somebody else's.
    pub(super) fn remove(&self) -> io::Result<()> {
        let tenant = match Folder::open(&self.tenant) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        self.sweep_unfinished()?;
        for part in PARTS {
            tenant.remove_all(&Path::new(&self.name).join(part))?;
        }
        match fs::rename(&self.path, self.unfinished()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.forget()
    }
}

/// A folder for our account alone, searchable so that an account of a sandbox without mounts finds its own part.
pub(super) fn private_folder(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(path)
    {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// One path part without surprises.
pub(super) fn is_name(part: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=128).contains(&part.len()) && part.bytes().all(allowed)
}
