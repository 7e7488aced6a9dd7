//! Skills and their versions (`files-skills-vaults.md` 2).

mod bundle;

use domain::json::Json;
use domain::skill::{self, Skill, SkillVersion};
use domain::{SkillId, SkillVersionId};
use store::skills::{
    CreateSkill, DeleteSkill, DeleteSkillVersion, SetDefaultSkillVersion, UploadSkillVersion,
};

use super::call::{Call, Reply};
use super::content::{self, missing, write_failed};
use super::error::{ApiError, ContentError};
use super::failure::read_failed;
use super::gate;
use super::idempotency;
use super::lists::{list as store_list, list_failed};
use super::render::{self, Deleted, List};

/// Longest body of an update (wire.md 6).
const UPDATE: usize = 64 * 1024;
const ZIP: &str = "application/zip";
const STORAGE: ContentError = ContentError::Storage("skill_storage_unavailable");

/// `POST /skills`
pub(crate) async fn create(mut call: Call) -> Result<Reply, ApiError> {
    let skill = SkillId::new(uuid::Uuid::new_v4());
    let received = bundle::receive(&mut call, &["files", "files[]"]).await?;
    let retry = idempotency::retry(&call, &received.identity(), &[])?;
    let upload = received.store(&call, skill).await?;
    let bytes = upload.bundle;
    let unit = CreateSkill {
        upload,
        provenance: call.provenance(),
    };
    let made = idempotency::write(&call, unit, retry).await;
    content::discard_unused(&call, &made, &bytes, |made| made.id != skill).await;
    let made = made.map_err(|failed| content::creation_failed(failed, None))?;
    Reply::ok(&render::skill::skill(&made))
}

/// `GET /skills`
pub(crate) async fn list(call: Call) -> Result<Reply, ApiError> {
    let page = store_list(&call.page, SkillId::NEVER);
    let found = call.core.store.read().skills(call.scope()?, &page).await;
    let found = found.map_err(|error| list_failed(error, missing(None)))?;
    let shown = found
        .items
        .iter()
        .map(|skill| (skill.id.to_string(), render::skill::skill(skill)))
        .collect();
    Reply::ok(&List::new(shown, found.has_more))
}

/// `GET /skills/{skill_id}`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    Reply::ok(&render::skill::skill(&existing(&call).await?))
}

/// `POST /skills/{skill_id}`
pub(crate) async fn update(mut call: Call) -> Result<Reply, ApiError> {
    let number = default_version(&mut call).await?;
    let unit = SetDefaultSkillVersion {
        project: call.project()?,
        skill: call.id("skill_id"),
        number,
        provenance: call.provenance(),
    };
    let moved = call.core.store.write(unit).await;
    let moved = moved.map_err(|error| write_failed(error, None))?;
    Reply::ok(&render::skill::skill(&moved))
}

/// The body of an update has a reader of its own (wire.md 6): exactly `default_version`, whatever the content type says.
async fn default_version(call: &mut Call) -> Result<u64, ApiError> {
    let unreadable = |error| match error {
        gate::GateError::TooLarge { .. } => ApiError::from(error),
        _ => ContentError::upload(None, "The body must be a JSON object.").into(),
    };
    let body = call.take_body();
    let bytes = gate::collect(&call.parts.headers, body, UPDATE).await;
    let body = bytes.and_then(gate::check).map_err(unreadable)?;
    let members = body.json().members().unwrap_or_default();
    if let Some((name, _)) = members.iter().find(|(name, _)| name != "default_version") {
        let path = domain::invalid::Path::root().member(name);
        return Err(domain::invalid::Invalid::unknown(&path).into());
    }
    let text = body.json().get("default_version").and_then(Json::string);
    let number = text.as_deref().and_then(skill::parse_number);
    Ok(number.ok_or(ContentError::Version("default_version"))?)
}

/// `DELETE /skills/{skill_id}`
pub(crate) async fn delete(call: Call) -> Result<Reply, ApiError> {
    let skill: SkillId = call.id("skill_id");
    let unit = DeleteSkill {
        project: call.scope()?,
        skill,
        by: call.author()?,
    };
    let done = call.core.store.write(unit).await;
    done.map_err(|error| write_failed(error, None))?;
    Reply::ok(&Deleted::new(skill, "skill.deleted"))
}

/// `GET /skills/{skill_id}/content`
pub(crate) async fn default_content(call: Call) -> Result<Reply, ApiError> {
    let skill = existing(&call).await?;
    bundle(&call, &skill.default).await
}

