//! Watching and ending the tree: one thread waits for every child, the other obeys the caller.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process::control::{self, Command, Report};
use crate::sys;

/// Pause between two passes of a kill. Killed processes leave within a millisecond or two.
const PASS: Duration = Duration::from_millis(5);

/// Waits for all children until none is left and tells the caller (RP-16.2, RP-16.5). Then the process ends, the
/// obeying thread with it.
pub(super) fn watch(control: &Mutex<UnixStream>, leader: u32) -> io::Result<()> {
    while let Some((pid, status)) = sys::wait_any()? {
        if pid == leader {
            let report = Report::Exited {
                code: status.exit_status(),
                signal: status.terminating_signal(),
            };
            // A caller that is gone is the other thread's matter: it kills the tree.
            let _ = tell(control, &report);
        }
    }
    let _ = tell(control, &Report::Empty);
    Ok(())
}

/// Both threads report; one message is written after the other.
fn tell(control: &Mutex<UnixStream>, report: &Report) -> io::Result<()> {
    let control = control.lock().unwrap_or_else(PoisonError::into_inner);
    control::send(&*control, report)
}

/// Reads stops until the socket closes, and kills the tree then. Never returns while a process of the tree lives.
pub(super) fn obey(control: &UnixStream, reports: &Mutex<UnixStream>, leader: u32) {
    let mut deadline: Option<Instant> = None;
    loop {
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                kill_all();
            }
            let _ = control.set_read_timeout(Some(left.max(PASS)));
        }
        match control::receive(control) {
            Ok(Command::Stop { grace_ms }) => {
                let asked =
                    Instant::now() + Duration::from_millis(grace_ms.min(u64::from(u32::MAX)));
                // A second stop may only shorten the grace, and TERM is sent once.
                if deadline.is_none() {
                    signal_all(Signal::TERM);
                }
                deadline = Some(deadline.map_or(asked, |deadline| deadline.min(asked)));
            }
            Ok(Command::Count) => {
                let report = Report::Others {
                    living: others(leader),
                };
                let _ = tell(reports, &report);
            }
            // A message is written whole, so a time-out falls between two of them.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) => {}
            Ok(Command::Confine { .. } | Command::Launch(_)) | Err(_) => kill_all(),
        }
    }
}

/// Living processes of the tree beside its leader. A tree that cannot be read counts as one that has some.
fn others(leader: u32) -> u32 {
    let Ok(tree) = sys::descendants() else {
        return 1;
    };
    let living = tree
        .into_iter()
        .filter(|process| !process.zombie && process.pid != leader);
    u32::try_from(living.count()).unwrap_or(u32::MAX)
}

fn signal_all(signal: Signal) -> usize {
    let Ok(tree) = sys::descendants() else {
        return 0;
    };
    let living = tree.into_iter().filter(|process| !process.zombie);
    living
        .filter(|process| sys::signal(*process, signal).unwrap_or(false))
        .count()
}

/// Kills until the watching thread ends this process. Stopping everything first keeps a tree that forks faster than
/// we look from running away: a stopped process starts no other.
fn kill_all() -> ! {
    loop {
        let mut before = usize::MAX;
        for _ in 0..16 {
            let stopped = signal_all(Signal::STOP);
            if stopped == before {
                break;
            }
            before = stopped;
        }
        signal_all(Signal::KILL);
        std::thread::sleep(PASS);
    }
}
