//! The supervisor: the small parent of one process tree (architecture: "Supervisor", RP-16).
//!
//! It is our own program under the hidden sub-command `supervise`, with one thread until its program runs. It leads a
//! session of its own, adopts every orphan below it, takes its order from the socket that is its standard input,
//! starts the program with the received pipes, tells how the leader ended and when nobody is left, and kills the whole
//! tree when the socket closes. Its program dies with it by a parent-death signal, and the caller adopts the rest.

mod confine;
mod tree;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command as Program, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit, setsid, umask,
};

use crate::process::Order;
use crate::process::control::{self, Command, Report, Step};
use crate::sys;

/// The hidden sub-command. It has no arguments.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads an error of ours: the caller sees its socket close.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> io::Result<()> {
    sys::keep_to_ourselves()?;
    let control = UnixStream::from(take_stdin()?);
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Fails only for a process that leads a group already: then it has what it needs.
    let _ = setsid();
    sys::become_subreaper()?;
    let pipes = sys::receive_files::<3>(&control)?;
    let leader = match launch(&control, pipes)? {
        Ok(leader) => leader,
        Err((step, error)) => {
            return control::send(
                &control,
                &Report::Refused {
                    step,
                    errno: error.raw_os_error(),
                },
            );
        }
    };
    control::send(&control, &Report::Started { pid: leader })?;
    let commands = control.try_clone()?;
    let reports = Arc::new(Mutex::new(control));
    let answers = Arc::clone(&reports);
    std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || tree::obey(&commands, &answers, leader))?;
    tree::watch(&reports, leader)
}

/// Duplicates standard input with close-on-exec and puts `/dev/null` in its place.
fn take_stdin() -> io::Result<OwnedFd> {
    use std::os::fd::AsFd;
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(socket)
}

type Refused = (Step, io::Error);

/// Follows the two opening commands. The outer error is a lost caller, the inner one a refusal to report.
fn launch(control: &UnixStream, pipes: [OwnedFd; 3]) -> io::Result<Result<u32, Refused>> {
    let Command::Confine { hidden, visible } = control::receive(control)? else {
        return Ok(Err((Step::Order, io::ErrorKind::InvalidData.into())));
    };
    let confined = confine::prepare(&hidden, &visible);
    let Command::Launch(order) = control::receive(control)? else {
        return Ok(Err((Step::Order, io::ErrorKind::InvalidData.into())));
    };
    Ok(confined
        .map_err(|error| (Step::Confine, error))
        .and_then(|domain| start(*order, pipes, domain)))
}

fn start(order: Order, pipes: [OwnedFd; 3], mut domain: confine::Domain) -> Result<u32, Refused> {
    if !order.program.is_absolute() || !order.cwd.is_absolute() {
        return Err((Step::Order, io::ErrorKind::InvalidInput.into()));
    }
    limit(Resource::Core, 0).map_err(|error| (Step::Limits, error))?;
    for (resource, limited) in [
        (Resource::Nofile, order.limits.open_files),
        (Resource::Nproc, order.limits.processes),
    ] {
        if let Some(limited) = limited {
            limit(resource, limited).map_err(|error| (Step::Limits, error))?;
        }
    }
    if let (None, Some(usual)) = (order.limits.open_files, order.usual_open_files) {
        let lowered = Rlimit {
            current: Some(usual),
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        setrlimit(Resource::Nofile, lowered).map_err(|error| (Step::Limits, error.into()))?;
    }
    umask(rustix::fs::Mode::from_raw_mode(order.umask & 0o777));
    std::env::set_current_dir(&order.cwd).map_err(|error| (Step::Directory, error))?;
    let mut program = Program::new(&order.program);
    program
        .args(order.args)
        .env_clear()
        .envs(order.env)
        .process_group(0);
    let [stdin, stdout, stderr] = pipes;
    program
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr));
    sys::before_exec(&mut program, move || domain.enter());
    let child = program.spawn().map_err(|error| (Step::Program, error))?;
    // Our copies of the pipes go with `program`: an output ends when the tree closes it, not when we end.
    Ok(child.id())
}

/// Lowers a limit, never above the present hard one.
fn limit(resource: Resource, wanted: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let maximum = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    Ok(setrlimit(
        resource,
        Rlimit {
            current: Some(maximum),
            maximum: Some(maximum),
        },
    )?)
}
