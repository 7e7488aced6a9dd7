//! Skills and their versions (api-surface 13).

use domain::skill::{Skill, SkillVersion};
use serde::Serialize;

/// A Skill.
#[derive(Serialize)]
pub(crate) struct SkillJson<'a> {
    id: String,
    object: &'static str,
    created_at: i64,
    name: &'a str,
    description: &'a str,
    default_version: String,
    latest_version: String,
}

/// A version of a Skill.
#[derive(Serialize)]
pub(crate) struct SkillVersionJson<'a> {
    id: String,
    object: &'static str,
    created_at: i64,
    skill_id: String,
    name: &'a str,
    description: &'a str,
    version: String,
}

/// The answer to the deletion of a version (SKL-040).
#[derive(Serialize)]
pub(crate) struct DeletedVersion {
    id: String,
    object: &'static str,
    deleted: bool,
    version: String,
}

/// Shows a Skill.
pub(crate) fn skill(skill: &Skill) -> SkillJson<'_> {
    SkillJson {
        id: skill.id.to_string(),
        object: "skill",
        created_at: skill.created_at.seconds(),
        name: &skill.default.manifest.name,
        description: &skill.default.manifest.description,
        default_version: skill.default.number.to_string(),
        latest_version: skill.latest.to_string(),
    }
}

/// Shows a version.
pub(crate) fn version(version: &SkillVersion) -> SkillVersionJson<'_> {
    SkillVersionJson {
        id: version.id.to_string(),
        object: "skill.version",
        created_at: version.created_at.seconds(),
        skill_id: version.skill.to_string(),
        name: &version.manifest.name,
        description: &version.manifest.description,
        version: version.number.to_string(),
    }
}

/// Shows what was deleted.
pub(crate) fn deleted_version(id: domain::SkillVersionId, number: u64) -> DeletedVersion {
    DeletedVersion {
        id: id.to_string(),
        object: "skill.version.deleted",
        deleted: true,
        version: number.to_string(),
    }
}
