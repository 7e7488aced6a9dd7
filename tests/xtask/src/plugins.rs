//! Builds plugins the way an author does, `berth plugin build`, as components and as native libraries.
//!
//! A component needs the standard library for wasm32-unknown-unknown. Where the toolchain has it, that is used; on Debian as
//! root a second compiler with the sources of its own standard library is installed and builds it.

use crate::shell::{must, on_path, program, quietly, root, target};
use crate::tools::{apt_install, is_root};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of the plugins that the transport tests load.
const PLUGINS: [&str; 6] = [
    "plugins/harness-codex",
    "plugins/sandbox-local",
    "plugins/mcp-bindings",
    "tests/faulty/harness",
    "tests/faulty/provider",
    "tests/faulty/resolver",
];
/// Debian's compiler and the sources of its standard library, of one version.
const PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];
const COMPILER: &str = "/usr/bin/rustc";

/// Where the plugin files are.
pub fn folder() -> PathBuf {
    target().join("test-plugins")
}

/// Builds all of them with the `berth` that was built before.
pub fn build() -> Result<()> {
    let wasm = Wasm::find()?;
    for plugin in PLUGINS {
        let mut component = berth(plugin, "release");
        component.envs(wasm.variables());
        must(&mut component)?;
        let mut library = berth(plugin, "dev");
        library.arg("--native");
        must(&mut library)?;
    }
    Ok(())
}

fn berth(plugin: &str, profile: &str) -> Command {
    let mut command = program(target().join("debug/berth"));
    command
        .args(["plugin", "build"])
        .arg(root().join(plugin))
        .args(["--profile", profile, "--out"])
        .arg(folder())
        .env("CARGO_TERM_QUIET", "true");
    command
}

/// What compiles components.
pub enum Wasm {
    /// The toolchain itself.
    Own,
    /// Debian's compiler, with the linker of our toolchain.
    Debian(PathBuf),
}

impl Wasm {
    /// Finds it, or installs it.
    pub fn find() -> Result<Self> {
        let sysroot = PathBuf::from(quietly(program("rustc").args(["--print", "sysroot"]))?.trim());
        let libraries = sysroot.join("lib/rustlib");
        if libraries.join("wasm32-unknown-unknown/lib").is_dir() {
            return Ok(Self::Own);
        }
        let host = quietly(program("rustc").args(["--print", "host-tuple"]))?;
        let linker = libraries.join(host.trim()).join("bin/rust-lld");
        if !on_path("apt-get") || !is_root()? || !linker.is_file() {
            bail!("please run `rustup target add wasm32-unknown-unknown` and then this again");
        }
        if !sources_fit() {
            apt_install(&PACKAGES)?;
        }
        Ok(Self::Debian(linker))
    }

    /// Variables that make cargo compile with it, in a folder of its own: another compiler would rebuild everything.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut variables = vec![
            ("CARGO_TARGET_DIR", text(&target().join("wasm"))),
            // The profile of a plugin that `berth plugin new` makes, so that one standard library serves all.
            ("CARGO_PROFILE_RELEASE_LTO", "true".to_owned()),
            ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1".to_owned()),
            ("CARGO_PROFILE_RELEASE_STRIP", "symbols".to_owned()),
        ];
        if let Self::Debian(linker) = self {
            variables.extend([
                ("RUSTC", COMPILER.to_owned()),
                ("RUSTC_BOOTSTRAP", "1".to_owned()),
                ("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort".to_owned()),
                ("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", text(linker)),
            ]);
        }
        variables
    }
}

/// Whether Debian's compiler is there and new enough for the workspace, with its sources.
fn sources_fit() -> bool {
    let Ok(version) = quietly(program(COMPILER).arg("--version")) else {
        return false;
    };
    let minor = version
        .strip_prefix("rustc 1.")
        .and_then(|rest| rest.split('.').next())
        .and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= 95)
        && Path::new("/usr/lib/rustlib/src/rust/library/std").is_dir()
}
