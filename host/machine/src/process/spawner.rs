//! Starts supervisors and hands them their orders.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::child::{Child, Phase, Stopper};
use super::control::{self, Command, Report, Step};
use super::govern::Governor;
use super::open_files;
use super::order::Order;
use super::output::{Link, Output};
use super::reaper::Reaper;
use crate::sys;

/// How long a supervisor may take until the program runs. Measured: 13 ms in a debug build.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// Why nothing was started; certainly no process is left.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No such program.
    #[error("the program does not exist")]
    ProgramMissing,
    /// The program is there and cannot be executed.
    #[error("the program cannot be executed")]
    ProgramRefused(#[source] io::Error),
    /// The working directory cannot be entered.
    #[error("the working directory cannot be entered")]
    Directory(#[source] io::Error),
    /// The hidden paths could not be hidden, so the program was not started (LOC-009).
    #[error("the paths to hide cannot be hidden on this machine")]
    Confine(#[source] io::Error),
    /// The order itself: a relative path, too large, or a limit that cannot be set.
    #[error("the order cannot be carried out")]
    Order(#[source] io::Error),
    /// The supervisor could not be started or was lost.
    #[error("the supervisor could not be started")]
    Supervisor(#[source] io::Error),
}

/// Starts process trees. Clones share one record of children, so a process has one spawner and starts all its
/// children through it (RP-16.5).
#[derive(Clone)]
pub struct Spawner {
    program: PathBuf,
    args: Vec<String>,
    hidden: Vec<PathBuf>,
    reaper: Arc<Reaper>,
}

impl Spawner {
    /// `own_program` is our own binary, whose hidden sub-command `supervise` is the supervisor.
    pub fn new(own_program: impl Into<PathBuf>) -> Self {
        Self {
            program: own_program.into(),
            args: vec!["supervise".to_owned()],
            hidden: Vec::new(),
            reaper: Arc::default(),
        }
    }

    /// Hides these absolute paths from every tree that it starts, though the caller sees them: the daemon's state (LOC-009).
    #[must_use]
    pub fn hiding(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.hidden.extend(paths);
        self
    }

    /// Makes this process adopt and kill what a killed supervisor leaves behind. For a process that starts children
    /// by this spawner only; call it before the first one.
    ///
    /// # Errors
    /// The system refuses it or `/proc` cannot be read.
    pub fn adopt_orphans(&self) -> io::Result<()> {
        self.reaper.adopt()
    }

    /// Ends what killed supervisors left behind; whether nothing of it is left. False where nothing is adopted. Takes
    /// up to two seconds where something does not go.
    pub async fn end_orphans(&self) -> bool {
        self.reaper.sweep().await
    }

    /// Starts the program and comes back when it runs, or within seconds with an error.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then.
    pub async fn start(&self, order: Order) -> Result<Child, StartError> {
        let spawner = self.clone();
        // In a task of its own: a caller that gives up halfway leaves no supervisor that nobody waits for.
        let started = tokio::spawn(async move { spawner.begin(order).await });
        let lost = |error| StartError::Supervisor(io::Error::other(error));
        started.await.map_err(lost)?
    }

    async fn begin(&self, mut order: Order) -> Result<Child, StartError> {
        order.usual_open_files = open_files::usual();
        let (stdin_theirs, stdin) = io::pipe().map_err(StartError::Supervisor)?;
        let (stdout, stdout_theirs) = io::pipe().map_err(StartError::Supervisor)?;
        let (stderr, stderr_theirs) = io::pipe().map_err(StartError::Supervisor)?;
        let theirs = [
            stdin_theirs.into(),
            stdout_theirs.into(),
            stderr_theirs.into(),
        ];
        let (mut supervisor, control) = self.supervisor(theirs).map_err(StartError::Supervisor)?;
        let pid = supervisor.id();
        let drain = order.drain;
        let launched = launch(control, self.hidden.clone(), order);
        let launched = match tokio::time::timeout(STARTS_WITHIN, launched).await {
            Ok(launched) => launched,
            Err(_) => Err(StartError::Supervisor(io::ErrorKind::TimedOut.into())),
        };
        let (control, leader) = match launched {
            Ok(launched) => launched,
            Err(error) => {
                // Its socket is closed by now, so it kills whatever it may have started before it leaves.
                if tokio::time::timeout(STARTS_WITHIN, supervisor.wait())
                    .await
                    .is_err()
                {
                    let _ = supervisor.kill().await;
                }
                if let Some(pid) = pid {
                    self.reaper.forget(pid);
                }
                self.reaper.sweep().await;
                return Err(error);
            }
        };
        let (commands_in, commands) = mpsc::unbounded_channel();
        let (phase_in, phase) = watch::channel(Phase::Running);
        let (exited, stale) = (CancellationToken::new(), Arc::new(Notify::new()));
        let outputs = [CancellationToken::new(), CancellationToken::new()];
        let output = |pipe: io::PipeReader, done: &CancellationToken| {
            let link = Link {
                exited: exited.clone(),
                done: done.clone(),
                stale: stale.clone(),
                drain,
            };
            Receiver::from_owned_fd(OwnedFd::from(pipe)).map(|pipe| Output::new(pipe, link))
        };
        let stdout = output(stdout, &outputs[0]).map_err(StartError::Supervisor)?;
        let stderr = output(stderr, &outputs[1]).map_err(StartError::Supervisor)?;
        let stdin = Sender::from_owned_fd(OwnedFd::from(stdin)).map_err(StartError::Supervisor)?;
        let (reports, control) = control.into_split();
        let governor = Governor {
            supervisor,
            reports,
            control,
            commands,
            phase: phase_in,
            exited,
            outputs,
            stale,
            drain,
            reaper: self.reaper.clone(),
        };
        tokio::spawn(governor.run());
        Ok(Child {
            stdin: Some(stdin),
            stdout: Some(stdout),
            stderr: Some(stderr),
            pid: leader,
            stopper: Stopper {
                commands: commands_in,
                phase,
            },
        })
    }

    /// The supervisor's own process: an empty environment, the control socket as its standard input, and the three
    /// pipes of the program through that socket, so that no other child started at this moment can inherit them.
    fn supervisor(&self, pipes: [OwnedFd; 3]) -> io::Result<(tokio::process::Child, UnixStream)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        sys::send_files(&ours, &pipes)?;
        drop(pipes);
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.args).env_clear().current_dir("/");
        command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let supervisor = self.reaper.enter(|| {
            let child = command.spawn()?;
            let pid = child.id();
            Ok((child, pid))
        })?;
        // It holds our copy of the supervisor's end, which must not outlive this call.
        drop(command);
        ours.set_nonblocking(true)?;
        Ok((supervisor, UnixStream::from_std(ours)?))
    }
}

/// Hands the order over and waits for the answer.
async fn launch(
    mut control: UnixStream,
    hidden: Vec<PathBuf>,
    order: Order,
) -> Result<(UnixStream, u32), StartError> {
    let visible = std::env::var(control::VISIBLE)
        .ok()
        .and_then(|list| serde_json::from_str(&list).ok());
    let confine = Command::Confine {
        hidden,
        visible: visible.unwrap_or_default(),
    };
    control::send_async(&mut control, &confine)
        .await
        .map_err(StartError::Supervisor)?;
    control::send_async(&mut control, &Command::Launch(Box::new(order)))
        .await
        .map_err(StartError::Order)?;
    match control::receive_async(&mut control)
        .await
        .map_err(StartError::Supervisor)?
    {
        Report::Started { pid } => Ok((control, pid)),
        Report::Refused { step, errno } => Err(refusal(step, errno)),
        Report::Exited { .. } | Report::Others { .. } | Report::Empty => {
            Err(StartError::Supervisor(io::ErrorKind::InvalidData.into()))
        }
    }
}

fn refusal(step: Step, errno: Option<i32>) -> StartError {
    let cause = errno.map_or_else(
        || io::ErrorKind::InvalidInput.into(),
        io::Error::from_raw_os_error,
    );
    match step {
        Step::Order | Step::Limits => StartError::Order(cause),
        Step::Confine => StartError::Confine(cause),
        Step::Directory => StartError::Directory(cause),
        Step::Program if cause.kind() == io::ErrorKind::NotFound => StartError::ProgramMissing,
        Step::Program => StartError::ProgramRefused(cause),
    }
}
