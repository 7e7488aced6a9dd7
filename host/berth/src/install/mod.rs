//! Installing a harness program: the exact version through npm, into a folder of its own, checked before anybody sees it.
//!
//! `<harness folder>/<id>/<version>/node_modules/…` appears by one rename, so a running daemon's rescan finds a complete installation or none.

mod npm;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use plugin_host::contract::manifest::{Harness, System};
use plugin_host::load::folder::prepare;
use serde_json::Value;
use std::fs::{File, Permissions};
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often progress is shown where nobody watches a terminal.
const PLAIN_EVERY: u32 = 50;

/// Begins the names of folders of installations that are not finished.
const UNFINISHED: &str = ".installing-";
/// Whose holder is the only one that installs into the folder.
const LOCK: &str = ".lock";

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
    prepare(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let _alone = alone(folder).await?;
    if complete(&home, system) {
        return Ok(Installed::Already(home));
    }
    sweep(folder);
    // In the same folder, so that the rename stays on one file system; removed on every way out that is not a kill.
    let work = tempfile::Builder::new()
        .prefix(UNFINISHED)
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
    open_up(work.path()).with_context(|| format!("cannot change {}", work.path().display()))?;
    // A folder that is there but not complete was cut off by hand; nothing runs from it.
    if home.exists() {
        std::fs::remove_dir_all(&home)
            .with_context(|| format!("cannot replace the damaged {}", home.display()))?;
    }
    // Only now: a daemon takes this folder as the sign that the harness is configured.
    prepare(&folder.join(&harness.id))
        .with_context(|| format!("cannot make {}", folder.display()))?;
    std::fs::rename(work.path(), &home)
        .with_context(|| format!("cannot move the installation to {}", home.display()))?;
    // Nothing is left to remove.
    let _ = work.keep();
    Ok(Installed::New(home))
}

/// Waits until no other process installs into this folder; the lock ends with the process.
async fn alone(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join(LOCK);
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    if file.try_lock().is_err() {
        tell!(
            "another process installs into {}; waiting for it",
            folder.display()
        );
    }
    let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await?;
    locked.with_context(|| format!("cannot lock {}", path.display()))
}

/// Removes what installations left that were killed. The caller is alone in the folder.
fn sweep(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with(UNFINISHED)
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tell!("cannot remove {}: {error}", entry.path().display());
        }
    }
}

/// Accounts of sandboxes read and run what is installed, whatever the umask of whoever installed it.
fn open_up(path: &Path) -> std::io::Result<()> {
    let data = path.symlink_metadata()?;
    if data.is_symlink() {
        return Ok(());
    }
    let mode = data.permissions().mode();
    let run = if data.is_dir() || mode & 0o100 != 0 {
        0o111
    } else {
        0
    };
    std::fs::set_permissions(path, Permissions::from_mode(mode | 0o444 | run))?;
    if data.is_dir() {
        for entry in std::fs::read_dir(path)? {
            open_up(&entry?.path())?;
        }
    }
    Ok(())
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
            // npm unpacks at the end: until then there is nothing to measure.
            match size(folder) / 1_000_000 {
                0 => tell!("installing {package}: npm downloads"),
                megabytes => tell!("installing {package}: {megabytes} MB are there"),
            }
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

    #[tokio::test]
    async fn what_a_killed_installation_left_goes_with_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(format!("{UNFINISHED}dead/node_modules"));
        let kept = folder.path().join("codex/0.171.0");
        for path in [&left, &kept] {
            std::fs::create_dir_all(path).unwrap();
        }
        let held = alone(folder.path()).await.unwrap();
        let second = alone(folder.path());
        assert!(
            tokio::time::timeout(Duration::from_millis(100), second)
                .await
                .is_err(),
            "two install at once"
        );
        drop(held);
        let _alone = alone(folder.path()).await.unwrap();
        sweep(folder.path());
        assert!(!left.exists() && kept.exists());
    }

    #[test]
    fn what_is_installed_may_be_run_by_every_account() {
        let folder = installation("sha512-right", true);
        let program = folder.path().join("node_modules/x/codex");
        let text = folder.path().join("package-lock.json");
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        mode(&program, 0o700);
        mode(&text, 0o600);
        mode(folder.path(), 0o700);
        open_up(folder.path()).unwrap();
        for (path, expected) in [
            (&program, 0o755),
            (&text, 0o644),
            (&folder.path().into(), 0o755),
        ] {
            let found = path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(found, expected, "{}", path.display());
        }
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
