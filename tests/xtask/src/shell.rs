//! Running other programs: with their output passed through, captured, or both; always from the workspace root.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The workspace root: this crate's folder is `tests/xtask`.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// The folder of everything that tests need and cargo does not build.
pub fn test_tools() -> PathBuf {
    target().join("test-tools")
}

/// The shared target folder.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// The cargo that started us.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Any other program, started from the workspace root.
pub fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// Whether `name` is a program on the search path.
pub fn on_path(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

/// Runs to the end with inherited output; an exit status other than 0 is an error that names the command.
pub fn must(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

/// Runs to the end silently; on failure the error carries what the program wrote.
pub fn quietly(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!(
            "`{shown}` ended with {}:\n{text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(text)
}

/// Runs to the end, passes standard output and error through line by line and also returns them with whether the program succeeded.
pub fn watched(command: &mut Command) -> Result<(bool, String)> {
    let shown = show(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let errors = child
        .stderr
        .take()
        .map(|stream| std::thread::spawn(move || pass_through(stream)));
    let mut text = child.stdout.take().map(pass_through).unwrap_or_default();
    if let Some(Ok(more)) = errors.map(std::thread::JoinHandle::join) {
        text.push_str(&more);
    }
    Ok((child.wait()?.success(), text))
}

fn pass_through(stream: impl std::io::Read) -> String {
    let mut text = String::new();
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
        let shown = String::from_utf8_lossy(&line);
        let mut out = std::io::stdout().lock();
        // A closed terminal must not end the tests.
        let _ = out.write_all(shown.as_bytes());
        text.push_str(&shown);
        line.clear();
    }
    text
}

fn show(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    words.join(" ")
}
