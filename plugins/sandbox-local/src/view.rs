//! What can be seen inside a sandbox, as data: this list and nothing else (LOC-005 to LOC-008).

use sdk::common::{Extra, Pair};
use sdk::machine_types::{MachineLimits, MachineSpec, Mount, MountSource};
use sdk::sandbox_types::{Bootstrap, Resources};

/// Folders of the host, read-only; the same list as in `plugin.toml`.
pub const SYSTEM: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc",
];
/// The workspace (LOC-010).
pub const WORKSPACE: &str = "/workspace";
/// The private home (LOC-011).
pub const HOME: &str = "/home/agent";
/// The daemon's state, which the daemon hides from harnesses (LOC-009).
pub const STATE: &str = "/berth";
/// Installed harnesses.
pub const HARNESSES: &str = "/opt/berth/harnesses";
/// The plugin folder of the deployment, for the daemon.
pub const PLUGINS: &str = "/opt/berth/plugins";
/// MiB of `/tmp`: memory, so a limit that keeps one sandbox from filling it.
const SCRATCH_MIB: u32 = 2048;

fn mount(inside: &str, source: MountSource, writable: bool) -> Mount {
    Mount {
        inside: inside.to_owned(),
        source,
        writable,
    }
}

/// A host that has no such folder leaves the mount out.
fn plugins() -> MountSource {
    MountSource::Other(Extra {
        kind: "plugins".to_owned(),
        json: "{}".to_owned(),
    })
}

fn pair(name: &str, value: &str) -> Pair {
    Pair {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

/// The specification of one sandbox.
pub fn spec(resources: &Resources, bootstrap: &Bootstrap) -> MachineSpec {
    let mut view: Vec<Mount> = SYSTEM
        .iter()
        .map(|path| mount(path, MountSource::System((*path).to_owned()), false))
        .collect();
    for name in ["passwd", "group", "hosts"] {
        view.push(mount(
            &format!("/etc/{name}"),
            MountSource::Generated(name.to_owned()),
            false,
        ));
    }
    view.extend([
        mount(HARNESSES, MountSource::Harnesses, false),
        mount(PLUGINS, plugins(), false),
        mount(&bootstrap.program, MountSource::OwnProgram, false),
        mount("", MountSource::Exposed, false),
        mount(WORKSPACE, MountSource::Workspace, true),
        mount(HOME, MountSource::Home, true),
        mount(STATE, MountSource::State, true),
        mount("/tmp", MountSource::Scratch(SCRATCH_MIB), true),
        mount("/proc", MountSource::Proc, false),
        mount("/dev", MountSource::Devices, true),
    ]);
    MachineSpec {
        view,
        account: bootstrap.account.clone(),
        uid: bootstrap.uid,
        network_off: false,
        limits: MachineLimits {
            processes: None,
            memory_mib: resources.memory_mib,
            cpus: resources.cpus,
            open_files: None,
        },
        env: vec![
            pair(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            ),
            pair("HOME", HOME),
            pair("USER", &bootstrap.account),
            pair("LOGNAME", &bootstrap.account),
            pair("SHELL", "/bin/sh"),
            pair("LANG", "C.UTF-8"),
            pair("TMPDIR", "/tmp"),
        ],
        bootstrap_path: bootstrap.path.clone(),
    }
}
