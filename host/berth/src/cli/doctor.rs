//! `berth doctor`: what this machine lacks, and the command that mends it.

use super::client::Target;
use super::{local, show};
use crate::data_dir::{self, HARNESSES, Recorded};
use clap::Args;
use domain::provider::Health;
use plugin_host::Plugins;
use serde_json::json;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A Core of this machine takes a connection at once.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// Below this much free space a Session soon fails in the middle: an installed Codex alone takes 0.4 GB.
const ENOUGH_DISK: u64 = 2_000_000_000;

/// What to look at.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    local: local::LocalOptions,
    /// Address that the Core is to listen on.
    #[arg(long, default_value = "127.0.0.1:8091", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One finding.
struct Finding {
    what: &'static str,
    /// How it is, in a few words.
    state: String,
    /// How to mend it; nothing when it is well.
    mend: Option<String>,
}

impl Finding {
    fn well(what: &'static str, state: impl Into<String>) -> Self {
        Self {
            what,
            state: state.into(),
            mend: None,
        }
    }

    fn ill(what: &'static str, state: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            what,
            state: state.into(),
            mend: Some(mend.into()),
        }
    }
}

/// Looks at everything; an error when something is missing, so that scripts see it.
///
/// # Errors
/// Something is missing.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let data_dir = &options.local.data_dir;
    let mut findings = vec![npm()];
    for provider in Plugins::built_in()?.providers() {
        findings.push(isolation(&options.local.ask(provider).await?));
    }
    findings.extend([port(&options), disk(data_dir), folder(data_dir)]);
    findings.extend(service(data_dir));
    findings.extend(harnesses(data_dir)?);
    if running(data_dir).is_some() {
        findings.extend(models(data_dir).await?);
    }
    let ill = findings
        .iter()
        .filter(|finding| finding.mend.is_some())
        .count();
    if options.json {
        show::json(&json!(findings.iter().map(|finding| json!({"what": finding.what, "state": finding.state, "mend": finding.mend})).collect::<Vec<_>>()));
    } else {
        for finding in &findings {
            say!(
                "{}  {:<12} {}",
                if finding.mend.is_none() { "ok " } else { "NO " },
                finding.what,
                finding.state
            );
            if let Some(mend) = &finding.mend {
                say!("                  -> {mend}");
            }
        }
    }
    anyhow::ensure!(ill == 0, "to mend: {ill} of {}", findings.len());
    Ok(())
}

fn npm() -> Finding {
    let version = Command::new("npm")
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match version {
        Ok(output) if output.status.success() => Finding::well(
            "npm",
            String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        ),
        _ => Finding::ill(
            "npm",
            "not found; harnesses are installed through it",
            "install Node.js 20 or newer (on Debian: `apt-get install nodejs npm`)",
        ),
    }
}

/// The level that a Core here has, by the same trial as its own (LOC-002, LOC-003).
fn isolation(health: &Health) -> Finding {
    let level = local::fact(health, "isolation").unwrap_or("unavailable");
    let limits = local::fact(health, "enforced_limits").unwrap_or_default();
    let state = format!("{level}; enforced limits: {limits}");
    match level {
        "namespaces" => Finding::well("isolation", state),
        "none" => Finding::ill(
            "isolation",
            "none, as --local-isolation says: an agent reads what the Core can read",
            "leave --local-isolation out",
        ),
        "landlock" => Finding::ill(
            "isolation",
            format!("{state}; weaker than namespaces"),
            allow_namespaces(),
        ),
        _ => {
            let code = health.code.as_deref().unwrap_or(level);
            let state = format!("hosted Sessions are refused: {code}");
            Finding::ill("isolation", state, mend_isolation(code))
        }
    }
}

/// What to do about a provider that is not ready, by its code.
fn mend_isolation(code: &str) -> String {
    match code {
        "sessions_unwritable" | "harnesses_unwritable" => {
            "run this as the account of the Core, which owns the data folder; the temporary folder (TMPDIR) must be writable, too".to_owned()
        }
        "sessions_unreachable" => {
            "accounts of sandboxes must pass the folders above their workspace: `chmod 711` the data folder and what is above it".to_owned()
        }
        "program_unavailable" => {
            "put `berth` where every account may run it, such as /usr/local/bin, on a file system without `noexec`".to_owned()
        }
        _ => allow_namespaces(),
    }
}