/// `POST /skills/{skill_id}/versions`
pub(crate) async fn upload(mut call: Call) -> Result<Reply, ApiError> {
    let skill: SkillId = call.id("skill_id");
    let received = bundle::receive(&mut call, &["files", "files[]", "default"]).await?;
    // Nothing is stored for a Skill that is not there; the unit looks again.
    existing(&call).await?;
    let retry = idempotency::retry(&call, &received.identity(), &[])?;
    let default = received.default;
    let upload = received.store(&call, skill).await?;
    let (bytes, version) = (upload.bundle, upload.version);
    let unit = UploadSkillVersion {
        default,
        upload,
        provenance: call.provenance(),
    };
    let made = idempotency::write(&call, unit, retry).await;
    content::discard_unused(&call, &made, &bytes, |made| made.id != version).await;
    let made = made.map_err(|failed| content::creation_failed(failed, None))?;
    Reply::ok(&render::skill::version(&made))
}

/// `GET /skills/{skill_id}/versions`
pub(crate) async fn versions(call: Call) -> Result<Reply, ApiError> {
    let (project, skill) = (call.scope()?, call.id("skill_id"));
    existing(&call).await?;
    if let Some(after) = &call.page.after {
        check_cursor(&call, skill, after).await?;
    }
    let page = store_list(&call.page, SkillVersionId::NEVER);
    let found = call.core.store.read();
    let found = found.skill_versions(project, skill, &page).await;
    let found = found.map_err(|error| list_failed(error, missing(None)))?;
    let shown = found
        .items
        .iter()
        .map(|version| (version.id.to_string(), render::skill::version(version)))
        .collect();
    Reply::ok(&List::new(shown, found.has_more))
}

/// A cursor is the id of a version of this Skill; each other thing has its own answer (wire.md 9).
async fn check_cursor(call: &Call, skill: SkillId, after: &str) -> Result<(), ApiError> {
    if !after.starts_with("skillver") {
        return Err(ContentError::VersionCursor(after.to_owned()).into());
    }
    let id = after.parse().unwrap_or(SkillVersionId::NEVER);
    let reader = call.core.store.read();
    let owner = reader.skill_of_version(call.scope()?, id).await;
    match owner.map_err(read_failed)? {
        None => Err(missing(None)),
        Some(owner) if owner != skill => Err(ContentError::OtherSkill.into()),
        Some(_) => Ok(()),
    }
}

/// `GET /skills/{skill_id}/versions/{version}`
pub(crate) async fn version(call: Call) -> Result<Reply, ApiError> {
    Reply::ok(&render::skill::version(&existing_version(&call).await?))
}

/// `DELETE /skills/{skill_id}/versions/{version}`
pub(crate) async fn delete_version(call: Call) -> Result<Reply, ApiError> {
    let number = skill::parse_number(&call.param("version")).unwrap_or(0);
    let unit = DeleteSkillVersion {
        project: call.scope()?,
        skill: call.id("skill_id"),
        number,
        by: call.author()?,
    };
    let gone = call.core.store.write(unit).await;
    let gone = gone.map_err(|error| write_failed(error, None))?;
    Reply::ok(&render::skill::deleted_version(gone, number))
}

/// `GET /skills/{skill_id}/versions/{version}/content`
pub(crate) async fn version_content(call: Call) -> Result<Reply, ApiError> {
    let version = existing_version(&call).await?;
    bundle(&call, &version).await
}

async fn bundle(call: &Call, version: &SkillVersion) -> Result<Reply, ApiError> {
    let reader = call.core.blobs.get_for(&version.bundle).await;
    let reader = reader.map_err(|error| {
        tracing::error!(%error, "a Skill bundle could not be opened");
        STORAGE
    })?;
    let name = format!("{}.zip", version.manifest.name);
    Ok(content::reply(
        reader,
        version.bundle.size,
        ZIP,
        Some(&name),
    ))
}

async fn existing(call: &Call) -> Result<Skill, ApiError> {
    let id: SkillId = call.id("skill_id");
    let found = call.core.store.read().skill(call.scope()?, id).await;
    found.map_err(read_failed)?.ok_or_else(|| missing(None))
}

async fn existing_version(call: &Call) -> Result<SkillVersion, ApiError> {
    // A malformed number is one that does not exist (W-ID-3).
    let number = skill::parse_number(&call.param("version")).unwrap_or(0);
    let skill: SkillId = call.id("skill_id");
    let reader = call.core.store.read();
    let found = reader.skill_version(call.scope()?, skill, number).await;
    found.map_err(read_failed)?.ok_or_else(|| missing(None))
}
