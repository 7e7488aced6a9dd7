//! Limits by control groups, where one is writable for us (LOC-008). An addition, not the mechanism: without one the
//! number of processes is limited by the account and memory is not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::types::{Enforced, Limits};

const ROOT: &str = "/sys/fs/cgroup";
const PASS: Duration = Duration::from_millis(10);
/// Period of a processor quota, in microseconds.
const PERIOD: u64 = 100_000;

/// A hierarchy in which we can make a group: the version and the folder of our own group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    controller: Controller,
    unified: bool,
    own: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    Processes,
    Memory,
    Cpus,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Processes, Self::Memory, Self::Cpus];

    fn name(self) -> &'static str {
        match self {
            Self::Processes => "pids",
            Self::Memory => "memory",
            Self::Cpus => "cpu",
        }
    }

    fn of(self, enforced: &mut Enforced) -> &mut bool {
        match self {
            Self::Processes => &mut enforced.processes,
            Self::Memory => &mut enforced.memory,
            Self::Cpus => &mut enforced.cpus,
        }
    }

    /// File and value of a limit.
    fn limit(self, unified: bool, limits: &Limits) -> Option<(&'static str, String)> {
        match self {
            Self::Processes => limits.processes.map(|most| ("pids.max", most.to_string())),
            Self::Memory => {
                let file = if unified {
                    "memory.max"
                } else {
                    "memory.limit_in_bytes"
                };
                limits.memory_mib.map(|mib| (file, (mib << 20).to_string()))
            }
            Self::Cpus => limits.cpus.map(|cpus| match unified {
                true => ("cpu.max", format!("{} {PERIOD}", cpus * PERIOD)),
                false => ("cpu.cfs_quota_us", (cpus * PERIOD).to_string()),
            }),
        }
    }
}

/// The groups of one sandbox, one in each hierarchy that limits something.
pub(super) struct Cgroup(Vec<PathBuf>);

impl Cgroup {
    /// What can be limited here: tried, not guessed.
    pub(super) fn enforced() -> Enforced {
        let mut enforced = Enforced::default();
        for hierarchy in hierarchies() {
            *hierarchy.controller.of(&mut enforced) = is_usable(&hierarchy);
        }
        enforced
    }

