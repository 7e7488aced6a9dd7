//! Names of archive entries.

use unicode_normalization::UnicodeNormalization;

use super::ArchiveError;

/// Longest name of an entry, in bytes.
const MAX_PATH: usize = 1024;
/// Longest component, in bytes: what every file system takes.
const MAX_COMPONENT: usize = 255;
/// Deepest component.
const MAX_DEPTH: usize = 32;

/// The components of a clean relative path.
///
/// # Errors
/// [`ArchiveError::Path`] for absolute, empty, dotted, Windows-like, too long or too deep names, and control characters.
pub(super) fn components(name: &str) -> Result<Vec<&str>, ArchiveError> {
    let windows = name.contains('\\') || name.as_bytes().get(1) == Some(&b':');
    if name.len() > MAX_PATH || windows || name.chars().any(char::is_control) {
        return Err(ArchiveError::Path);
    }
    let parts: Vec<&str> = name.split('/').collect();
    let clean = |part: &&str| !matches!(*part, "" | "." | "..") && part.len() <= MAX_COMPONENT;
    if parts.len() > MAX_DEPTH || !parts.iter().all(clean) {
        return Err(ArchiveError::Path);
    }
    Ok(parts)
}

/// What a path is on a file system that knows neither case nor Unicode forms.
pub(super) fn folded(path: &str) -> String {
    let lower = path.nfkc().flat_map(char::to_lowercase);
    lower.nfkc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clean_relative_paths_pass() {
        // SKL-016, ENV-521, F29
        assert_eq!(components("a/b-c/d.e").unwrap(), ["a", "b-c", "d.e"]);
        let deep = vec!["a"; MAX_DEPTH + 1].join("/");
        let wide = "a".repeat(MAX_COMPONENT + 1);
        for bad in [
            "",
            "/x",
            "../x",
            "a/../x",
            "a//b",
            "./a",
            "a/.",
            "a\\..\\..\\x",
            "C:\\x",
            "C:x",
            "a/b\0",
            "a/\n",
            "a/",
            &deep,
            &wide,
        ] {
            assert_eq!(components(bad), Err(ArchiveError::Path), "{bad:?}");
        }
    }

    #[test]
    fn case_and_unicode_forms_fold() {
        for (one, other) in [
            ("A/b", "a/B"),
            ("\u{e9}", "e\u{301}"),
            ("\u{c9}", "e\u{301}"),
            ("\u{fb01}", "FI"),
        ] {
            assert_eq!(folded(one), folded(other), "{one} {other}");
        }
        assert_ne!(folded("a"), folded("b"));
    }
}
