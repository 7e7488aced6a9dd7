//! `berth doctor`: what this machine lacks, and the command that mends it.

use super::show;
use crate::data_dir::{self, HARNESSES};
use clap::Args;
use serde_json::json;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Below this much free space a Session soon fails in the middle: an installed Codex alone takes 0.4 GB.
const ENOUGH_DISK: u64 = 2_000_000_000;

/// What to look at.
#[derive(Debug, Args)]
pub struct Options {
    /// Data folder of the Core.
    #[arg(long, value_name = "D", default_value = data_dir::DEFAULT)]
    data_dir: PathBuf,
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
    let mut findings = vec![
        npm(),
        namespaces(),
        port(&options),
        disk(&options.data_dir),
        folder(&options.data_dir),
    ];
    findings.extend(harnesses(&options.data_dir)?);
    let ill = findings
        .iter()
        .filter(|finding| finding.mend.is_some())
        .count();
    if options.json {
        show::json(&json!(findings.iter().map(|finding| json!({"what": finding.what, "state": finding.state, "mend": finding.mend})).collect::<Vec<_>>()));
    } else {
        for finding in &findings {
            println!(
                "{}  {:<12} {}",
                if finding.mend.is_none() { "ok " } else { "NO " },
                finding.what,
                finding.state
            );
            if let Some(mend) = &finding.mend {
                println!("                  -> {mend}");
            }
        }
    }
    anyhow::ensure!(ill == 0, "{ill} of {} things need mending", findings.len());
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

/// Whether the kernel lets us make a user namespace, which the `local` provider's best level needs (LOC-002).
fn namespaces() -> Finding {
    let tried = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
            "true",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match tried {
        Ok(status) if status.success() => {
            Finding::well("isolation", "user, mount and pid namespaces work")
        }
        Ok(_) => {
            let switch = [
                "/proc/sys/kernel/unprivileged_userns_clone",
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            ]
            .into_iter()
            .find(|path| Path::new(path).exists());
            let mend = match switch {
                Some(path) if path.ends_with("userns_clone") => "`sysctl -w kernel.unprivileged_userns_clone=1`".to_owned(),
                Some(_) => "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`".to_owned(),
                None => "`sysctl -w user.max_user_namespaces=15000`; inside a container, run it with the right to make user namespaces".to_owned(),
            };
            Finding::ill(
                "isolation",
                "this kernel refuses user namespaces; `local` then uses Landlock, or refuses hosted Sessions",
                mend,
            )
        }
        Err(_) => Finding::ill(
            "isolation",
            "cannot be tried: `unshare` is missing",
            "install util-linux",
        ),
    }
}

fn port(options: &Options) -> Finding {
    if let Ok(at) = data_dir::recorded(&options.data_dir) {
        return Finding::well(
            "port",
            format!(
                "a Core of this folder answers at {} (process {})",
                at.url, at.pid
            ),
        );
    }
    match TcpListener::bind(options.listen) {
        Ok(_) => Finding::well("port", format!("{} is free", options.listen)),
        Err(error) => Finding::ill(
            "port",
            format!("{} cannot be listened on: {error}", options.listen),
            "`berth serve --listen 127.0.0.1:0` takes a free one",
        ),
    }
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
    let all = plugin_host::harnesses()?;
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
