//! The `berth` program: one binary for the Core (`serve`), the Runtime (`daemon`) and whoever operates them.
//!
//! [`cli`] is the command line; [`demo`] the main job in one command; [`data_dir`] what a Core keeps on disk; `built_in` links the plugins in.
//! Two hidden sub-commands are dispatched before anything else, because they are the small parents of other programs: they must not have
//! threads, a runtime or a log.

#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod out;

mod built_in;
mod cli;
mod data_dir;
mod demo;
mod install;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    match std::env::args_os()
        .nth(1)
        .as_deref()
        .and_then(std::ffi::OsStr::to_str)
    {
        Some("supervise") => return machine::supervisor::main(),
        Some("sandbox-init") => {
            let rest: Vec<String> = std::env::args_os()
                .skip(2)
                .filter_map(|arg| arg.into_string().ok())
                .collect();
            return machine::init::main(&rest);
        }
        _ => {}
    }
    // One TLS provider in the process, chosen before anything can ask for one.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        tell!("berth: another TLS provider is already installed");
        return ExitCode::FAILURE;
    }
    cli::main()
}
