//! Sessions (sessions 2, api-surface 5): what never changes, and the projection of one moment.

use domain::configuration::SessionConfiguration;
use domain::metadata::Metadata;
use domain::session::{Projection, RequiredAction, Session, SessionStatus};
use domain::{EnvironmentId, SessionId, Timestamp};
use serde::Serialize;

use super::Loose;
use super::agent::{self, ExtensionJson, SessionAgentJson};
use super::environment::{self, SessionEnvironmentJson};
use super::turn::{self, UsageJson};

/// What is the same in every representation of a Session, however old.
#[derive(Debug, Clone)]
pub(crate) struct SessionBase {
    /// The Session.
    pub id: SessionId,
    /// Creation.
    pub created_at: Timestamp,
    /// Attached Vaults.
    pub vault_ids: Vec<String>,
    /// What it was created with.
    pub configuration: SessionConfiguration,
    /// Its Environment, if it has one.
    pub environment: Option<EnvironmentId>,
}

impl SessionBase {
    /// From the rows of a Session.
    pub(crate) fn new(
        session: &Session,
        configuration: SessionConfiguration,
        environment: Option<EnvironmentId>,
    ) -> Self {
        let vault_ids = session.vault_ids.iter().map(ToString::to_string).collect();
        Self {
            id: session.id,
            created_at: session.created_at,
            vault_ids,
            configuration,
            environment,
        }
    }
}

/// A Session at one moment.
#[derive(Serialize)]
pub(crate) struct SessionJson<'a> {
    id: String,
    object: &'static str,
    created_at: i64,
    last_active_at: i64,
    status: SessionStatus,
    agent: SessionAgentJson<'a>,
    environment: SessionEnvironmentJson<'a>,
    error: Option<&'a str>,
    metadata: &'a Metadata,
    required_actions: Vec<ActionJson<'a>>,
    usage: Option<UsageJson>,
    vault_ids: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    x_agents_core: Option<ExtensionJson<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ActionJson<'a> {
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        turn_id: String,
        arguments: Loose<'a>,
    },
    EnvironmentConnection {
        environment_id: String,
    },
}

/// Shows a Session.
pub(crate) fn session<'a>(
    base: &'a SessionBase,
    now: &'a Projection,
    metadata: &'a Metadata,
) -> SessionJson<'a> {
    SessionJson {
        id: base.id.to_string(),
        object: "agent.session",
        created_at: base.created_at.seconds(),
        last_active_at: now.last_active_at.seconds(),
        status: now.status,
        agent: agent::of_session(&base.configuration),
        environment: environment::of_session(&base.configuration.environment, base.environment),
        error: now.error.as_deref(),
        metadata,
        required_actions: now.required_actions.iter().map(action).collect(),
        usage: now.usage.map(turn::usage),
        vault_ids: &base.vault_ids,
        x_agents_core: agent::session_extension(&base.configuration),
    }
}

fn action(action: &RequiredAction) -> ActionJson<'_> {
    match action {
        RequiredAction::FunctionCall {
            turn_id,
            call_id,
            name,
            arguments,
        } => ActionJson::FunctionCall {
            call_id: &call_id.0,
            name,
            turn_id: turn_id.to_string(),
            arguments: Loose(arguments),
        },
        RequiredAction::EnvironmentConnection { environment_id } => {
            ActionJson::EnvironmentConnection {
                environment_id: environment_id.to_string(),
            }
        }
    }
}
