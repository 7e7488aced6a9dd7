//! Starting a sandbox, and the probe that proves that one can be started.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::cgroup::Cgroup;
use super::handshake::{self, Failed, Waiting};
use super::places::{Place, private_folder};
use super::record::{self, Init, Record};
use super::types::{
    Enforced, Facts, Identity, Kind, Level, Limits, Mount, Refusal, Settings, Source, Spec, Status,
};
use super::{BootstrapFile, accounts, status};
use crate::files::Folder;
use crate::init::plan::{Bind, Daemon, Plan, What};

/// Processes and threads of one sandbox, unless asked otherwise (LOC-008).
const PROCESSES: u64 = 512;
/// Open files of one process, unless asked otherwise.
const OPEN_FILES: u64 = 4096;

/// See [`super::Sandboxes::start`].
pub(super) fn start(
    settings: &Settings,
    facts: &Facts,
    whose: &Identity,
    spec: &Spec,
    bootstrap: BootstrapFile<'_>,
    kind: Kind,
) -> Result<Status, Refusal> {
    let level = facts.level.ok_or(Refusal::Refused(
        facts.problem.unwrap_or("isolation_unavailable"),
    ))?;
    check(spec, facts)?;
    let place = Place::of(settings, whose)?;
    let record = match kind {
        Kind::First => make(settings, &place, whose)?,
        Kind::Again => place.record_of(whose)?,
    };
    if status::of(&place, &record)?.running {
        // LOC-024: never a second daemon beside a living one.
        return Err(Refusal::Exists);
    }
    let unknown = Refusal::unknown;
    record::forget_init(&place.path).map_err(unknown("record_unwritable"))?;
    let view = View::of(settings, &place, level, spec).map_err(unknown("view_unreadable"))?;
    write_bootstrap(&view, &place, spec, &record, bootstrap)?;
    let plan = view.plan(settings, &place, whose, spec, &record, facts.enforced);
    let waiting =
        handshake::begin(&settings.own_program, &plan, settings.starts_within).map_err(failed)?;
    let cgroup = Cgroup::make(&whose.name, &limits(spec)).map_err(unknown("cgroup_failed"))?;
    cgroup
        .enter(waiting.process.pid)
        .map_err(unknown("cgroup_failed"))?;
    let init = introduced(&waiting, level).map_err(unknown("clock_unreadable"))?;
    record::write_init(&place.path, &init).map_err(unknown("record_unwritable"))?;
    waiting.go().map_err(failed)?;
    status::of(&place, &record)
}

fn make(settings: &Settings, place: &Place, whose: &Identity) -> Result<Record, Refusal> {
    let choice = accounts::choose(settings, &whose.installation)
        .map_err(Refusal::unknown("accounts_unreadable"))?;
    let choice = choice.ok_or(Refusal::Refused("accounts_exhausted"))?;
    let record = Record {
        whose: whose.clone(),
        real_uid: choice.real_uid,
    };
    match place.make(&record) {
        Ok(()) => Ok(record),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            place.record_of(whose)?;
            Err(Refusal::Exists)
        }
        Err(error) => Err(Refusal::Unknown {
            code: "folder_failed",
            cause: error,
        }),
    }
}

fn failed(failed: Failed) -> Refusal {
    let code = match failed.stage {
        Some(crate::init::plan::Stage::Namespaces) => "namespaces_refused",
        Some(crate::init::plan::Stage::View) => "view_refused",
        Some(crate::init::plan::Stage::Limits) => "limits_refused",
        Some(crate::init::plan::Stage::Account) => "account_refused",
        Some(crate::init::plan::Stage::Daemon) => "daemon_refused",
        None => "init_lost",
    };
    Refusal::Unknown {
        code,
        cause: failed.cause,
    }
}

