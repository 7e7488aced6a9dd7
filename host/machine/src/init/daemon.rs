//! Starting the daemon and starting it again, as a container's restart policy would (LOC-020).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::plan::{Answer, Counted, Plan, Stage};
use super::refuse;
use crate::process::control::{VISIBLE, send};
use crate::sandbox::Level;
use crate::sys;

/// First and longest pause before a new start.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// A daemon that ran this long starts the pauses anew.
const STEADY: Duration = Duration::from_secs(60);
/// How often orphans are reaped while a new start is due.
const SLICE: Duration = Duration::from_millis(50);

/// Runs for ever: process 1 ends when Core kills it, and everything inside with it. Returns only when the first start
/// failed.
pub(super) fn keep_running(plan: &Plan, status: File, control: UnixStream) -> io::Result<()> {
    let (output, input) = io::pipe()?;
    let mut pause = FIRST;
    let mut counted = Counted::default();
    let mut running = match start(plan, &input) {
        Ok(pid) => Some(pid),
        Err(error) => return refuse(&control, Stage::Daemon, &error),
    };
    counted.bootstrapped = true;
    write(&status, counted)?;
    send(&control, &Answer::Started)?;
    drop(control);
    let log = plan.daemon.log.clone();
    std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || super::log::copy(output, &log))?;
    loop {
        let started = Instant::now();
        while running.is_some() {
            match sys::wait_any()? {
                Some((pid, _)) if Some(pid) == running => running = None,
                Some(_) => {}
                None => break,
            }
        }
        if started.elapsed() >= STEADY {
            pause = FIRST;
        }
        let due = Instant::now() + pause;
        while Instant::now() < due {
            sys::reap_ended()?;
            std::thread::sleep(SLICE);
        }
        pause = next(pause);
        counted.restarts = counted.restarts.saturating_add(1);
        // A count that cannot be written is no reason to stop; a daemon that cannot be started is tried again.
        let _ = write(&status, counted);
        running = start(plan, &input).ok();
    }
}

fn next(pause: Duration) -> Duration {
    (pause * 2).min(LONGEST)
}

fn start(plan: &Plan, output: &io::PipeWriter) -> io::Result<u32> {
    let daemon = &plan.daemon;
    // Nothing that an agent makes of its workspace keeps its daemon from coming back.
    let open = rustix::fs::access(&daemon.cwd, rustix::fs::Access::EXEC_OK).is_ok();
    let cwd = if open { &daemon.cwd } else { Path::new("/") };
    let mut command = Command::new(&daemon.program);
    command
        .args(&daemon.args)
        .env_clear()
        .envs(daemon.env.iter().cloned())
        .current_dir(cwd);
    command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?);
    if plan.level == Level::Landlock {
        let places: Vec<_> = super::landlock::places(plan)
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        command.env(VISIBLE, serde_json::to_string(&places)?);
    }
    if plan.level != Level::Namespaces {
        // In a pid namespace the kernel ends everything with process 1; here the daemon must go with us.
        sys::die_with_parent(&mut command);
    }
    Ok(command.spawn()?.id())
}

/// One write at one place: a reader sees the old or the new text, both of one length.
fn write(status: &File, counted: Counted) -> io::Result<()> {
    let text = serde_json::to_string(&counted)?;
    status.write_all_at(format!("{text:<64}").as_bytes(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // LOC-020
    #[test]
    fn the_pauses_double_up_to_thirty_seconds() {
        let pauses: Vec<u64> = std::iter::successors(Some(FIRST), |pause| Some(next(*pause)))
            .take(7)
            .map(|pause| pause.as_secs())
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    }
}