    /// Makes the groups and sets their limits; a group that is there is used again. An error if one cannot be made that
    /// was `promised`: nothing runs without a limit that was declared.
    pub(super) fn make(name: &str, limits: &Limits, mut promised: Enforced) -> io::Result<Self> {
        let mut groups: Vec<PathBuf> = Vec::new();
        let hierarchies = hierarchies();
        for controller in Controller::ALL {
            if !*controller.of(&mut promised) {
                continue;
            }
            let mut found = hierarchies.iter();
            let found = found.find(|hierarchy| hierarchy.controller == controller);
            let hierarchy = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            let Some((file, value)) = controller.limit(hierarchy.unified, limits) else {
                continue;
            };
            let group = hierarchy.own.join(format!("berth-{name}"));
            make_folder(&group)?;
            fs::write(group.join(file), value)?;
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        Ok(Self(groups))
    }

    /// Puts a process and its later children into the groups.
    pub(super) fn enter(&self, pid: u32) -> io::Result<()> {
        self.0
            .iter()
            .try_for_each(|group| fs::write(group.join("cgroup.procs"), pid.to_string()))
    }

    /// Kills what is still in the groups of that name, and removes them.
    pub(super) fn remove(name: &str, deadline: Instant) -> io::Result<()> {
        for hierarchy in hierarchies() {
            let group = hierarchy.own.join(format!("berth-{name}"));
            while let Err(error) = fs::remove_dir(&group) {
                match error.kind() {
                    io::ErrorKind::NotFound => break,
                    // Processes are in it, or ended ones were not waited for yet.
                    io::ErrorKind::ResourceBusy if Instant::now() < deadline => kill(&group)?,
                    _ => return Err(error),
                }
                std::thread::sleep(PASS);
            }
        }
        Ok(())
    }
}

fn kill(group: &Path) -> io::Result<()> {
    for pid in fs::read_to_string(group.join("cgroup.procs"))?
        .lines()
        .filter_map(|pid| pid.parse().ok())
    {
        // One that cannot be signalled keeps no other one alive; the group stays then, and that is told.
        if let Ok(Some(process)) = crate::sys::process(pid) {
            let _ = crate::sys::signal(process, rustix::process::Signal::KILL);
        }
    }
    Ok(())
}

fn make_folder(group: &Path) -> io::Result<()> {
    match fs::create_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Whether a group with the controller's files can be made there.
fn is_usable(hierarchy: &Hierarchy) -> bool {
    let any = Limits {
        processes: Some(1),
        memory_mib: Some(1),
        cpus: Some(1),
        open_files: None,
    };
    let limit = hierarchy.controller.limit(hierarchy.unified, &any);
    // A name of its own: another probe, of this process or of another Core, must not remove the group under this one.
    let (Some((file, _)), Ok(unique)) = (limit, getrandom::u64()) else {
        return false;
    };
    let group = hierarchy.own.join(format!("berth-probe-{unique:016x}"));
    if fs::create_dir(&group).is_err() {
        return false;
    }
    let opened = fs::File::options().write(true).open(group.join(file));
    // Empty, so nothing keeps it; one that stays all the same limits nobody.
    let _ = fs::remove_dir(&group);
    opened.is_ok()
}

/// For each controller the folder of our own group, in version 2 or version 1.
fn hierarchies() -> Vec<Hierarchy> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Controller::ALL
        .into_iter()
        .filter_map(|controller| find(&own, controller))
        .collect()
}

/// `/proc/self/cgroup` has `0::/path` for version 2 and `4:cpu,cpuacct:/path` for version 1.
fn find(own: &str, controller: Controller) -> Option<Hierarchy> {
    let mut unified = None;
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (number, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = path.trim_start_matches('/');
        if names.split(',').any(|name| name == controller.name()) {
            return Some(Hierarchy {
                controller,
                unified: false,
                own: Path::new(ROOT).join(names).join(path),
            });
        }
        if number == "0" && names.is_empty() {
            unified = Some(Hierarchy {
                controller,
                unified: true,
                own: Path::new(ROOT).join(path),
            });
        }
    }
    unified
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_found_in_its_old_hierarchy_before_the_unified_one() {
        let own = "5:pids:/a\n4:cpu,cpuacct:/b\n0::/user.slice\n";
        let found = |controller| find(own, controller).unwrap();
        assert_eq!(
            found(Controller::Processes).own,
            Path::new("/sys/fs/cgroup/pids/a")
        );
        assert_eq!(
            found(Controller::Cpus).own,
            Path::new("/sys/fs/cgroup/cpu,cpuacct/b")
        );
        let memory = found(Controller::Memory);
        assert!(memory.unified && memory.own == Path::new("/sys/fs/cgroup/user.slice"));
        assert!(find("", Controller::Memory).is_none());
    }

    // LOC-008: sandboxes start side by side, and none may lose its limits to the probe of another.
    #[test]
    fn probes_at_the_same_time_agree() {
        let first = Cgroup::enforced();
        let start = std::sync::Barrier::new(16);
        std::thread::scope(|scope| {
            let probe = || {
                start.wait();
                for _ in 0..20 {
                    assert_eq!(Cgroup::enforced(), first);
                }
            };
            for _ in 0..16 {
                scope.spawn(probe);
            }
        });
    }

    // LOC-008: nothing runs without a limit that was declared.
    #[test]
    fn a_promised_limit_that_cannot_be_set_is_an_error() {
        let limits = Limits {
            processes: Some(5),
            ..Limits::default()
        };
        let promised = Enforced {
            processes: true,
            ..Enforced::default()
        };
        // No group can have this name.
        assert!(Cgroup::make("no/such/folder", &limits, promised).is_err());
        let none = Cgroup::make("no/such/folder", &limits, Enforced::default()).unwrap();
        assert!(none.0.is_empty());
    }

    #[test]
    fn each_version_has_its_own_file_and_value() {
        let limits = Limits {
            processes: Some(5),
            memory_mib: Some(2),
            cpus: Some(3),
            open_files: None,
        };
        assert_eq!(
            Controller::Cpus.limit(true, &limits).unwrap(),
            ("cpu.max", "300000 100000".to_owned())
        );
        assert_eq!(
            Controller::Cpus.limit(false, &limits).unwrap(),
            ("cpu.cfs_quota_us", "300000".to_owned())
        );
        assert_eq!(
            Controller::Memory.limit(true, &limits).unwrap(),
            ("memory.max", "2097152".to_owned())
        );
        assert!(Controller::Memory.limit(true, &Limits::default()).is_none());
    }
}