/// What can be refused before anything is made.
fn check(spec: &Spec, facts: &Facts) -> Result<(), Refusal> {
    let limits = &spec.limits;
    let unenforced = (limits.memory_mib.is_some() && !facts.enforced.memory)
        || (limits.cpus.is_some() && !facts.enforced.cpus)
        || (limits.processes.is_some() && !facts.enforced.processes);
    if unenforced {
        return Err(Refusal::Refused("limit_not_enforced"));
    }
    if spec.uid == 0 || !super::places::is_name(&spec.account) {
        return Err(Refusal::Refused("account_invalid"));
    }
    let state = spec
        .view
        .iter()
        .find(|mount| mount.source == Source::State)
        .ok_or(Refusal::Refused("state_missing"))?;
    if !spec.bootstrap_path.starts_with(&state.inside) || spec.bootstrap_path == state.inside {
        return Err(Refusal::Refused("bootstrap_path_invalid"));
    }
    for mount in &spec.view {
        let hosts = matches!(
            mount.source,
            Source::System(_) | Source::Exposed | Source::Harnesses | Source::OwnProgram
        );
        if mount.writable && hosts {
            return Err(Refusal::Refused("mount_not_writable"));
        }
        if !mount.inside.is_absolute() && mount.source != Source::Exposed {
            return Err(Refusal::Refused("mount_invalid"));
        }
    }
    Ok(())
}

fn limits(spec: &Spec) -> Limits {
    Limits {
        processes: Some(spec.limits.processes.unwrap_or(PROCESSES)),
        ..spec.limits
    }
}

/// A view resolved on this host.
struct View {
    level: Level,
    mounts: Vec<Bind>,
}

impl View {
    fn of(settings: &Settings, place: &Place, level: Level, spec: &Spec) -> io::Result<Self> {
        let mut mounts = Vec::new();
        for mount in &spec.view {
            resolve(settings, place, spec, mount, &mut mounts)?;
        }
        // What lies inside of another thing comes after it; of two at one place the later one is seen.
        mounts.sort_by(|a, b| a.inside.cmp(&b.inside));
        Ok(Self { level, mounts })
    }

    /// A path inside as the daemon sees it: without a mount namespace things are where the host has them.
    fn seen(&self, inside: &Path) -> PathBuf {
        if self.level == Level::Namespaces {
            return inside.to_owned();
        }
        let real = |bind: &Bind| match &bind.what {
            What::Host { from, .. } => Some(from.clone()),
            What::Scratch { instead, .. } => Some(instead.clone()),
            _ => None,
        };
        let covering = self
            .mounts
            .iter()
            .filter_map(|bind| Some((inside.strip_prefix(&bind.inside).ok()?, real(bind)?)));
        let closest = covering.min_by_key(|(rest, _)| rest.as_os_str().len());
        closest.map_or_else(
            || inside.to_owned(),
            |(rest, real)| {
                if rest == Path::new("") {
                    real
                } else {
                    real.join(rest)
                }
            },
        )
    }

    /// A value of the environment: a path, or paths with colons between them.
    fn seen_in(&self, value: &str) -> String {
        let part = |part: &str| match part.starts_with('/') {
            true => self.seen(Path::new(part)).to_string_lossy().into_owned(),
            false => part.to_owned(),
        };
        value.split(':').map(part).collect::<Vec<_>>().join(":")
    }

    fn inside_of(&self, wanted: &Path) -> Option<PathBuf> {
        let host = |bind: &&Bind| matches!(&bind.what, What::Host { from, .. } if from == wanted);
        self.mounts
            .iter()
            .find(host)
            .map(|bind| self.seen(&bind.inside))
    }

