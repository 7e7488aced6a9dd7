//! The sandbox init: one small process for each allocation of the provider `local` (LOC-020).
//!
//! It is our own program under the hidden sub-command `sandbox-init`, in two stages. The first leaves the host's
//! namespaces and starts the second, which is then process 1 of a new pid namespace; the first ends. The second builds
//! the view, drops to the sandbox's account, and starts the daemon, again and again when it dies. It outlives the Core
//! that started it: its socket to Core is closed once the daemon runs.
//!
//! Its environment is empty and it cannot be read by its own account, so nothing can be learned from process 1.

mod account;
mod daemon;
mod landlock;
mod log;
pub(crate) mod plan;
mod view;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getgid, getrlimit, getuid, set_dumpable_behavior,
    setrlimit, setsid,
};

use crate::process::control::{receive, send};
use crate::sandbox::Level;
use crate::sys::{self, Spaces};
use plan::{Answer, Go, Outer, Plan, Stage};

/// Name of the second stage's only argument.
const INSIDE: &str = "inside";

/// The hidden sub-command. Core gives it no argument, the first stage gives the second one.
pub fn main(args: &[String]) -> ExitCode {
    let ended = match args {
        [] => outside(),
        [stage] if stage == INSIDE => inside(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    // Nobody reads an error of ours but Core, through the socket, while it waits for the start.
    if ended.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// First stage: leaves the namespaces and starts the second stage in them.
fn outside() -> io::Result<()> {
    sys::keep_to_ourselves()?;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Outer { level } = receive(&control)?;
    match enter(level, &control) {
        Ok(pid) => send(&control, &Answer::Spawned { pid }),
        Err(error) => refuse(&control, Stage::Namespaces, &error),
    }
}

fn enter(level: Level, control: &UnixStream) -> io::Result<u32> {
    setsid()?;
    if level == Level::Namespaces {
        let spaces = Spaces::NEWNS | Spaces::NEWPID | Spaces::NEWIPC | Spaces::NEWUTS;
        let (uid, gid) = (getuid(), getgid());
        if uid.is_root() {
            sys::unshare(spaces)?;
        } else {
            sys::unshare(spaces | Spaces::NEWUSER)?;
            sys::map_ids((0, uid.as_raw()), (0, gid.as_raw()))?;
        }
    }
    let mut second = Command::new("/proc/self/exe");
    second
        .args(["sandbox-init", INSIDE])
        .env_clear()
        .current_dir("/");
    second
        .stdin(Stdio::from(control.as_fd().try_clone_to_owned()?))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(second.spawn()?.id())
}

/// Second stage.
fn inside() -> io::Result<()> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    let plan: Plan = receive(&control)?;
    let status = match &plan.status {
        Some(path) => Some(std::fs::File::create(path)?),
        None => None,
    };
    let ready = set_up(&plan);
    if let Err((stage, error)) = ready {
        return refuse(&control, stage, &error);
    }
    send(&control, &Answer::Ready)?;
    // Core writes the record now. If it dies before it is done, nothing was started (LOC-021).
    let Go {} = receive(&control)?;
    let Some(status) = status else { return Ok(()) };
    daemon::keep_running(&plan, status, control)
}

fn refuse(control: &UnixStream, stage: Stage, error: &io::Error) -> io::Result<()> {
    send(
        control,
        &Answer::Refused {
            stage,
            errno: error.raw_os_error(),
            detail: error.to_string(),
        },
    )
}

/// Everything between the new namespaces and the daemon.
fn set_up(plan: &Plan) -> Result<(), (Stage, io::Error)> {
    let at = |stage| move |error| (stage, error);
    if plan.level == Level::Namespaces {
        rustix::system::sethostname(plan.hostname.as_bytes())
            .map_err(|error| (Stage::Namespaces, error.into()))?;
        view::build(&plan.stage, &plan.mounts).map_err(at(Stage::View))?;
    }
    account::assume(plan).map_err(at(Stage::Account))?;
    if plan.level != Level::None {
        // After the account, which is who has so many keys at most.
        sys::leave_session_keys().map_err(at(Stage::Account))?;
    }
    limits(plan).map_err(at(Stage::Limits))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| (Stage::Account, error.into()))?;
    if plan.level == Level::Landlock {
        landlock::restrict(plan).map_err(at(Stage::View))?;
    }
    if plan.level != Level::Namespaces {
        sys::become_subreaper().map_err(at(Stage::Namespaces))?;
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| (Stage::Account, error.into()))
}

/// Limits that every process inside inherits (LOC-008).
fn limits(plan: &Plan) -> io::Result<()> {
    limit(Resource::Core, Some(0))?;
    limit(Resource::Nofile, plan.open_files)?;
    // After the user namespace: a namespace inherits its maker's limit for the account as a whole, which would count what
    // the account runs elsewhere; from here on only what runs inside counts.
    limit(Resource::Nproc, plan.processes)
}

fn limit(resource: Resource, wanted: Option<u64>) -> io::Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    // Raising a hard limit needs a privilege that even root may lack.
    let most = getrlimit(resource)
        .maximum
        .map_or(wanted, |most| most.min(wanted));
    Ok(setrlimit(
        resource,
        Rlimit {
            current: Some(most),
            maximum: Some(most),
        },
    )?)
}
