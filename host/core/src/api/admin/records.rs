//! Provenance and audit (OPS-060 to OPS-068): who wrote what, newest first.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{ProjectId, Timestamp};
use serde::Serialize;
use store::read::{Record, RecordFilter};

use super::parameters::{MOST, Query, limit, query, time};
use super::projects::{existing, rfc3339};
use crate::api::call::{Call, Reply};
use crate::api::error::{AdminError, ApiError};
use crate::api::failure::read_failed;

/// Records of a page where nothing else is said.
const LIMIT: u32 = 50;

#[derive(Serialize)]
struct PageJson {
    data: Vec<RecordJson>,
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct OwnersJson {
    data: Vec<OwnerJson>,
}

#[derive(Serialize)]
struct OwnerJson {
    resource_id: String,
    api_key: Option<KeyJson>,
    created_at: Option<String>,
}

#[derive(Serialize)]
struct KeyJson {
    id: String,
    name: Option<String>,
    prefix: Option<String>,
}

#[derive(Serialize)]
struct RecordJson {
    id: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<KeyJson>,
    #[serde(flatten)]
    administrator: Option<AdministratorJson>,
    action: String,
    resource_type: String,
    resource_id: String,
    parent_id: Option<String>,
    request_id: Option<String>,
    trace_id: Option<String>,
}

#[derive(Serialize)]
struct AdministratorJson {
    project_id: Option<String>,
    admin_credential_id: String,
    actor_label: Option<String>,
}

/// `GET /core/v1/projects/{project_id}/write-operations`
pub(crate) async fn write_operations(call: Call) -> Result<Reply, ApiError> {
    const KNOWN: &[&str] = &[
        "key_id",
        "resource_type",
        "resource_id",
        "created_after",
        "created_before",
        "limit",
        "cursor",
    ];
    let query = query(&call, KNOWN)?;
    let filter = filter(&query)?;
    let project = call.scope()?;
    existing(&call, project).await?;
    let found = call.core.store.read();
    let found = found.write_operations(project, &filter).await;
    page(found.map_err(read_failed)?, filter.limit)
}

/// `GET /core/v1/audit-log`
pub(crate) async fn audit_log(call: Call) -> Result<Reply, ApiError> {
    const KNOWN: &[&str] = &[
        "project_id",
        "action",
        "resource_type",
        "resource_id",
        "created_after",
        "created_before",
        "limit",
        "cursor",
    ];
    let query = query(&call, KNOWN)?;
    let filter = filter(&query)?;
    // A malformed Project is one that does not exist: nothing of it is there.
    let project = query
        .get("project_id")
        .map(|text| text.parse().unwrap_or(ProjectId::NEVER));
    let found = call.core.store.read().audit_log(project, &filter).await;
    page(found.map_err(read_failed)?, filter.limit)
}

/// `GET /core/v1/projects/{project_id}/resource-owners`
pub(crate) async fn resource_owners(call: Call) -> Result<Reply, ApiError> {
    let query = query(&call, &["resource_type", "resource_ids"])?;
    let kind = query.get("resource_type").ok_or(AdminError::Request)?;
    let ids = query.get("resource_ids").ok_or(AdminError::Request)?;
    let ids: Vec<String> = ids.split(',').map(str::to_owned).collect();
    if ids.len() > MOST as usize || ids.iter().any(String::is_empty) {
        return Err(AdminError::Request.into());
    }
    let project = call.scope()?;
    existing(&call, project).await?;
    let found = call.core.store.read();
    let found = found.resource_owners(project, kind, &ids).await;
    let owners = found.map_err(read_failed)?.into_iter().zip(ids);
    Reply::ok(&OwnersJson {
        data: owners
            .map(|(record, resource_id)| OwnerJson {
                resource_id,
                created_at: record.as_ref().map(|record| rfc3339(record.created_at)),
                api_key: record.and_then(key),
            })
            .collect(),
    })
}

fn filter(query: &Query) -> Result<RecordFilter, AdminError> {
    let text = |name: &str| query.get(name).cloned();
    let after = query.get("cursor").map(|text| position(text)).transpose()?;
    Ok(RecordFilter {
        key_id: text("key_id"),
        action: text("action"),
        resource_type: text("resource_type"),
        resource_id: text("resource_id"),
        created_after: time(query, "created_after")?,
        created_before: time(query, "created_before")?,
        after,
        limit: limit(query, LIMIT)?,
    })
}

/// An opaque cursor: time and id of the last record of a page.
fn cursor(record: &Record) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}:{}", record.created_at.millis(), record.id))
}

fn position(cursor: &str) -> Result<(Timestamp, String), AdminError> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor);
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let parts = text.as_deref().and_then(|text| text.split_once(':'));
    let (at, id) = parts.ok_or(AdminError::Request)?;
    if id.contains('\0') {
        return Err(AdminError::Request);
    }
    let at = at.parse().map_err(|_| AdminError::Request)?;
    Ok((Timestamp::from_millis(at), id.to_owned()))
}

fn page(mut records: Vec<Record>, limit: u32) -> Result<Reply, ApiError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = records.len() > limit;
    records.truncate(limit);
    let next_cursor = records.last().filter(|_| has_more).map(cursor);
    Reply::ok(&PageJson {
        data: records.into_iter().map(shown).collect(),
        next_cursor,
    })
}

fn key(record: Record) -> Option<KeyJson> {
    record.key.map(|key| KeyJson {
        id: key.id.to_string(),
        name: key.name,
        prefix: key.prefix,
    })
}

fn shown(mut record: Record) -> RecordJson {
    let administrator = record.administrator.take();
    let project_id = record.project.map(|id| id.to_string());
    RecordJson {
        id: std::mem::take(&mut record.id),
        created_at: rfc3339(record.created_at),
        administrator: administrator.map(|(admin_credential_id, actor_label)| AdministratorJson {
            project_id,
            admin_credential_id,
            actor_label,
        }),
        action: std::mem::take(&mut record.action),
        resource_type: std::mem::take(&mut record.resource_type),
        resource_id: std::mem::take(&mut record.resource_id),
        parent_id: record.parent_id.take(),
        request_id: record.request_id.take(),
        trace_id: record.trace_id.take(),
        api_key: key(record),
    }
}