    fn plan(
        &self,
        settings: &Settings,
        place: &Place,
        whose: &Identity,
        spec: &Spec,
        record: &Record,
        enforced: Enforced,
    ) -> Plan {
        let program = canonical(&settings.own_program);
        let seen = |host: &Path| self.inside_of(&canonical(host)).unwrap_or_default();
        let (harnesses, home) = (seen(&settings.harnesses), seen(&place.home()));
        let fill = |arg: &String| {
            arg.replace("{harnesses}", &harnesses.to_string_lossy())
                .replace("{home}", &home.to_string_lossy())
        };
        let mut args: Vec<String> = settings.daemon_args.iter().map(fill).collect();
        args.push(
            self.seen(&spec.bootstrap_path)
                .to_string_lossy()
                .into_owned(),
        );
        let env = spec
            .env
            .iter()
            .map(|(name, value)| (name.clone(), self.seen_in(value)))
            .collect();
        let daemon = Daemon {
            program: self.inside_of(&program).unwrap_or(program),
            args,
            env,
            cwd: self
                .inside_of(&canonical(&place.workspace()))
                .unwrap_or_else(|| "/".into()),
            log: self
                .inside_of(&canonical(&place.state()))
                .unwrap_or_else(|| place.state())
                .join("daemon.log"),
        };
        let wanted = limits(spec);
        // A number of processes is counted for each account and user namespace; without either it would count what the
        // operator's own account runs elsewhere.
        let own_count = self.level == Level::Namespaces || record.real_uid.is_some();
        Plan {
            level: self.level,
            stage: canonical(&place.path),
            mounts: self.mounts.clone(),
            hostname: whose.name.clone(),
            uid: spec.uid,
            real_uid: record.real_uid,
            open_files: Some(wanted.open_files.unwrap_or(OPEN_FILES)),
            processes: wanted.processes.filter(|_| own_count && enforced.processes),
            status: Some(place.path.join(record::COUNTED)),
            daemon,
        }
    }
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn resolve(
    settings: &Settings,
    place: &Place,
    spec: &Spec,
    mount: &Mount,
    mounts: &mut Vec<Bind>,
) -> io::Result<()> {
    let inside = mount.inside.clone();
    let host = |from: &Path| -> io::Result<What> {
        Ok(What::Host {
            from: from.canonicalize()?,
            writable: mount.writable,
        })
    };
    let what = match &mount.source {
        Source::System(path) => {
            let found = match fs::symlink_metadata(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                found => found?,
            };
            if found.is_symlink() {
                What::Link {
                    target: fs::read_link(path)?,
                }
            } else {
                host(path)?
            }
        }
        Source::Exposed => {
            for path in &settings.exposed {
                let what = host(path)?;
                mounts.push(Bind {
                    inside: path.clone(),
                    what,
                });
            }
            return Ok(());
        }
        Source::Harnesses => {
            private_folder(&settings.harnesses)?;
            host(&settings.harnesses)?
        }
        Source::Workspace => host(&place.workspace())?,
        Source::Home => host(&place.home())?,
        Source::State => host(&place.state())?,
        Source::Scratch(mib) => What::Scratch {
            mib: *mib,
            instead: canonical(&place.scratch()),
        },
        Source::Generated(name) => What::Text {
            content: generated(name, spec)?,
        },
        Source::OwnProgram => host(&settings.own_program)?,
        Source::Proc => What::Proc,
        Source::Devices => What::Devices,
    };
    let links = matches!(&mount.source, Source::System(path) if path == Path::new("/etc"));
    mounts.push(Bind { inside, what });
    if links {
        mounts.extend(resolver()?);
    }
    Ok(())
}

/// The resolver's file, where `/etc/resolv.conf` is a link to a place outside of `/etc` (LOC-005).
fn resolver() -> io::Result<Option<Bind>> {
    let Ok(real) = Path::new("/etc/resolv.conf").canonicalize() else {
        return Ok(None);
    };
    if real.starts_with("/etc") || real.starts_with("/usr") {
        return Ok(None);
    }
    // The link may go over further links; the place that it names first is where a reader inside arrives.
    let named = Path::new("/etc").join(fs::read_link("/etc/resolv.conf")?);
    let mut inside = PathBuf::new();
    for part in named.components() {
        match part {
            std::path::Component::ParentDir => drop(inside.pop()),
            part => inside.push(part),
        }
    }
    Ok(Some(Bind {
        inside,
        what: What::Host {
            from: real,
            writable: false,
        },
    }))
}

/// Account files with the one account that exists inside, and host names (LOC-005, LOC-006).
fn generated(name: &str, spec: &Spec) -> io::Result<String> {
    let (account, uid) = (&spec.account, spec.uid);
    let home = spec.view.iter().find(|mount| mount.source == Source::Home);
    let home = home
        .map_or(Path::new("/"), |mount| &mount.inside)
        .display()
        .to_string();
    match name {
        "passwd" => Ok(format!("{account}:x:{uid}:{uid}::{home}:/bin/sh\n")),
        "group" => Ok(format!("{account}:x:{uid}:\n")),
        "hosts" => Ok("127.0.0.1 localhost\n::1 localhost\n".to_owned()),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The daemon's bootstrap file: mode 0600, the account's own (SP-5.2). The folder may have been the account's for a
/// while, so nothing in it is followed.
fn write_bootstrap(
    view: &View,
    place: &Place,
    spec: &Spec,
    record: &Record,
    bootstrap: BootstrapFile<'_>,
) -> Result<(), Refusal> {
    let state = spec
        .view
        .iter()
        .find(|mount| mount.source == Source::State)
        .ok_or(Refusal::Refused("state_missing"))?;
    let below = spec.bootstrap_path.strip_prefix(&state.inside);
    let below = below.map_err(|_| Refusal::Refused("bootstrap_path_invalid"))?;
    let workspace = spec
        .view
        .iter()
        .find(|mount| mount.source == Source::Workspace);
    let workspace = view.seen(workspace.map_or(Path::new("/"), |mount| &mount.inside));
    let write = || -> io::Result<()> {
        let content = bootstrap(&workspace.to_string_lossy());
        Folder::open(&place.state())?.replace(below, content.expose(), 0o600)?;
        match record.real_uid {
            Some(uid) => std::os::unix::fs::lchown(place.state().join(below), Some(uid), Some(uid)),
            None => Ok(()),
        }
    };
    write().map_err(Refusal::unknown("bootstrap_unwritable"))
}

fn introduced(waiting: &Waiting, level: Level) -> io::Result<Init> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok(Init {
        level,
        pid: waiting.process.pid,
        started: waiting.process.started,
        boot_id: crate::sys::boot_id()?,
        started_at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
    })
}

/// See [`super::Sandboxes::probe`].
pub(super) fn probe(settings: &Settings) -> Facts {
    let cpus = std::thread::available_parallelism()
        .map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX));
    let memory_mib = rustix::system::sysinfo().totalram >> 20;
    let memory_mib = u32::try_from(memory_mib).unwrap_or(u32::MAX);
    let mut problem = None;
    let proved =
        handshake::levels(settings.isolation)
            .iter()
            .copied()
            .find(|level| match try_level(settings, *level) {
                Ok(()) => true,
                Err(code) => {
                    problem.get_or_insert(code);
                    false
                }
            });
    let enforced = proved.map_or(Enforced::default(), |level| {
        let cgroup = Cgroup::enforced();
        let own_count = level == Level::Namespaces || rustix::process::geteuid().is_root();
        Enforced {
            processes: cgroup.processes || own_count,
            ..cgroup
        }
    });
    Facts {
        level: proved,
        enforced,
        problem: if proved.is_some() { None } else { problem },
        cpus,
        memory_mib,
    }
}

