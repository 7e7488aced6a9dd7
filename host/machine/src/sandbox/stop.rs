//! Ending a sandbox: the init, everything in it, and then its folders (LOC-023).

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};

use super::cgroup::Cgroup;
use super::places::Place;
use super::record::{self, Init};
use super::types::{Identity, Keep, Level, Refusal, Settings};
use crate::sys::{self, Process};

/// How long a killed tree may take to leave; a process in uninterruptible sleep may exceed it.
const LEAVES: Duration = Duration::from_secs(20);
const PASS: Duration = Duration::from_millis(5);

/// See [`super::Sandboxes::stop`].
pub(super) fn stop(settings: &Settings, whose: &Identity, keep: Keep) -> Result<(), Refusal> {
    let place = Place::of(settings, whose)?;
    match place.record_of(whose) {
        Err(Refusal::NotFound) => {
            place.forget().map_err(Refusal::unknown("folders_remain"))?;
            return Err(Refusal::NotFound);
        }
        found => found?,
    };
    let init = record::read_init(&place.path).map_err(Refusal::unknown("record_unreadable"))?;
    if let Some(init) = init {
        end(&init).map_err(Refusal::unknown("processes_remain"))?;
    }
    Cgroup::remove(&whose.name, Instant::now() + LEAVES)
        .map_err(Refusal::unknown("cgroup_remains"))?;
    match keep {
        Keep::Folders => {
            record::forget_init(&place.path).map_err(Refusal::unknown("record_unwritable"))
        }
        Keep::Nothing => place.remove().map_err(Refusal::unknown("folders_remain")),
    }
}

/// Kills the init and waits until nothing of it is left.
fn end(init: &Init) -> io::Result<()> {
    let deadline = Instant::now() + LEAVES;
    let Some(process) = init.process()? else {
        return Ok(());
    };
    let Some(handle) = sys::open_process(process)? else {
        return Ok(());
    };
    if init.level != Level::Namespaces {
        // No pid namespace ends the tree with it: it adopts whatever is orphaned, so while it stands still and starts
        // nothing, everything that is ours is below it.
        pidfd_send_signal(&handle, Signal::STOP)?;
        empty_below(process, deadline)?;
    }
    pidfd_send_signal(&handle, Signal::KILL)?;
    // Process 1 of a pid namespace ends only after every other process of it.
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&wait)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn empty_below(init: Process, deadline: Instant) -> io::Result<()> {
    while Instant::now() < deadline {
        let below = sys::descendants_of(init.pid)?;
        let living: Vec<_> = below
            .into_iter()
            .filter(|process| !process.zombie)
            .collect();
        if living.is_empty() {
            return Ok(());
        }
        // One that cannot be signalled keeps no other one alive; it is seen again in the next pass.
        for process in &living {
            let _ = sys::signal(*process, Signal::STOP);
        }
        for process in living {
            let _ = sys::signal(process, Signal::KILL);
        }
        std::thread::sleep(PASS);
    }
    Err(io::ErrorKind::TimedOut.into())
}
