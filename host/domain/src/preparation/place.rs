//! Paths inside the logical workspace (ENV-490, ENV-496, ENV-527).

use crate::invalid::{Invalid, Path};

/// Root of every logical path.
pub const WORKSPACE: &str = "/workspace";
/// Longest path, in bytes.
const MAX_PATH: usize = 4096;

/// Checks a file's target: below the workspace, in canonical spelling.
///
/// # Errors
/// E400-44 with the path of the member.
pub(super) fn file(text: &str, path: &Path) -> Result<(), Invalid> {
    let inside = text.strip_prefix("/workspace/");
    let bad = |what: &str| Err(Invalid::other(path.echo(), format!("{path} {what}")));
    let Some(inside) = inside.filter(|_| is_plain(text)) else {
        return bad("must be an absolute POSIX path inside /workspace");
    };
    if inside
        .split('/')
        .any(|part| matches!(part, "" | "." | ".."))
    {
        return bad("cannot contain empty, . or .. path components");
    }
    Ok(())
}

/// Checks a folder: the workspace or below it, in canonical spelling.
///
/// # Errors
/// 400 with the path of the member.
pub(super) fn folder(text: &str, path: &Path) -> Result<(), Invalid> {
    if text == WORKSPACE {
        return Ok(());
    }
    file(text, path)
}

fn is_plain(text: &str) -> bool {
    text.len() <= MAX_PATH && !text.contains('\\') && !text.chars().any(char::is_control)
}

/// Is one path the other, or a folder above it?
pub(super) fn overlaps(one: &str, other: &str) -> bool {
    let above = |short: &str, long: &str| {
        long.strip_prefix(short)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    above(one, other) || above(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_paths_below_the_workspace() {
        let path = Path::root().member("files").index(0).member("path");
        for good in [
            "/workspace/a",
            "/workspace/a/.b/c d",
            "/workspace/...",
            "/workspace/\u{e9}",
        ] {
            file(good, &path).unwrap();
        }
        for (bad, what) in [
            ("", "must be"),
            ("a", "must be"),
            ("/workspace", "must be"),
            ("/workspaces/a", "must be"),
            ("/etc/passwd", "must be"),
            ("/workspace/\n", "must be"),
            ("/workspace\\a", "must be"),
            ("/workspace/", "cannot"),
            ("/workspace//a", "cannot"),
            ("/workspace/./a", "cannot"),
            ("/workspace/../etc", "cannot"),
            ("/workspace/a/", "cannot"),
        ] {
            let error = file(bad, &path).unwrap_err();
            assert!(
                error.message.starts_with(&format!("files[0].path {what}")),
                "{bad}: {error}"
            );
            assert_eq!(error.param.as_deref(), Some("files[0].path"));
        }
        folder(WORKSPACE, &path).unwrap();
        assert!(
            overlaps("/w/a", "/w/a/b") && overlaps("/w/a", "/w/a") && !overlaps("/w/a", "/w/ab")
        );
    }
}