/// How the kernel is told to let us make a user namespace, which the best level needs.
fn allow_namespaces() -> String {
    let exists = |path: &&str| Path::new(path).exists();
    let switch = [
        "/proc/sys/kernel/unprivileged_userns_clone",
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    ]
    .into_iter()
    .find(exists);
    match switch {
        Some(path) if path.ends_with("userns_clone") => "`sysctl -w kernel.unprivileged_userns_clone=1`".to_owned(),
        Some(_) => "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`".to_owned(),
        None => "`sysctl -w user.max_user_namespaces=15000`; inside a container, run it with the right to make user namespaces".to_owned(),
    }
}

/// The Core of a folder, if it answers: what a killed one has recorded is still there.
fn running(folder: &Path) -> Option<Recorded> {
    let at = data_dir::recorded(folder).ok()?;
    let address = url::Url::parse(&at.url).ok()?;
    let address = address.socket_addrs(|| None).ok()?.pop()?;
    TcpStream::connect_timeout(&address, ANSWERS_WITHIN).ok()?;
    Some(at)
}

fn port(options: &Options) -> Finding {
    if let Some(at) = running(&options.local.data_dir) {
        return Finding::well(
            "port",
            format!(
                "a Core of this folder answers at {} (process {})",
                at.url, at.pid
            ),
        );
    }
    match TcpListener::bind(options.listen) {
        Ok(_) => Finding::well(
            "port",
            format!("{} is free{}", options.listen, takeable(options.listen)),
        ),
        Err(error) => Finding::ill(
            "port",
            format!("{} cannot be listened on: {error}", options.listen),
            "`berth serve --listen 127.0.0.1:0` takes a free one",
        ),
    }
}

/// What an operator should know of a port that needs no privilege.
fn takeable(address: SocketAddr) -> &'static str {
    if (1..1024).contains(&address.port()) {
        ""
    } else {
        "; while no Core runs any program can take it, agents included (see `The port` in operating.md)"
    }
}

/// Whether systemd ends all sandboxes whenever the Core ends (LOC-020); nothing for a Core that is no service.
fn service(folder: &Path) -> Option<Finding> {
    let pid = running(folder)?.pid;
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let unit = unit(&groups)?;
    let mut asked = Command::new("systemctl");
    if unit.of_user {
        asked.arg("--user");
    }
    let asked = asked
        .args(["show", "--property=KillMode", "--value", unit.name])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let mode = match &asked {
        Ok(output) => String::from_utf8_lossy(&output.stdout),
        Err(_) => "".into(),
    };
    Some(judged(unit.name, mode.trim()))
}

fn judged(unit: &str, mode: &str) -> Finding {
    let mend = format!(
        "`systemctl edit {unit}`: below `[Service]` write `KillMode=process`, then `systemctl daemon-reload`"
    );
    match mode {
        "process" | "none" => Finding::well("service", format!("{unit}, KillMode={mode}")),
        "" => Finding::ill(
            "service",
            format!("{unit}: its KillMode cannot be read"),
            mend,
        ),
        _ => Finding::ill(
            "service",
            format!("{unit}: every stop and restart ends all sandboxes (KillMode={mode})"),
            mend,
        ),
    }
}

/// A unit of systemd.
#[derive(Debug, PartialEq, Eq)]
struct Unit<'a> {
    name: &'a str,
    /// Of a user's own manager.
    of_user: bool,
}

/// The service that a process belongs to, from its `/proc/PID/cgroup`.
fn unit(groups: &str) -> Option<Unit<'_>> {
    groups.lines().find_map(|line| {
        let path = line.splitn(3, ':').nth(2)?;
        let services = || path.split('/').filter(|part| part.ends_with(".service"));
        let is_manager = |name: &&str| name.starts_with("user@");
        let name = services().rfind(|name| !is_manager(name))?;
        let of_user = services().any(|name| is_manager(&name));
        Some(Unit { name, of_user })
    })
}

