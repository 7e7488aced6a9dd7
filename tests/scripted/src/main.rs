//! See the library.

use std::process::ExitCode;

/// The version that the adapter of Codex pins; the probe must find it.
const VERSION: &str = "codex-cli 0.171.0";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--version") => {
            println!("{VERSION}");
            ExitCode::SUCCESS
        }
        Some("app-server") => match berth_scripted::run() {
            Ok(code) => code,
            Err(error) => {
                eprintln!("scripted harness: {error:#}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("scripted harness: it knows `--version` and `app-server`");
            ExitCode::from(2)
        }
    }
}
