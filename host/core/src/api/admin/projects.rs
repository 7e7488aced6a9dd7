//! Projects and their keys (OPS-020 to OPS-035).

use axum::http::StatusCode;
use domain::json::Json;
use domain::{Digest, KeyId, ProjectId, Timestamp, key};
use serde::Serialize;
use store::WriteError;
use store::projects::{
    ApiKey, ArchiveProject, CreateProject, IssueApiKey, Project, ProjectRefusal, RenameProject,
    RevokeApiKey,
};

use crate::api::call::{Call, Reply};
use crate::api::error::{AdminError, ApiError};
use crate::api::failure::{read_failed, write_broke};
use crate::api::lists::{list as store_list, list_failed};

/// Longest name of a Project, in characters (OPS-031).
const PROJECT_NAME: usize = 128;
/// Longest name of a key, in characters (OPS-031).
const KEY_NAME: usize = 80;

#[derive(Serialize)]
struct ProjectJson<'a> {
    id: String,
    name: &'a str,
    created_at: String,
    archived_at: Option<String>,
    active_key_count: u64,
}

#[derive(Serialize)]
struct KeyJson<'a> {
    id: String,
    project_id: String,
    name: &'a str,
    prefix: &'a str,
    created_at: String,
    revoked_at: Option<String>,
    /// Only in the answer that issues it, once.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

#[derive(Serialize)]
struct PageJson<T> {
    data: Vec<T>,
    has_more: bool,
}

#[derive(Serialize)]
struct RevokedJson {
    id: String,
    deleted: bool,
}

/// `GET /core/v1/projects`
pub(crate) async fn list(call: Call) -> Result<Reply, ApiError> {
    let found = call
        .core
        .store
        .read()
        .projects(&store_list(&call.page, ProjectId::NEVER))
        .await;
    let found = found.map_err(|error| list_failed(error, AdminError::NotFound.into()))?;
    Reply::ok(&PageJson {
        data: found.items.iter().map(project).collect(),
        has_more: found.has_more,
    })
}

/// `POST /core/v1/projects`
pub(crate) async fn create(call: Call) -> Result<Reply, ApiError> {
    let name = name(&call, PROJECT_NAME)?;
    let unit = CreateProject {
        id: ProjectId::new(uuid::Uuid::new_v4()),
        name,
        by: Some(call.administrator()?),
    };
    let made = call.core.store.write(unit).await.map_err(refused)?;
    Reply::json(StatusCode::CREATED, &project(&made))
}

/// `POST /core/v1/projects/{project_id}`
pub(crate) async fn rename(call: Call) -> Result<Reply, ApiError> {
    let name = name(&call, PROJECT_NAME)?;
    let unit = RenameProject {
        id: call.id("project_id"),
        name,
        by: Some(call.administrator()?),
    };
    Reply::ok(&project(
        &call.core.store.write(unit).await.map_err(refused)?,
    ))
}

/// `POST /core/v1/projects/{project_id}/archive`
pub(crate) async fn archive(call: Call) -> Result<Reply, ApiError> {
    let unit = ArchiveProject {
        id: call.id("project_id"),
        by: Some(call.administrator()?),
    };
    Reply::ok(&project(
        &call.core.store.write(unit).await.map_err(refused)?,
    ))
}

/// `GET /core/v1/projects/{project_id}/keys`
pub(crate) async fn keys(call: Call) -> Result<Reply, ApiError> {
    let id: ProjectId = call.id("project_id");
    let found = call
        .core
        .store
        .read()
        .api_keys(id, &store_list(&call.page, KeyId::NEVER))
        .await;
    let found = found.map_err(|error| list_failed(error, AdminError::NotFound.into()))?;
    Reply::ok(&PageJson {
        data: found
            .items
            .iter()
            .map(|found| api_key(found, None))
            .collect(),
        has_more: found.has_more,
    })
}

