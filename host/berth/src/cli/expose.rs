//! Which paths of this machine an operator may show to agents (`--local-expose`, LOC-005).

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

/// Checks each path against what is private: the data folder and the root of the workspaces, both canonical.
///
/// # Errors
/// A path does not exist, so that no sandbox could start, or it overlaps with what no agent may read (LOC-001): as an ordinary user
/// a sandbox has Core's own account, and nothing but its view keeps it from the keys.
pub fn check(exposed: &[PathBuf], private: &[&Path]) -> anyhow::Result<()> {
    for path in exposed {
        let real = path
            .canonicalize()
            .with_context(|| format!("--local-expose {} cannot be shown", path.display()))?;
        for folder in private {
            if folder.starts_with(&real) || real.starts_with(folder) {
                bail!(
                    "--local-expose {} would show agents {}, which holds keys and other workspaces; name a folder apart from it",
                    path.display(),
                    folder.display()
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_exists_and_holds_nothing_private_is_shown() {
        // LOC-001, LOC-005
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (data, tools) = (root.join("data"), root.join("tools"));
        for folder in [&data.join("sessions"), &tools, &root.join("data-2")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::os::unix::fs::symlink(&data, root.join("link")).unwrap();
        let shown = |path: &Path| check(&[path.to_owned()], &[&data]);
        shown(&tools).unwrap();
        shown(&root.join("data-2")).unwrap();
        for path in [
            Path::new("/"),
            &root,
            &data,
            &data.join("sessions"),
            &root.join("link"),
            &tools.join("../data"),
            &root.join("missing"),
        ] {
            let refused = shown(path).unwrap_err().to_string();
            assert!(refused.contains("--local-expose"), "{refused}");
        }
    }
}
