//! Looking without touching.

use std::io;
use std::path::Path;

use super::accounts::folders;
use super::places::{Place, is_name};
use super::record;
use super::types::{Level, OwnedPage, Refusal, Settings, Status};
use crate::sys;

/// Records of one page.
const PAGE: usize = 100;

/// The status of a sandbox whose record was read.
pub(super) fn of(place: &Place) -> Result<Status, Refusal> {
    let unreadable = Refusal::unknown("record_unreadable");
    read(&place.path).map_err(unreadable)
}

fn read(folder: &Path) -> io::Result<Status> {
    let counted = record::read_counted(folder)?;
    let Some(init) = record::read_init(folder)? else {
        return Ok(Status {
            running: false,
            level: Level::None,
            started_at_ms: 0,
            bootstrapped: false,
            restarts: 0,
            memory_bytes: None,
            cpu_ms: None,
        });
    };
    let process = init.process()?;
    let usage = process.and_then(|process| sys::usage_below(process.pid).ok());
    Ok(Status {
        running: process.is_some(),
        level: init.level,
        started_at_ms: init.started_at_ms,
        bootstrapped: counted.bootstrapped,
        restarts: counted.restarts,
        memory_bytes: usage.map(|usage| usage.memory_bytes),
        cpu_ms: usage.map(|usage| usage.cpu_ms),
    })
}

/// See [`super::Sandboxes::owned`]. The cursor is the last entry's place.
pub(super) fn owned(
    settings: &Settings,
    installation: &str,
    cursor: Option<&str>,
) -> io::Result<OwnedPage> {
    let mut entries = Vec::new();
    let mut last = None;
    for tenant in folders(&settings.root)? {
        for sandbox in folders(&tenant)? {
            let (Some(tenant), Some(session)) = (name(&tenant), name(&sandbox)) else {
                continue;
            };
            let here = format!("{tenant}/{session}");
            if cursor.is_some_and(|cursor| here.as_str() <= cursor) {
                continue;
            }
            let Some(record) = record::read(&sandbox)? else {
                continue;
            };
            if record.whose.installation != installation {
                continue;
            }
            if entries.len() == PAGE {
                return Ok(OwnedPage {
                    entries,
                    next: last,
                });
            }
            entries.push((record.whose, read(&sandbox)?));
            last = Some(here);
        }
    }
    Ok(OwnedPage {
        entries,
        next: None,
    })
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str().filter(|name| is_name(name))
}
