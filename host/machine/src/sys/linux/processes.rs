//! Who is below us, and signals that reach only them (RP-16.4).

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, getppid,
    kill_process, pidfd_open, pidfd_send_signal, set_child_subreaper,
    set_parent_process_death_signal, wait, waitid,
};

/// One line of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// Number.
    pub(crate) pid: u32,
    /// Its parent's number.
    pub(crate) parent: u32,
    /// When it started, in clock ticks since boot; together with the number and the boot id it is an identity.
    pub(crate) started: u64,
    /// Ended and not waited for.
    pub(crate) zombie: bool,
}

/// The process with that number, if there is one.
pub(crate) fn process(pid: u32) -> io::Result<Option<Process>> {
    let Some(stat) = about(pid, "stat")? else {
        return Ok(None);
    };
    parse_stat(&stat)
        .map(Some)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// What the kernel says of a process, or none if there is no such process any more. A process chooses its own name, any
/// bytes: those that are no text must hide neither it nor another.
fn about(pid: u32, file: &str) -> io::Result<Option<String>> {
    match std::fs::read(format!("/proc/{pid}/{file}")) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // The process ended between open and read.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The command name stands in parentheses and may itself hold any character, so the last one counts.
fn parse_stat(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(' ')?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(Process {
        pid: pid.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X"),
    })
}

/// The numbers of all processes that we can see.
fn numbers() -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// A process of another account may be closed to us (`hidepid`), and it is then none of ours. Every other failure is
/// ours, such as too many open files: a list without what we could not read would say that nothing runs.
fn unless_closed<T>(found: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match found {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData
            ) =>
        {
            Ok(None)
        }
        found => found,
    }
}

fn table() -> io::Result<Vec<Process>> {
    let mut table = Vec::new();
    for pid in numbers()? {
        table.extend(unless_closed(process(pid))?);
    }
    Ok(table)
}

/// The accounts that processes run under. The owner of a folder in `/proc` would not do: a process that hides its memory
/// has root's there.
pub(crate) fn accounts() -> io::Result<HashSet<u32>> {
    let mut found = HashSet::new();
    for pid in numbers()? {
        let Some(status) = unless_closed(about(pid, "status"))? else {
            continue;
        };
        let accounts = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let accounts = accounts.unwrap_or_default().split_whitespace();
        found.extend(accounts.filter_map(|uid| uid.parse::<u32>().ok()));
    }
    Ok(found)
}

fn own_pid() -> u32 {
    getpid().as_raw_nonzero().get().unsigned_abs()
}

/// Our direct children, ended ones that nobody waited for included.
pub(crate) fn children() -> io::Result<Vec<u32>> {
    let own = own_pid();
    Ok(table()?
        .into_iter()
        .filter(|process| process.parent == own)
        .map(|process| process.pid)
        .collect())
}

/// Everything below us, parents before children.
pub(crate) fn descendants() -> io::Result<Vec<Process>> {
    descendants_of(own_pid())
}

/// Everything below a process, parents before children.
pub(crate) fn descendants_of(top: u32) -> io::Result<Vec<Process>> {
    let table = table()?;
    let mut known = HashSet::from([top]);
    let mut found = Vec::new();
    loop {
        let before = found.len();
        for process in &table {
            if known.contains(&process.parent) && known.insert(process.pid) {
                found.push(*process);
            }
        }
        if found.len() == before {
            return Ok(found);
        }
    }
}

/// What a tree uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Resident bytes; pages that several processes share count for each.
    pub(crate) memory_bytes: u64,
    /// Processor time of the living processes and of their ended children.
    pub(crate) cpu_ms: u64,
}

/// What a process and everything below it use now.
pub(crate) fn usage_below(top: u32) -> io::Result<Usage> {
    let below = descendants_of(top)?;
    let pids = std::iter::once(top).chain(below.into_iter().map(|process| process.pid));
    let (page, ticks) = (
        rustix::param::page_size() as u64,
        rustix::param::clock_ticks_per_second().max(1),
    );
    let mut usage = Usage::default();
    for pid in pids {
        // A process that ended meanwhile uses nothing.
        let Ok(Some(stat)) = about(pid, "stat") else {
            continue;
        };
        let Some((_, rest)) = stat.rsplit_once(") ") else {
            continue;
        };
        let fields: Vec<u64> = rest
            .split(' ')
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let field = |number: usize| fields.get(number).copied().unwrap_or(0);
        usage.cpu_ms += (11..=14).map(field).sum::<u64>() * 1000 / ticks;
        usage.memory_bytes += field(21) * page;
    }
    Ok(usage)
}

