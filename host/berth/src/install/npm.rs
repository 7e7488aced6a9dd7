//! npm as a child process, and what its failures mean.

use anyhow::{Context, bail};
use std::path::Path;
use std::process::Stdio;
use tokio::process::{Child, Command};

/// A running `npm install`; dropping it kills it.
pub struct Npm {
    child: Child,
    errors: tokio::task::JoinHandle<String>,
}

/// Starts `npm install PACKAGE` into a folder of its own. No script of the package runs.
///
/// # Errors
/// There is no npm.
pub fn install(package: &str, folder: &Path) -> anyhow::Result<Npm> {
    let mut command = Command::new("npm");
    command
        .args([
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--save-exact",
            "--loglevel=error",
            // With its own pauses a registry that is not there would be told after more than a minute.
            "--fetch-retries=2",
            "--fetch-retry-mintimeout=1000",
            "--fetch-retry-maxtimeout=5000",
            "--prefix",
        ])
        .arg(folder)
        .arg(package)
        .current_dir(folder)
        // A key of ours in this variable is nobody's business.
        .env_remove("OPENAI_API_KEY")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => anyhow::anyhow!("npm is not installed, and harnesses come through it; install Node.js 20 or newer (on Debian: `apt-get install nodejs npm`)"),
        _ => anyhow::Error::new(error).context("cannot start npm"),
    })?;
    let stream = child.stderr.take().context("npm has no error output")?;
    let errors = tokio::spawn(async move {
        use tokio::io::AsyncReadExt;
        let mut text = Vec::new();
        // More than that nobody reads; the rest is thrown away with the pipe.
        let _ = stream.take(64 * 1024).read_to_end(&mut text).await;
        String::from_utf8_lossy(&text).into_owned()
    });
    Ok(Npm { child, errors })
}

impl Npm {
    /// Waits for the end. May be dropped and called again.
    ///
    /// # Errors
    /// npm failed; the sentence says what to do.
    pub async fn wait(&mut self) -> anyhow::Result<()> {
        let status = self.child.wait().await.context("cannot wait for npm")?;
        if status.success() {
            return Ok(());
        }
        let errors = (&mut self.errors).await.unwrap_or_default();
        bail!("{}", explain(&errors))
    }
}

fn explain(errors: &str) -> String {
    let has = |codes: &[&str]| codes.iter().any(|code| errors.contains(code));
    let advice = if has(&[
        "ENOTFOUND",
        "EAI_AGAIN",
        "ECONNREFUSED",
        "ECONNRESET",
        "ETIMEDOUT",
        "ENETUNREACH",
        "EHOSTUNREACH",
    ]) {
        "the npm registry cannot be reached; check the network, and a proxy or mirror with `npm config get registry`"
    } else if has(&["E404", "ETARGET", "notarget"]) {
        "the npm registry does not have this version; check `npm config get registry`"
    } else if has(&["EINTEGRITY"]) {
        "checksum mismatch: what the npm registry sent is not what it promised; nothing was installed. Try again, then check the registry or its mirror"
    } else if has(&["ENOSPC"]) {
        "the disk is full"
    } else if has(&["EACCES", "EPERM", "EROFS"]) {
        "npm may not write there"
    } else {
        "npm failed"
    };
    let said: Vec<&str> = errors
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(6)
        .collect();
    if said.is_empty() {
        advice.to_owned()
    } else {
        format!("{advice}. npm said:\n  {}", said.join("\n  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_say_what_to_do() {
        for (said, advice) in [
            ("npm error code ENOTFOUND", "cannot be reached"),
            ("npm error code E404", "does not have this version"),
            ("npm error code EINTEGRITY", "checksum mismatch"),
            ("npm error nospc ENOSPC", "disk is full"),
            ("something else", "npm failed"),
        ] {
            assert!(explain(said).contains(advice), "{said}");
            assert!(explain(said).contains(said));
        }
    }
}