/// `POST /core/v1/projects/{project_id}/keys`
pub(crate) async fn issue(call: Call) -> Result<Reply, ApiError> {
    let name = name(&call, KEY_NAME)?;
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| {
        tracing::error!(%error, "no randomness for a key");
        ApiError::Internal {
            effect_unknown: false,
        }
    })?;
    let secret = key::api_key(random);
    let text = secret.as_str().unwrap_or_default();
    let unit = IssueApiKey {
        id: KeyId::new(uuid::Uuid::new_v4()),
        project: call.id("project_id"),
        name,
        prefix: text.chars().take(key::SHOWN_PREFIX).collect(),
        digest: Digest::of(secret.expose()),
        by: Some(call.administrator()?),
    };
    let issued = call.core.store.write(unit).await.map_err(refused)?;
    Reply::json(StatusCode::CREATED, &api_key(&issued, Some(text)))
}

/// `DELETE /core/v1/projects/{project_id}/keys/{key_id}`
pub(crate) async fn revoke(call: Call) -> Result<Reply, ApiError> {
    let id: KeyId = call.id("key_id");
    let unit = RevokeApiKey {
        id,
        project: call.id("project_id"),
        by: Some(call.administrator()?),
    };
    call.core.store.write(unit).await.map_err(refused)?;
    Reply::ok(&RevokedJson {
        id: id.to_string(),
        deleted: true,
    })
}

/// A Project that exists, archived or not.
pub(in crate::api) async fn existing(call: &Call, id: ProjectId) -> Result<(), ApiError> {
    let found = call
        .core
        .store
        .read()
        .project(id)
        .await
        .map_err(read_failed)?;
    found.map(|_| ()).ok_or(AdminError::NotFound.into())
}

/// Exactly `name`, 1 to `longest` characters without control characters (OPS-031).
fn name(call: &Call, longest: usize) -> Result<String, ApiError> {
    parse_name(call.body.json(), longest).ok_or_else(|| AdminError::Name(longest).into())
}

fn parse_name(body: Json<'_>, longest: usize) -> Option<String> {
    let members = body.members()?;
    let [(member, value)] = members.as_slice() else {
        return None;
    };
    let name = value.string().filter(|_| member == "name")?;
    let fits = (1..=longest).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    fits.then_some(name)
}

fn refused(error: WriteError<ProjectRefusal>) -> ApiError {
    match error {
        WriteError::Refused(ProjectRefusal::NotFound) => AdminError::NotFound.into(),
        WriteError::Refused(ProjectRefusal::Archived) => AdminError::ProjectArchived.into(),
        WriteError::Store(error) => write_broke(&error),
    }
}

fn project(project: &Project) -> ProjectJson<'_> {
    ProjectJson {
        id: project.id.to_string(),
        name: &project.name,
        created_at: rfc3339(project.created_at),
        archived_at: project.archived_at.map(rfc3339),
        active_key_count: project.active_key_count,
    }
}

fn api_key<'a>(found: &'a ApiKey, secret: Option<&'a str>) -> KeyJson<'a> {
    KeyJson {
        id: found.id.to_string(),
        project_id: found.project_id.to_string(),
        name: &found.name,
        prefix: &found.prefix,
        created_at: rfc3339(found.created_at),
        revoked_at: found.revoked_at.map(rfc3339),
        key: secret,
    }
}

/// Administration times are RFC 3339 (W-TIME-1).
pub(super) fn rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.millis())
        .unwrap_or_default()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        // OPS-031
        let read = |text: &str| parse_name(Json::new(text), 3);
        assert_eq!(read(r#"{"name":"é b"}"#).as_deref(), Some("é b"));
        for bad in [
            "{}",
            r#"{"name":""}"#,
            r#"{"name":"abcd"}"#,
            r#"{"name":"a\n"}"#,
            r#"{"name":1}"#,
            r#"{"name":"a","x":1}"#,
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_rfc_3339() {
        // W-TIME-1
        assert_eq!(
            rfc3339(Timestamp::from_millis(1_700_000_000_123)),
            "2023-11-14T22:13:20.123Z"
        );
    }
}
