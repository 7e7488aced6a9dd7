//! What is written about a sandbox: who it belongs to, and which process its init is (LOC-021). Both are Core's alone
//! and durable before what they announce.

use std::fs;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::types::{Identity, Level};
use crate::files::Folder;
use crate::init::plan::Counted;
use crate::sys::{self, Process};

const RECORD: &str = "sandbox.json";
const INIT: &str = "init.json";
/// Written by the init.
pub(super) const COUNTED: &str = "init-status.json";
/// Bound of each.
const LARGEST: u64 = 64 << 10;

/// Who a sandbox belongs to; never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) whose: Identity,
    /// Its account on the host, if it has one of its own.
    pub(super) real_uid: Option<u32>,
}

/// One started init. Process number and start time mean one process within one boot, and only together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Init {
    pub(super) level: Level,
    pub(super) pid: u32,
    pub(super) started: u64,
    pub(super) boot_id: String,
    pub(super) started_at_ms: u64,
}

impl Init {
    /// The process, if this boot still has it. A number alone authorizes nothing.
    pub(super) fn process(&self) -> io::Result<Option<Process>> {
        if sys::boot_id()? != self.boot_id {
            return Ok(None);
        }
        let now = sys::process(self.pid)?;
        Ok(now.filter(|now| now.started == self.started && !now.zombie))
    }
}

pub(super) fn read(folder: &Path) -> io::Result<Option<Record>> {
    load(folder, RECORD)
}

pub(super) fn read_init(folder: &Path) -> io::Result<Option<Init>> {
    load(folder, INIT)
}

pub(super) fn read_counted(folder: &Path) -> io::Result<Counted> {
    Ok(load(folder, COUNTED)?.unwrap_or_default())
}

pub(super) fn write(folder: &Path, record: &Record) -> io::Result<()> {
    store(folder, RECORD, record)
}

pub(super) fn write_init(folder: &Path, init: &Init) -> io::Result<()> {
    store(folder, INIT, init)
}

/// A stopped init leaves no record that could be mistaken for a later one's.
pub(super) fn forget_init(folder: &Path) -> io::Result<()> {
    for name in [INIT, COUNTED] {
        match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}

fn load<T: DeserializeOwned>(folder: &Path, name: &str) -> io::Result<Option<T>> {
    let bytes = match Folder::open(folder).and_then(|folder| folder.read(Path::new(name), LARGEST))
    {
        Ok(bytes) => bytes,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&bytes)?))
}

fn store<T: Serialize>(folder: &Path, name: &str, value: &T) -> io::Result<()> {
    Folder::open(folder)?.replace(Path::new(name), &serde_json::to_vec(value)?, 0o600)
}
