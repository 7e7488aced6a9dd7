//! Core's side of starting an init: plan, ready, record, go, started.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::types::Level;
use crate::init::plan::{Answer, Go, Outer, Plan, Stage};
use crate::process::control::{receive, send};
use crate::sys::{self, Process};

/// An init that built its view and waits.
pub(super) struct Waiting {
    control: UnixStream,
    pub(super) process: Process,
}

/// Why an init did not come so far; it is gone.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) stage: Option<Stage>,
    pub(super) cause: io::Error,
}

impl From<io::Error> for Failed {
    fn from(cause: io::Error) -> Self {
        Self { stage: None, cause }
    }
}

/// Starts an init up to the point where it waits for our leave. Dropping the result ends it: its socket closes.
pub(super) fn begin(own_program: &Path, plan: &Plan, within: Duration) -> Result<Waiting, Failed> {
    let (control, theirs) = UnixStream::pair()?;
    control.set_read_timeout(Some(within))?;
    control.set_write_timeout(Some(within))?;
    let mut first = {
        let mut command = Command::new(own_program);
        command.arg("sandbox-init").env_clear().current_dir("/");
        command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn()?
    };
    let begun = introduce(&control, plan);
    // The first stage ends as soon as it has started the second; without an answer its socket is closed below.
    if begun.is_err() {
        let _ = control.shutdown(std::net::Shutdown::Both);
        let _ = first.kill();
    }
    first.wait()?;
    begun.map(|process| Waiting { control, process })
}

fn introduce(control: &UnixStream, plan: &Plan) -> Result<Process, Failed> {
    send(control, &Outer { level: plan.level })?;
    let pid = match answer(control)? {
        Answer::Spawned { pid } => pid,
        _ => return Err(Failed::from(io::Error::from(io::ErrorKind::InvalidData))),
    };
    let process = sys::process(pid)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    send(control, plan)?;
    match answer(control)? {
        Answer::Ready => Ok(process),
        _ => Err(Failed::from(io::Error::from(io::ErrorKind::InvalidData))),
    }
}

impl Waiting {
    /// Gives the leave and waits until the daemon was started.
    pub(super) fn go(self) -> Result<(), Failed> {
        send(&self.control, &Go {})?;
        match answer(&self.control)? {
            Answer::Started => Ok(()),
            _ => Err(Failed::from(io::Error::from(io::ErrorKind::InvalidData))),
        }
    }
}

fn answer(control: &UnixStream) -> Result<Answer, Failed> {
    match receive(control)? {
        Answer::Refused {
            stage,
            errno,
            detail,
        } => {
            let cause =
                errno.map_or_else(|| io::Error::other(detail), io::Error::from_raw_os_error);
            Err(Failed {
                stage: Some(stage),
                cause,
            })
        }
        answer => Ok(answer),
    }
}

/// The levels to try, best first.
pub(super) fn levels(isolation: super::types::Isolation) -> &'static [Level] {
    match isolation {
        super::types::Isolation::Auto => &[Level::Namespaces, Level::Landlock],
        super::types::Isolation::Only(Level::Namespaces) => &[Level::Namespaces],
        super::types::Isolation::Only(Level::Landlock) => &[Level::Landlock],
        super::types::Isolation::Only(Level::None) => &[Level::None],
    }
}
