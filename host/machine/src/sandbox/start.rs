//! Starting a sandbox, and the probe that proves that one can be started.

use std::io;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::cgroup::Cgroup;
use super::handshake::{self, Failed, Waiting};
use super::places::{Place, private_folder};
use super::record::{self, Init, Record};
use super::types::{
    Enforced, Facts, Identity, Kind, Level, Limits, Refusal, Seen, Settings, Source, Spec, Status,
};
use super::view::{OPEN_FILES, View, canonical, core_inside};
use super::{BootstrapFile, accounts, status};
use crate::files::Folder;
use crate::init::plan::{Bind, Daemon, Plan, What};
use crate::socket;

/// Processes and threads of one sandbox, unless asked otherwise (LOC-008).
const PROCESSES: u64 = 512;

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
    if status::of(&place)?.running {
        // LOC-024: never a second daemon beside a living one.
        return Err(Refusal::Exists);
    }
    let unknown = Refusal::unknown;
    record::forget_init(&place.path).map_err(unknown("record_unwritable"))?;
    let view = View::of(settings, &place, level, spec).map_err(unknown("view_unreadable"))?;
    write_bootstrap(settings, &view, &place, spec, &record, bootstrap)?;
    let plan = view.plan(settings, &place, whose, spec, &record, facts.enforced);
    let waiting =
        handshake::begin(&settings.own_program, &plan, settings.starts_within).map_err(failed)?;
    let cgroup = Cgroup::make(&whose.name, &limits(spec), facts.grouped)
        .map_err(unknown("cgroup_failed"))?;
    cgroup
        .enter(waiting.process.pid)
        .map_err(unknown("cgroup_failed"))?;
    let init = introduced(&waiting, level).map_err(unknown("clock_unreadable"))?;
    record::write_init(&place.path, &init).map_err(unknown("record_unwritable"))?;
    waiting.go().map_err(failed)?;
    status::of(&place)
}

/// A failure before the folder has its name has changed nothing (SP-3.6).
fn make(settings: &Settings, place: &Place, whose: &Identity) -> Result<Record, Refusal> {
    let choice = accounts::choose(settings, &whose.installation)
        .map_err(|error| nothing_made("accounts_unreadable", &error))?;
    let choice = choice.ok_or(Refusal::Refused("accounts_exhausted"))?;
    let record = Record {
        whose: whose.clone(),
        real_uid: choice.real_uid,
    };
    let Err(error) = place.make(&record) else {
        return Ok(record);
    };
    match place.record_of(whose) {
        Err(Refusal::NotFound) => Err(nothing_made("folder_failed", &error)),
        Err(refusal) => Err(refusal),
        Ok(_) if error.kind() == io::ErrorKind::AlreadyExists => Err(Refusal::Exists),
        Ok(_) => Err(Refusal::Unknown {
            code: "folder_failed",
            cause: error,
        }),
    }
}

fn nothing_made(code: &'static str, error: &io::Error) -> Refusal {
    tracing::error!(code, %error, "a sandbox cannot be made");
    Refusal::Refused(code)
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
            Source::System(_)
                | Source::Exposed
                | Source::Harnesses
                | Source::Plugins
                | Source::OwnProgram
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

pub(super) fn limits(spec: &Spec) -> Limits {
    Limits {
        processes: Some(spec.limits.processes.unwrap_or(PROCESSES)),
        ..spec.limits
    }
}

/// The daemon's bootstrap file: mode 0600, the account's own (SP-5.2). The folder may have been the account's for a
/// while, so nothing in it is followed.
fn write_bootstrap(
    settings: &Settings,
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
    let workspace = workspace.to_string_lossy();
    let core = settings.core.as_ref();
    let core = core.map(|_| view.seen(&core_inside(&state.inside)).join(socket::NAME));
    let core = core.as_ref().map(|path| path.to_string_lossy());
    let write = || -> io::Result<()> {
        let content = bootstrap(&Seen {
            workspace: &workspace,
            core: core.as_deref(),
        });
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
    let grouped = proved.map_or(Enforced::default(), |_| Cgroup::enforced());
    let own_count = proved == Some(Level::Namespaces)
        || (proved.is_some() && rustix::process::geteuid().is_root());
    Facts {
        level: proved,
        enforced: Enforced {
            processes: grouped.processes || own_count,
            ..grouped
        },
        grouped,
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
