//! The rows of the route table: what exists, and nothing else (W-ROUTE-1).

use super::query::{Limits, ListRule};
use super::route::{BodyRule, Handler, LARGE_BODY, Route, Space, Table, Verb};
use crate::gateway::routes;

use super::{agents, artifacts, events, health, history, openapi, sessions, subagents};

const PUBLIC: Space = Space::Public { beta: true };
const CLAMPED: ListRule = ListRule::new(Limits::Clamped);
const STRICT: ListRule = ListRule::new(Limits::Strict);
const SESSIONS: ListRule = ListRule {
    filters: &["agent_id"],
    ..ListRule::new(Limits::Clamped)
};
/// Read by its handler: the Session comes before the query (W-ORDER-5).
pub(super) const ARTIFACTS: ListRule = ListRule {
    filters: &["environment_id"],
    ..ListRule::new(Limits::Strict)
};

/// Paths of operations that this service does not have although a parameter would match them: they are unknown (W-PATH-6).
const RESERVED: &[&str] = &["/v1/agents/environments"];

mod administration;
mod library;
mod resources;
mod templates;
mod vaults;

macro_rules! handler {
    ($($path:ident)::+) => {{
        let handler: Handler = |call| Box::pin($($path)::+(call));
        handler
    }};
}
use handler;

/// One operation, for generated documents: method, path, request and response shape (api-surface names).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// HTTP method.
    pub method: &'static str,
    /// Path with `{parameters}`.
    pub path: &'static str,
    /// Needs `OpenAI-Beta: agents=v1`.
    pub beta: bool,
    /// Shape of the request body; empty = none.
    pub request: &'static str,
    /// Shape of the response body; empty = none.
    pub response: &'static str,
}

/// Every operation of this service.
pub fn operations() -> Vec<Operation> {
    let operation = |row: &Route| Operation {
        method: row.verb.name(),
        path: row.path,
        beta: row.space == (Space::Public { beta: true }),
        request: row.shapes.0,
        response: row.shapes.1,
    };
    table().rows().iter().map(operation).collect()
}

/// Compiles the table.
pub(super) fn table() -> Table {
    let mut rows = public();
    rows.extend(templates::rows());
    rows.extend(vaults::rows());
    rows.extend(library::rows());
    rows.extend(administration::rows());
    rows.extend(resources::rows());
    rows.extend(machines());
    rows.push(Route::new(
        Verb::Get,
        "/healthz",
        Space::Open,
        ("", "Health"),
        handler!(health::alive),
    ));
    let open =
        |path, shape, handler| Route::new(Verb::Get, path, Space::Open, ("", shape), handler);
    rows.push(open(
        "/openapi.json",
        "OpenApi",
        handler!(openapi::document),
    ));
    rows.push(open("/docs", "Html", handler!(openapi::page)));
    Table::new(rows, RESERVED)
}

fn public() -> Vec<Route> {
    use Verb::{Delete, Get, Post};
    let row = |verb, path, shapes, handler| Route::new(verb, path, PUBLIC, shapes, handler);
    vec![
        row(Get, "/v1/agents", ("", "L(Agent)"), handler!(agents::list)).list(CLAMPED),
        row(
            Post,
            "/v1/agents",
            ("AgentCreate", "Agent"),
            handler!(agents::create),
        ),
        row(
            Get,
            "/v1/agents/{agent_id}",
            ("", "Agent"),
            handler!(agents::read),
        ),
        row(
            Post,
            "/v1/agents/{agent_id}",
            ("AgentUpdate", "Agent"),
            handler!(agents::update),
        ),
        row(
            Delete,
            "/v1/agents/{agent_id}",
            ("", "Deleted"),
            handler!(agents::delete),
        ),
        row(
            Get,
            "/v1/agents/sessions",
            ("", "L(Session)"),
            handler!(sessions::list),
        )
        .list(SESSIONS),
        row(
            Post,
            "/v1/agents/sessions",
            ("SessionCreate", "Session"),
            handler!(sessions::create),
        )
        .body(BodyRule::Json(LARGE_BODY)),
        row(
            Get,
            "/v1/agents/sessions/{session_id}",
            ("", "Session"),
            handler!(sessions::read),
        ),
        row(
            Post,
            "/v1/agents/sessions/{session_id}",
            ("SessionUpdate", "Session"),
            handler!(sessions::update),
        ),
        row(
            Delete,
            "/v1/agents/sessions/{session_id}",
            ("", "Deleted"),
            handler!(sessions::delete),
        ),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/events",
            ("", "SSE"),
            handler!(sessions::follow),
        )
        .without_head(),
        row(
            Post,
            "/v1/agents/sessions/{session_id}/events",
            ("EventsCreate", ""),
            handler!(events::submit),
        ),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/turns",
            ("", "L(Turn)"),
            handler!(history::turns),
        )
        .list(STRICT),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/turns/{turn_id}",
            ("", "Turn"),
            handler!(history::turn),
        ),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/items",
            ("", "L(Item)"),
            handler!(history::items),
        )
        .list(CLAMPED),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/artifacts",
            ("", "L(Artifact)"),
            handler!(artifacts::list),
        )
        .late_list(ARTIFACTS),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/artifacts/{artifact_id}",
            ("", "Artifact"),
            handler!(artifacts::read),
        ),
        row(
            Delete,
            "/v1/agents/sessions/{session_id}/artifacts/{artifact_id}",
            ("", "Deleted"),
            handler!(artifacts::delete),
        ),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/artifacts/{artifact_id}/content",
            ("", "bytes"),
            handler!(artifacts::download),
        )
        .without_head(),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/subagents",
            ("", "L(Subagent)"),
            handler!(subagents::list),
        )
        .list(STRICT),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/subagents/{subagent_id}",
            ("", "Subagent"),
            handler!(subagents::read),
        ),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/subagents/{subagent_id}/items",
            ("", "L(Item)"),
            handler!(subagents::read),
        )
        .list(CLAMPED),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/subagents/{subagent_id}/turns",
            ("", "L(Turn)"),
            handler!(subagents::read),
        )
        .list(STRICT),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/subagents/{subagent_id}/turns/{turn_id}",
            ("", "Turn"),
            handler!(subagents::read),
        ),
        row(
            Get,
            "/v1/agents/sessions/{session_id}/subagents/{subagent_id}/turns/{turn_id}/items",
            ("", "L(Item)"),
            handler!(subagents::read),
        )
        .list(CLAMPED),
        row(
            Get,
            "/v1/agents/environments/{environment_id}",
            ("", "EnvironmentInfo"),
            handler!(history::environment),
        ),
    ]
}

fn machines() -> Vec<Route> {
    use Verb::{Get, Post};
    let row = |verb, path, shapes, handler| Route::new(verb, path, Space::Machine, shapes, handler);
    vec![
        row(
            Post,
            "/api/v1/agent-daemon/bootstrap",
            ("DaemonBootstrap", "DaemonConnection"),
            handler!(routes::bootstrap),
        ),
        row(
            Get,
            "/api/v1/agent-daemon/device-status",
            ("", "DeviceStatus"),
            handler!(routes::status),
        )
        .without_head(),
        row(
            Get,
            routes::SOCKET,
            ("", "WebSocket"),
            handler!(routes::socket),
        )
        .without_head(),
    ]
}
