//! Stored bytes and whose they are. Bytes live outside the database; rows name them by [`BlobRef`].
//!
//! Equal bytes of two owners are two blobs under two data keys, so nobody learns from storage that they are equal, and a
//! blob that is moved to another owner does not open (KEY-001, KEY-006, ENV-544).

use serde::{Deserialize, Serialize};

use crate::{ContentId, Digest, FileId, ProjectId, SkillId, SkillVersionId};

/// What owns a blob inside its Project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum BlobOwner {
    /// An uploaded File.
    File {
        /// The File.
        id: FileId,
    },
    /// The bundle of one version of a Skill.
    SkillVersion {
        /// The Skill.
        skill: SkillId,
        /// The version.
        version: SkillVersionId,
    },
    /// An initial file or archive that came inside a request.
    Inline {
        /// Identity of the content.
        id: ContentId,
    },
}

/// Whose bytes are about to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobScope {
    /// The Project.
    pub project: ProjectId,
    /// The owner inside it.
    pub owner: BlobOwner,
}

/// Bytes that are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobRef {
    /// The Project.
    pub project: ProjectId,
    /// The owner inside it.
    pub owner: BlobOwner,
    /// SHA-256 of the bytes.
    pub digest: Digest,
    /// Their number.
    pub size: u64,
}

impl BlobScope {
    /// The ids that enter the seal of the bytes, outermost first.
    pub fn ids(&self) -> Vec<String> {
        let mut ids = vec![self.project.to_string()];
        match self.owner {
            BlobOwner::File { id } => ids.push(id.to_string()),
            BlobOwner::SkillVersion { skill, version } => {
                ids.extend([skill.to_string(), version.to_string()]);
            }
            BlobOwner::Inline { id } => ids.push(id.to_string()),
        }
        ids
    }

    /// The bytes, once they are stored.
    pub fn stored(self, digest: Digest, size: u64) -> BlobRef {
        BlobRef {
            project: self.project,
            owner: self.owner,
            digest,
            size,
        }
    }

    /// Name of the blob with these bytes.
    pub fn name(&self, digest: Digest) -> Digest {
        let kind: &[u8] = match self.owner {
            BlobOwner::File { .. } => b"file",
            BlobOwner::SkillVersion { .. } => b"skill-version",
            BlobOwner::Inline { .. } => b"inline",
        };
        let ids = self.ids();
        let ids = ids.iter().map(String::as_bytes);
        let parts = [b"owned-blob".as_slice(), kind, digest.as_bytes()];
        Digest::of_parts(parts.into_iter().chain(ids))
    }
}

impl BlobRef {
    /// Whose it is.
    pub fn scope(&self) -> BlobScope {
        BlobScope {
            project: self.project,
            owner: self.owner,
        }
    }

    /// Name of the blob: what storage and its references know it by.
    pub fn name(&self) -> Digest {
        self.scope().name(self.digest)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn equal_bytes_of_two_owners_have_two_names() {
        let uuid = Uuid::from_u128;
        let (one, two) = (ProjectId::new(uuid(1)), ProjectId::new(uuid(2)));
        let file = |id| BlobOwner::File {
            id: FileId::new(uuid(id)),
        };
        let version = |version| BlobOwner::SkillVersion {
            skill: SkillId::new(uuid(7)),
            version: SkillVersionId::new(uuid(version)),
        };
        let inline = BlobOwner::Inline {
            id: ContentId::new(uuid(7)),
        };
        let mut names: Vec<_> = [
            (one, file(7)),
            (two, file(7)),
            (one, file(8)),
            (one, version(1)),
            (one, version(2)),
            (one, inline),
        ]
        .map(|(project, owner)| BlobScope { project, owner }.name(Digest::of(b"bytes")))
        .to_vec();
        names.push(Digest::of(b"bytes"));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
