//! What a sandbox sees: the declared view resolved on this host, and the plan for its first process (LOC-005).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::places::{Place, private_folder};
use super::record::{self, Record};
use super::start::limits;
use super::types::{Enforced, Identity, Level, Mount, Settings, Source, Spec};
use crate::init::plan::{Bind, Daemon, Plan, What};

/// Open files of one process, unless asked otherwise.
pub(super) const OPEN_FILES: u64 = 4096;

/// A view resolved on this host.
pub(super) struct View {
    level: Level,
    mounts: Vec<Bind>,
}

impl View {
    pub(super) fn of(
        settings: &Settings,
        place: &Place,
        level: Level,
        spec: &Spec,
    ) -> io::Result<Self> {
        let mut mounts = Vec::new();
        for mount in &spec.view {
            resolve(settings, place, spec, mount, &mut mounts)?;
        }
        // What lies inside of another thing comes after it; of two at one place the later one is seen.
        mounts.sort_by(|a, b| a.inside.cmp(&b.inside));
        Ok(Self { level, mounts })
    }

    /// A path inside as the daemon sees it: without a mount namespace things are where the host has them.
    pub(super) fn seen(&self, inside: &Path) -> PathBuf {
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

    pub(super) fn plan(
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
        let plugins = settings.plugins.as_deref().map(seen).unwrap_or_default();
        let fill = |arg: &String| {
            arg.replace("{harnesses}", &harnesses.to_string_lossy())
                .replace("{plugins}", &plugins.to_string_lossy())
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

/// Where the folder of Core's socket is in the daemon's state folder: what is there is the daemon's alone (LOC-009).
pub(super) fn core_inside(state: &Path) -> PathBuf {
    state.join("core")
}

/// Where a path really is; itself where that cannot be told.
pub(super) fn canonical(path: &Path) -> PathBuf {
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
        Source::Plugins => {
            let Some(plugins) = &settings.plugins else {
                return Ok(());
            };
            private_folder(plugins)?;
            host(plugins)?
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
    if let (Source::State, Some(core)) = (&mount.source, &settings.core) {
        mounts.push(Bind {
            inside: core_inside(&inside),
            what: What::Host {
                from: core.canonicalize()?,
                writable: false,
            },
        });
    }
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