fn disk(folder: &Path) -> Finding {
    let existing = folder
        .ancestors()
        .find(|path| path.exists())
        .filter(|path| !path.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    match rustix::fs::statvfs(existing) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let state = format!("{:.1} GB free", free as f64 / 1e9);
            if free >= ENOUGH_DISK {
                Finding::well("disk", state)
            } else {
                Finding::ill(
                    "disk",
                    state,
                    format!(
                        "make room, or put the data folder on a larger disk: `--data-dir`, now {}",
                        folder.display()
                    ),
                )
            }
        }
        Err(error) => Finding::ill(
            "disk",
            format!("cannot be read: {error}"),
            "check the data folder's path",
        ),
    }
}

fn folder(folder: &Path) -> Finding {
    if !folder.exists() {
        return Finding::well(
            "data folder",
            format!("{} is made by the first `berth serve`", folder.display()),
        );
    }
    match data_dir::open(folder) {
        Ok(path) => Finding::well("data folder", path.display().to_string()),
        Err(error) => Finding::ill(
            "data folder",
            error.to_string(),
            format!("`chmod 700 {}`", folder.display()),
        ),
    }
}

fn harnesses(folder: &Path) -> anyhow::Result<Vec<Finding>> {
    let all = super::plugin::loaded(folder)?.harnesses()?;
    Ok(all
        .iter()
        .map(|harness| {
            let (id, pin) = (&harness.install.id, &harness.install.pin);
            if folder.join(HARNESSES).join(id).join(pin).is_dir() {
                Finding::well("harness", format!("{id} {pin} is installed"))
            } else {
                Finding::ill(
                    "harness",
                    format!("{id} is not installed"),
                    format!(
                        "`berth harness install {id} --data-dir {}`",
                        folder.display()
                    ),
                )
            }
        })
        .collect())
}

/// Which model the Sessions of each harness use that name none (DEF-001); only a Core that runs can tell.
async fn models(folder: &Path) -> anyhow::Result<Vec<Finding>> {
    let core = Target::of(folder).core()?;
    let all = core.get("/harnesses").await?;
    let finding = |harness: &serde_json::Value| {
        let id = show::text(&harness["id"]);
        let model = &harness["model_configuration"];
        match model["model"].as_str() {
            Some(name) => Finding::well("model", format!("{id} uses {name} where none is named")),
            None => Finding::ill(
                "model",
                format!("{id} has no model: Sessions that name no provider are refused"),
                format!(
                    "`berth model set --harness {id} --protocol … --base-url … --model … --api-key-file … --data-dir {}`",
                    folder.display()
                ),
            ),
        }
    };
    Ok(all["data"]
        .as_array()
        .into_iter()
        .flatten()
        .map(finding)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    // LOC-020
    #[test]
    fn a_service_that_ends_its_sandboxes_is_found() {
        let of = |name, of_user| Some(Unit { name, of_user });
        for (groups, expected) in [
            (
                "0::/system.slice/berth.service\n",
                of("berth.service", false),
            ),
            (
                "0::/system.slice/berth.service/inner\n",
                of("berth.service", false),
            ),
            (
                "12:pids:/a\n1:name=systemd:/system.slice/b@1.service\n",
                of("b@1.service", false),
            ),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice/berth.service\n",
                of("berth.service", true),
            ),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n",
                None,
            ),
            ("0::/user.slice/user-0.slice/session-3.scope\n", None),
            ("0::/\n", None),
            ("", None),
        ] {
            assert_eq!(unit(groups), expected, "{groups}");
        }
        for (mode, well) in [
            ("process", true),
            ("none", true),
            ("control-group", false),
            ("mixed", false),
            ("", false),
        ] {
            assert_eq!(judged("berth.service", mode).mend.is_none(), well, "{mode}");
        }
    }
}
