//! Skills of a Project and their immutable versions (`files-skills-vaults.md` 2).

mod manifest;

use crate::archive::{Archive, ArchiveError};
use crate::blob::BlobRef;
use crate::{SkillId, SkillVersionId, Timestamp};

pub use manifest::{Manifest, ManifestFault};

/// Name of the file that makes a folder a Skill (SKL-011).
pub const MANIFEST: &str = "SKILL.md";

/// A Skill. Name and description are those of its default version (SKL-021).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its id.
    pub id: SkillId,
    /// Creation.
    pub created_at: Timestamp,
    /// What is taken where nobody names a version.
    pub default: SkillVersion,
    /// Highest remaining number (SKL-022).
    pub latest: u64,
}

/// One version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillVersion {
    /// Identity: the list's cursor.
    pub id: SkillVersionId,
    /// The Skill.
    pub skill: SkillId,
    /// From 1, never used twice (SKL-020).
    pub number: u64,
    /// Upload time.
    pub created_at: Timestamp,
    /// What its manifest says.
    pub manifest: Manifest,
    /// Its bundle, a ZIP.
    pub bundle: BlobRef,
}

/// Which version a reference means (SKL-024, ENV-514).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selector {
    /// The default one.
    Default,
    /// The newest one.
    Latest,
    /// This one.
    Number(u64),
}

impl Selector {
    /// Reads `latest` or a positive number without leading zeros.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "latest" => Some(Self::Latest),
            _ => parse_number(text).map(Self::Number),
        }
    }
}

/// A version number as the wire writes it: a positive integer without sign or leading zeros.
pub fn parse_number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    // Numbers are columns: what does not fit was never given out.
    let fits = |number: &u64| i64::try_from(*number).is_ok();
    (digits && !text.starts_with('0'))
        .then(|| text.parse().ok().filter(fits))
        .flatten()
}

/// Why an upload is no Skill. The text may be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillFault {
    /// The tree.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The number of `SKILL.md` files (SKL-011, ENV-513).
    #[error("The skill must hold exactly one SKILL.md, in its top-level directory.")]
    Manifests,
    /// The manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestFault),
}

/// Reads what a bundle says about itself.
///
/// # Errors
/// [`SkillFault`] if it is no Skill.
pub fn inspect(archive: &Archive) -> Result<Manifest, SkillFault> {
    let named = |path: &str| {
        path.rsplit('/')
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case(MANIFEST))
    };
    let count = archive
        .files
        .iter()
        .filter(|file| named(&file.path))
        .count();
    match archive.file(MANIFEST) {
        Some(bytes) if count == 1 => Ok(Manifest::parse(bytes)?),
        _ => Err(SkillFault::Manifests),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::ArchiveFile;

    fn tree(paths: &[&str]) -> Archive {
        let file = |path: &&str| ArchiveFile {
            path: (*path).to_owned(),
            bytes: b"---\nname: a\ndescription: b\n---".to_vec(),
            executable: false,
        };
        Archive {
            root: "a".to_owned(),
            files: paths.iter().map(file).collect(),
        }
    }

    #[test]
    fn one_manifest_at_the_top() {
        // SKL-011, ENV-513
        assert_eq!(inspect(&tree(&["SKILL.md", "x/y"])).unwrap().name, "a");
        for paths in [
            &["x"][..],
            &["x/SKILL.md"],
            &["SKILL.md", "x/SKILL.md"],
            &["skill.md"],
        ] {
            assert_eq!(
                inspect(&tree(paths)),
                Err(SkillFault::Manifests),
                "{paths:?}"
            );
        }
    }

    #[test]
    fn selectors() {
        // SKL-024
        assert_eq!(Selector::parse("latest"), Some(Selector::Latest));
        assert_eq!(Selector::parse("12"), Some(Selector::Number(12)));
        for bad in [
            "",
            "0",
            "01",
            "-1",
            "+1",
            "1.0",
            "Latest",
            "99999999999999999999",
            "9223372036854775808",
        ] {
            assert_eq!(Selector::parse(bad), None, "{bad}");
        }
    }
}
