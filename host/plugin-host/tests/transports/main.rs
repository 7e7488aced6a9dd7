//! The same plugins, linked in, as libraries and as components: one suite judges all three, and what goes wrong in one
//! of them never reaches the host.
//!
//! `cargo xtask test` builds the files (`cargo xtask plugins` by hand) and names their folder in `BERTH_TEST_PLUGINS`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

// The name that everybody else gives it.
extern crate berth_plugin_host as plugin_host;

mod dialects;
mod faults;
mod fuzz;
mod javascript;
mod providers;
mod refused;
mod same;

use std::path::{Path, PathBuf};

use plugin_host::load::PluginFile;
use plugin_host::{Driver, Plugin, Settings};

fn folder() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-plugins");
    std::env::var_os("BERTH_TEST_PLUGINS").map_or_else(default, PathBuf::from)
}

/// The files of one plugin: component and library.
fn files(id: &str) -> [PathBuf; 2] {
    let folder = folder();
    let library = format!("lib{}.so", id.replace('-', "_"));
    [format!("{id}.wasm"), library].map(|name| {
        let path = folder.join(name);
        assert!(
            path.is_file(),
            "there is no {}; `cargo xtask plugins` builds it",
            path.display()
        );
        path
    })
}

/// Settings that allow everything and keep compiled components beside the files.
fn settings() -> Settings {
    Settings {
        folder: Some(folder()),
        allow_native: true,
        ..Settings::default()
    }
}

fn load(path: &Path) -> Plugin {
    let file = PluginFile::read(path).unwrap();
    file.load(&file.asked(), &settings())
        .unwrap_or_else(|refusal| panic!("{}: {refusal}", path.display()))
}

/// Both, loaded.
fn both(id: &str) -> [Plugin; 2] {
    files(id).map(|path| load(&path))
}

fn harness(plugin: &Plugin) -> &dyn plugin_host::contract::HarnessAdapter {
    match &plugin.driver {
        Driver::Harness(adapter) => &**adapter,
        _ => panic!("{plugin:?} is no harness adapter"),
    }
}
