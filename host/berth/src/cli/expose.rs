//! Which paths of this machine agents see: what each Environment shows of the system, and what the operator shows besides
//! (`--local-expose`, LOC-005).

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

/// Something that no agent may read.
#[derive(Debug, Clone)]
pub struct Private {
    /// For a sentence.
    what: &'static str,
    path: PathBuf,
}

impl Private {
    /// The place is where the path really is, or will be once it is made.
    pub fn new(what: &'static str, path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let there = path.ancestors().find_map(|up| {
            let rest = path.strip_prefix(up).ok()?;
            Some(up.canonicalize().ok()?.join(rest))
        });
        // Without the slash that an empty rest leaves behind.
        let path = there.unwrap_or(path).components().collect();
        Self { what, path }
    }
}

/// Checks each path that agents see against what is private. `system` is what providers show of every machine.
///
/// # Errors
/// An exposed path does not exist, so that no sandbox could start, or an agent would see what it may not read (LOC-001): as an
/// ordinary user a sandbox has Core's own account, and nothing but its view keeps it from the keys, whatever their mode.
pub fn check(exposed: &[PathBuf], system: &[String], private: &[Private]) -> anyhow::Result<()> {
    for Private { what, path } in private {
        let shows = |shown: &&String| {
            let shown = Path::new(shown.as_str());
            path.starts_with(shown.canonicalize().unwrap_or_else(|_| shown.to_owned()))
        };
        if let Some(shown) = system.iter().find(shows) {
            bail!(
                "{what} {} is below {shown}, which every Environment on this machine sees; move it elsewhere, such as below /var/lib/berth",
                path.display()
            );
        }
    }
    for shown in exposed {
        let real = shown
            .canonicalize()
            .with_context(|| format!("--local-expose {} cannot be shown", shown.display()))?;
        for Private { what, path } in private {
            if path.starts_with(&real) || real.starts_with(path) {
                bail!(
                    "--local-expose {} would show agents {what} {}; name a folder apart from it",
                    shown.display(),
                    path.display()
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
        let private = [Private::new("the data folder", &data)];
        let shown = |path: &Path| check(&[path.to_owned()], &[], &private);
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

    // LOC-001: the mode of a file keeps nobody out who has the same account.
    #[test]
    fn nothing_private_lies_where_every_environment_looks() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["usr/lib", "usr/berth/sessions", "etc", "var/berth", "etc-2"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["etc/password", "var/password", "etc-2/password"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        for (target, name) in [
            ("usr/lib", "lib"),
            ("../etc/password", "var/link"),
            ("../var/password", "etc/link"),
        ] {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        }
        let system = ["usr", "lib", "etc", "missing"]
            .map(|name| root.join(name).to_str().unwrap().to_owned());
        let checked = |path: &str| {
            let private = [Private::new("the password file", &root.join(path))];
            check(&[], &system, &private)
        };
        for path in [
            "var/berth",
            "var/password",
            "etc-2/password",
            "etc/link",
            "new",
        ] {
            checked(path).unwrap();
        }
        for path in [
            "usr/berth",
            "usr/berth/sessions",
            "lib",
            "etc/password",
            "var/link",
            "var/../etc/password",
            "missing/new",
            "lib/new/deeper",
        ] {
            let refused = checked(path).unwrap_err().to_string();
            assert!(refused.starts_with("the password file"), "{refused}");
        }
    }
}
