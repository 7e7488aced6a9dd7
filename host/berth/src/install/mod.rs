//! Installing a harness program: the exact version through npm, into a folder of its own, checked before anybody sees it.
//!
//! `<harness folder>/<id>/<version>/node_modules/…` appears by one rename, so a running daemon's rescan finds a complete installation or none.

mod npm;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use plugin_host::contract::manifest::{Harness, System};
use serde_json::Value;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often progress is shown where nobody watches a terminal.
const PLAIN_EVERY: u32 = 50;

/// What an installation did.
#[derive(Debug, PartialEq, Eq)]
pub enum Installed {
    /// It is there now.
    New(PathBuf),
    /// It was there before.
    Already(PathBuf),
}

/// Installs `version` of the harness (the pin if none is given) below `folder`.
///
/// # Errors
/// There is no npm, no build for this machine, the registry does not answer, or what came is not what the plugin was proven with.
pub async fn install(
    harness: &Harness,
    version: Option<&str>,
    folder: &Path,
) -> anyhow::Result<Installed> {
    let version = version.unwrap_or(&harness.pin);
    check_version(harness, version)?;
    let system = system(harness)?;
    let home = folder.join(&harness.id).join(version);
    if complete(&home, system) {
        return Ok(Installed::Already(home));
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // In the same folder, so that the rename stays on one file system; removed on every way out.
    let work = tempfile::Builder::new()
        .prefix(".installing-")
        .tempdir_in(folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    let package = format!("{}@{version}", harness.package);
    let bar = bar(&package);
    let mut npm = npm::install(&package, work.path())?;
    let mut ticks: u32 = 0;
    loop {
        tokio::select! {
            result = npm.wait() => {
                result?;
                break;
            }
            () = tokio::time::sleep(Duration::from_millis(100)) => {
                ticks += 1;
                show(bar.as_ref(), &package, work.path(), ticks);
            }
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    verify(harness, version, system, work.path())?;
    // A folder that is there but not complete was cut off by hand; nothing runs from it.
    if home.exists() {
        std::fs::remove_dir_all(&home)
            .with_context(|| format!("cannot replace the damaged {}", home.display()))?;
    }
    // Only now: a daemon takes this folder as the sign that the harness is configured.
    std::fs::create_dir_all(folder.join(&harness.id))
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let finished = work.keep();
    std::fs::rename(&finished, &home)
        .with_context(|| format!("cannot move the installation to {}", home.display()))?;
    Ok(Installed::New(home))
}

/// HAR-002: a version that the plugin was not proven with would only be reported as unavailable.
fn check_version(harness: &Harness, version: &str) -> anyhow::Result<()> {
    let wanted = semver::Version::parse(version)
        .with_context(|| format!("`{version}` is no exact version such as {}", harness.pin))?;
    let range = semver::VersionReq::parse(&harness.range)
        .with_context(|| format!("the plugin of {} has a broken version range", harness.id))?;
    if version != harness.pin && !range.matches(&wanted) {
        bail!(
            "{} {version} has not been proven with this Berth, which accepts {} (HAR-002); leave --version out for {}",
            harness.id,
            harness.range,
            harness.pin
        );
    }
    Ok(())
}

fn system(harness: &Harness) -> anyhow::Result<&System> {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    harness
        .systems
        .iter()
        .find(|system| system.os == os && system.arch == arch)
        .with_context(|| format!("{} has no build for {os} on {arch}", harness.id))
}

fn complete(home: &Path, system: &System) -> bool {
    system
        .programs
        .values()
        .all(|program| home.join(program).is_file())
}

/// The lock file must name the archive that the plugin was proven with, and every program must be there.
fn verify(harness: &Harness, version: &str, system: &System, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join("package-lock.json");
    let lock: Value = serde_json::from_slice(&std::fs::read(&path).with_context(|| {
        "npm wrote no lock file; update npm (`npm install -g npm`)".to_owned()
    })?)?;
    let found = lock["packages"][&system.locked]["integrity"].as_str().with_context(|| {
        format!("npm did not install `{}`, the build of {} for this machine; its optional packages may be switched off (`npm config get omit`)", system.locked, harness.id)
    })?;
    if version == harness.pin && found != system.integrity {
        bail!(
            "checksum mismatch: {} {version} should be {} and the registry sent {found}; nothing was installed. \
             Check which registry npm uses (`npm config get registry`) and whether this Berth is current",
            harness.package,
            system.integrity
        );
    }
    if let Some(missing) = system
        .programs
        .values()
        .find(|program| !folder.join(program).is_file())
    {
        bail!(
            "{} {version} holds no `{missing}`; nothing was installed",
            harness.package
        );
    }
    Ok(())
}

fn bar(package: &str) -> Option<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        tell!("installing {package}");
        return None;
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {bytes} [{elapsed}]") {
        bar.set_style(style);
    }
    bar.set_message(format!("installing {package}"));
    Some(bar)
}

fn show(bar: Option<&ProgressBar>, package: &str, folder: &Path, ticks: u32) {
    match bar {
        Some(bar) if ticks.is_multiple_of(5) => bar.set_position(size(folder)),
        None if ticks.is_multiple_of(PLAIN_EVERY) => {
            tell!("installing {package}: {} MB", size(folder) / 1_000_000)
        }
        _ => {}
    }
}

fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => size(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn harness() -> Harness {
        Harness {
            id: "codex".into(),
            package: "@openai/codex".into(),
            pin: "0.171.0".into(),
            range: ">=0.171.0, <0.172".into(),
            probe: vec![],
            systems: vec![System {
                os: std::env::consts::OS.into(),
                arch: std::env::consts::ARCH.into(),
                integrity: "sha512-right".into(),
                locked: "node_modules/x".into(),
                programs: BTreeMap::from([("codex".to_owned(), "node_modules/x/codex".to_owned())]),
                path: vec![],
            }],
        }
    }

    fn installation(integrity: &str, with_program: bool) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let lock = serde_json::json!({"packages": {"node_modules/x": {"integrity": integrity}}});
        std::fs::write(folder.path().join("package-lock.json"), lock.to_string()).unwrap();
        if with_program {
            std::fs::create_dir_all(folder.path().join("node_modules/x")).unwrap();
            std::fs::write(folder.path().join("node_modules/x/codex"), "").unwrap();
        }
        folder
    }

    // HAR-002
    #[test]
    fn only_proven_versions_are_installed() {
        check_version(&harness(), "0.171.0").unwrap();
        check_version(&harness(), "0.171.9").unwrap();
        assert!(
            check_version(&harness(), "0.172.0")
                .unwrap_err()
                .to_string()
                .contains("not been proven")
        );
        assert!(
            check_version(&harness(), "latest")
                .unwrap_err()
                .to_string()
                .contains("exact version")
        );
    }

    #[test]
    fn a_foreign_archive_and_a_missing_program_are_refused() {
        let harness = harness();
        let system = system(&harness).unwrap();
        let verify = |folder: &tempfile::TempDir, version: &str| {
            verify(&harness, version, system, folder.path())
        };
        verify(&installation("sha512-right", true), "0.171.0").unwrap();
        assert!(
            verify(&installation("sha512-wrong", true), "0.171.0")
                .unwrap_err()
                .to_string()
                .contains("checksum mismatch")
        );
        // Only the pin's checksum is known; npm itself checks the registry's for any version.
        verify(&installation("sha512-other", true), "0.171.9").unwrap();
        assert!(
            verify(&installation("sha512-right", false), "0.171.0")
                .unwrap_err()
                .to_string()
                .contains("holds no")
        );
    }
}
