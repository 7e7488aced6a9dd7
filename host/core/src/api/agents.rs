//! Saved Agents (sessions 1): create, read, list, update, delete.

use axum::http::StatusCode;
use domain::agent::{self, AgentConfiguration, AgentExtension, AgentPatch, AgentShape, SavedAgent};
use domain::invalid::{Invalid, Path};
use domain::json::{Field, Json};
use domain::metadata::Metadata;
use domain::{AgentId, Timestamp};
use store::agents::{CreateAgent, DeleteAgent, UpdateAgent};

use super::call::{Call, Reply};
use super::error::ApiError;
use super::failure::{read_failed, write_failed};
use super::idempotency;
use super::lists::{list as store_list, list_failed};
use super::render::{self, Deleted, List};

/// `POST /agents`
pub(crate) async fn create(call: Call) -> Result<Reply, ApiError> {
    let mut patch = call.read(|json| parse(json, AgentShape::Create))?;
    check_extension(&call, &patch)?;
    let key = patch.provider_key().map(domain::Secret::expose);
    let retry = idempotency::retry(&call, &patch, &[key.unwrap_or_default()])?;
    let project = call.project()?;
    let (extension, provider_key) =
        AgentExtension::from_patch(std::mem::take(&mut patch.extension));
    // The unit replaces both times by the database clock.
    let unset = Timestamp::from_millis(0);
    let agent = SavedAgent {
        id: AgentId::new(uuid::Uuid::new_v4()),
        created_at: unset,
        updated_at: unset,
        name: std::mem::take(&mut patch.name).value(),
        metadata: std::mem::take(&mut patch.metadata)
            .value()
            .unwrap_or_default(),
        configuration: {
            let model = patch.model.clone().unwrap_or_default();
            AgentConfiguration::from_patch(patch, model)
        },
        extension,
    };
    let unit = CreateAgent {
        project,
        agent,
        provider_key,
        provenance: call.provenance(),
    };
    let agent = idempotency::write(&call, unit, retry).await?;
    Reply::json(StatusCode::CREATED, &render::agent::saved(&agent))
}

/// `GET /agents/{agent_id}`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    let found = call
        .core
        .store
        .read()
        .agent(call.scope()?, call.id("agent_id"))
        .await;
    let agent = found.map_err(read_failed)?.ok_or(ApiError::NotFound)?;
    Reply::ok(&render::agent::saved(&agent))
}

/// `GET /agents`
pub(crate) async fn list(call: Call) -> Result<Reply, ApiError> {
    let page = store_list(&call.page, AgentId::NEVER);
    let found = call.core.store.read().agents(call.scope()?, &page).await;
    let found = found.map_err(|error| list_failed(error, ApiError::NotFound))?;
    let shown = found
        .items
        .iter()
        .map(|agent| (agent.id.to_string(), render::agent::saved(agent)))
        .collect();
    Reply::ok(&List::new(shown, found.has_more))
}

/// `POST /agents/{agent_id}`
pub(crate) async fn update(call: Call) -> Result<Reply, ApiError> {
    let patch = call.read(|json| parse(json, AgentShape::Update))?;
    check_extension(&call, &patch)?;
    let unit = UpdateAgent {
        project: call.project()?,
        id: call.id("agent_id"),
        patch,
        provenance: call.provenance(),
    };
    let agent = call.core.store.write(unit).await.map_err(write_failed)?;
    Reply::ok(&render::agent::saved(&agent))
}

/// `DELETE /agents/{agent_id}`
pub(crate) async fn delete(call: Call) -> Result<Reply, ApiError> {
    let id: AgentId = call.id("agent_id");
    let unit = DeleteAgent {
        project: call.scope()?,
        id,
        by: call.author()?,
    };
    call.core.store.write(unit).await.map_err(write_failed)?;
    Reply::ok(&Deleted::new(id, "agent.deleted"))
}

fn parse(json: Json<'_>, shape: AgentShape) -> Result<AgentPatch, Invalid> {
    Metadata::check_values(json)?;
    agent::parse(json, &Path::root(), shape)
}

/// The harness exists and is enabled (SLC-002, SLC-005); the provider's content is acceptable (S-ADM-4). What the harness
/// makes of them is decided when a Session is created.
fn check_extension(call: &Call, patch: &AgentPatch) -> Result<(), ApiError> {
    let Field::Value(extension) = &patch.extension else {
        return Ok(());
    };
    let path = Path::root().member("x_agents_core");
    if let Field::Value(harness) = &extension.harness {
        call.core
            .harnesses
            .select(harness, &path.member("harness"))?;
    }
    if let Field::Value(bundle) = &extension.model_provider {
        bundle.check(
            &path.member("model_provider"),
            call.core.allow_loopback_model_urls,
        )?;
    }
    Ok(())
}