fn raw(pid: u32) -> io::Result<Pid> {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Signals exactly that process: a number that was used again meanwhile is left alone. Whether it was still there.
pub(crate) fn signal(target: Process, signal: Signal) -> io::Result<bool> {
    let Some(handle) = open_process(target)? else {
        return Ok(false);
    };
    match pidfd_send_signal(&handle, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Kills a direct child. Its number cannot belong to another process as long as we have not waited for it.
pub(crate) fn kill_child(pid: u32) -> io::Result<()> {
    match kill_process(raw(pid)?, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits for a direct child if it has ended.
pub(crate) fn reap_child(pid: u32) -> io::Result<()> {
    match waitid(
        WaitId::Pid(raw(pid)?),
        WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
    ) {
        Ok(_) | Err(rustix::io::Errno::CHILD) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits for any child: its number and status, or none when there is no child at all. For single-purpose processes
/// that wait for all their children in one place.
pub(crate) fn wait_any() -> io::Result<Option<(u32, WaitStatus)>> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                return Ok(Some((pid.as_raw_nonzero().get().unsigned_abs(), status)));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CHILD) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for every child that has already ended.
pub(crate) fn reap_ended() -> io::Result<()> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A handle on exactly that process, or none if it is gone: the handle is opened first and the identity read after.
pub(crate) fn open_process(target: Process) -> io::Result<Option<OwnedFd>> {
    let handle = match pidfd_open(raw(target.pid)?, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let same = process(target.pid)?.is_some_and(|now| now.started == target.started && !now.zombie);
    Ok(same.then_some(handle))
}

/// Which boot of the machine this is; process numbers and start times mean nothing in another one.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// Orphans below us become our children.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Runs `step` in the new process between fork and exec, after arming its death with ours. A caller with more than one
/// thread gives a `step` that makes system calls only.
pub(crate) fn before_exec<F>(command: &mut Command, mut step: F)
where
    F: FnMut() -> io::Result<()> + Send + Sync + 'static,
{
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            // We died before the signal was armed.
            return Err(io::Error::from(rustix::io::Errno::SRCH));
        }
        step()
    };
    // SAFETY: `pre_exec` forbids what is not async-signal-safe because another thread may hold a lock at the fork. The
    // two calls above are plain system calls. A `step` that does more (the supervisor's Landlock domain allocates) is
    // only given by a process with one thread, where no lock can be held by a thread that the new process lacks.
    unsafe { command.pre_exec(prepare) };
}

/// The program gets a parent-death signal.
pub(crate) fn die_with_parent(command: &mut Command) {
    before_exec(command, || Ok(()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_parentheses_and_blanks_does_not_move_the_fields() {
        let stat = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2";
        let parsed = parse_stat(stat).unwrap();
        assert_eq!(
            parsed,
            Process {
                pid: 42,
                parent: 7,
                started: 987_654,
                zombie: false
            }
        );
        assert!(parse_stat("42 (x").is_none());
    }

    #[test]
    fn the_own_process_is_in_the_table_and_an_unused_number_is_not() {
        assert_eq!(process(own_pid()).unwrap().unwrap().pid, own_pid());
        assert_eq!(process(u32::MAX).unwrap(), None);
    }

    // A process chooses its name, any bytes: neither it nor any other may be lost by that.
    #[test]
    fn a_process_whose_name_is_no_text_is_seen_with_all_the_others() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        let name = folder
            .path()
            .join(std::ffi::OsStr::from_bytes(b"\xff) Z 1"));
        std::os::unix::fs::symlink("/bin/sleep", &name).unwrap();
        let mut odd = Command::new(&name);
        let mut odd = odd.arg0("sleep").arg("60").spawn().unwrap();
        let mut plain = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let raw = std::fs::read(format!("/proc/{}/stat", odd.id())).unwrap();
        assert!(raw.contains(&0xff), "the fixture has its name");
        let found = process(odd.id()).unwrap().unwrap();
        assert_eq!(
            (found.pid, found.parent, found.zombie),
            (odd.id(), own_pid(), false)
        );
        let below: Vec<u32> = descendants().unwrap().iter().map(|one| one.pid).collect();
        let children = children().unwrap();
        for child in [&odd, &plain] {
            assert!(below.contains(&child.id()) && children.contains(&child.id()));
        }
        assert!(usage_below(odd.id()).unwrap().memory_bytes > 0);
        assert!(
            accounts()
                .unwrap()
                .contains(&rustix::process::getuid().as_raw())
        );
        assert!(signal(found, Signal::KILL).unwrap());
        odd.wait().unwrap();
        plain.kill().unwrap();
        plain.wait().unwrap();
    }

    // `hidepid`, or a name that cannot be taken apart; but a failure of our own is no empty table.
    #[test]
    fn what_is_closed_to_us_is_left_out_and_what_fails_is_not() {
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::InvalidData] {
            assert_eq!(unless_closed::<u32>(Err(kind.into())).unwrap(), None);
        }
        let too_many = io::Error::from(rustix::io::Errno::MFILE);
        unless_closed::<u32>(Err(too_many)).unwrap_err();
    }

    // RP-16.4: a number alone reaches nobody.
    #[test]
    fn a_signal_to_a_reused_number_is_not_sent() {
        let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let mut stale = process(child.id()).unwrap().unwrap();
        stale.started += 1;
        assert!(!signal(stale, Signal::KILL).unwrap());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
