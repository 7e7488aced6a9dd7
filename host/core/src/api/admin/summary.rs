//! What the Projects hold and use (OPS-070, OPS-071).

use domain::summary::Summary;
use domain::{ProjectId, Timestamp};
use serde::Serialize;
use store::read::{Assets, Group, Grouping, List, Order};

use super::parameters::{Query, limit, query, time};
use super::projects::rfc3339;
use crate::api::call::{Call, Reply};
use crate::api::error::{AdminError, ApiError};
use crate::api::failure::read_failed;
use crate::api::lists::list_failed;
use crate::api::render::turn::{UsageJson, usage};

/// Projects of a page where nothing else is said.
const LIMIT: u32 = 20;

#[derive(Serialize)]
struct SummaryJson {
    data: Vec<RowJson>,
    has_more: bool,
}

#[derive(Serialize)]
struct RowJson {
    project_id: String,
    agent_id: Option<String>,
    key_id: Option<String>,
    /// Of a whole Project.
    assets: Option<AssetsJson>,
    sessions: SessionsJson,
    usage: UsageJson,
    coverage: CoverageJson,
    last_active_at: Option<String>,
}

#[derive(Serialize)]
struct AssetsJson {
    agents: u64,
    environment_templates: u64,
    files: u64,
    skills: u64,
    vaults: u64,
}

#[derive(Serialize)]
struct SessionsJson {
    total: u64,
    idle: u64,
    in_progress: u64,
    requires_action: u64,
    failed: u64,
}

/// How much of the usage was measured; no ratio of nothing.
#[derive(Serialize)]
struct CoverageJson {
    measured_sessions: u64,
    total_sessions: u64,
    ratio: Option<f64>,
}

/// `GET /core/v1/summary`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    const KNOWN: &[&str] = &[
        "project_id",
        "group_by",
        "created_after",
        "created_before",
        "after",
        "limit",
        "order",
    ];
    let query = query(&call, KNOWN)?;
    let grouping = match query.get("group_by").map(String::as_str) {
        None | Some("project") => Grouping::Project,
        Some("agent") if query.contains_key("project_id") => Grouping::Agent,
        Some("key") => Grouping::Key,
        Some(_) => return Err(AdminError::Request.into()),
    };
    let from = time(&query, "created_after")?.unwrap_or(Timestamp::from_millis(i64::MIN));
    let until = time(&query, "created_before")?.unwrap_or(Timestamp::from_millis(i64::MAX));
    let (projects, has_more) = projects(&call, &query).await?;
    let read = call.core.store.read();
    let mut data = Vec::new();
    for project in projects {
        let groups = read.summary(project, grouping, from, until).await;
        let assets = match grouping {
            Grouping::Project => Some(read.assets(project).await.map_err(read_failed)?),
            Grouping::Agent | Grouping::Key => None,
        };
        let groups = groups.map_err(read_failed)?;
        data.extend(
            groups
                .iter()
                .map(|(group, summary)| row(project, *group, assets, summary)),
        );
    }
    Reply::ok(&SummaryJson { data, has_more })
}

/// The Projects of the page, archived ones too; or the one that is named.
async fn projects(call: &Call, query: &Query) -> Result<(Vec<ProjectId>, bool), ApiError> {
    let limit = limit(query, LIMIT)?;
    let order = match query.get("order").map(String::as_str) {
        None | Some("desc") => Order::Descending,
        Some("asc") => Order::Ascending,
        Some(_) => return Err(AdminError::Request.into()),
    };
    if let Some(text) = query.get("project_id") {
        let id = text.parse().unwrap_or(ProjectId::NEVER);
        super::projects::existing(call, id).await?;
        return Ok((vec![id], false));
    }
    let after = query.get("after");
    let after = after.map(|text| text.parse().unwrap_or(ProjectId::NEVER).to_string());
    let list = List {
        after,
        limit,
        order,
    };
    let found = call.core.store.read().projects(&list).await;
    let found = found.map_err(|error| list_failed(error, AdminError::NotFound.into()))?;
    let ids = found.items.iter().map(|project| project.id).collect();
    Ok((ids, found.has_more))
}

fn row(project: ProjectId, group: Group, assets: Option<Assets>, summary: &Summary) -> RowJson {
    let total = summary.total();
    // Counts of Sessions stay far below what a double holds exactly.
    let ratio = (total > 0).then(|| summary.measured as f64 / total as f64);
    RowJson {
        project_id: project.to_string(),
        agent_id: group.agent.map(|id| id.to_string()),
        key_id: group.key.map(|id| id.to_string()),
        assets: assets.map(|assets| AssetsJson {
            agents: assets.agents,
            environment_templates: assets.environment_templates,
            files: assets.files,
            skills: assets.skills,
            vaults: assets.vaults,
        }),
        sessions: SessionsJson {
            total,
            idle: summary.idle,
            in_progress: summary.in_progress,
            requires_action: summary.requires_action,
            failed: summary.failed,
        },
        usage: usage(summary.usage),
        coverage: CoverageJson {
            measured_sessions: summary.measured,
            total_sessions: total,
            ratio,
        },
        last_active_at: summary.last_active_at.map(rfc3339),
    }
}