/// Goes the whole way up to the daemon, with the parts that can be refused.
fn try_level(settings: &Settings, level: Level) -> Result<(), &'static str> {
    private_folder(&settings.root).map_err(|_| "sessions_unwritable")?;
    private_folder(&settings.harnesses).map_err(|_| "harnesses_unwritable")?;
    let stage = tempfile::Builder::new()
        .prefix(".probe-")
        .tempdir_in(&settings.root)
        .map_err(|_| "sessions_unwritable")?;
    let root = rustix::process::geteuid().is_root();
    let real_uid = root.then(|| *settings.accounts.end());
    if let Some(uid) = real_uid {
        chown(stage.path(), Some(uid), Some(uid)).map_err(|_| "sessions_unwritable")?;
    }
    let bind = |inside: &str, what| Bind {
        inside: inside.into(),
        what,
    };
    let host = |from: &Path, writable| What::Host {
        from: canonical(from),
        writable,
    };
    let plan = Plan {
        level,
        stage: canonical(stage.path()),
        mounts: vec![
            bind("/usr", host(Path::new("/usr"), false)),
            bind("/workspace", host(stage.path(), true)),
            bind("/program", host(&settings.own_program, false)),
            bind("/harnesses", host(&settings.harnesses, false)),
            bind(
                "/tmp",
                What::Scratch {
                    mib: 1,
                    instead: canonical(stage.path()),
                },
            ),
            bind("/proc", What::Proc),
            bind("/dev", What::Devices),
        ],
        hostname: "berth-probe".to_owned(),
        uid: 1000,
        real_uid,
        open_files: Some(OPEN_FILES),
        processes: None,
        status: None,
        daemon: Daemon::default(),
    };
    match handshake::begin(&settings.own_program, &plan, settings.starts_within) {
        Ok(_) => Ok(()),
        Err(failed) => {
            tracing::info!(level = level.name(), stage = ?failed.stage, error = %failed.cause, "isolation level refused");
            let unreachable = failed.cause.kind() == std::io::ErrorKind::PermissionDenied;
            Err(match level {
                Level::Namespaces => "namespaces_unavailable",
                Level::Landlock if unreachable => "sessions_unreachable",
                Level::Landlock => "landlock_unavailable",
                Level::None => "program_unavailable",
            })
        }
    }
}
