//! The rows of the route table: what exists, and nothing else (W-ROUTE-1).

use super::query::{Limits, ListRule};
use super::route::{BodyRule, Handler, LARGE_BODY, Route, Space, Table, Verb};
use crate::gateway::routes;

use super::{admin, agents, events, health, history, sessions};

const PUBLIC: Space = Space::Public { beta: true };
const CLAMPED: ListRule = ListRule {
    limits: Limits::Clamped,
    filters: &[],
};
const STRICT: ListRule = ListRule {
    limits: Limits::Strict,
    filters: &[],
};
const SESSIONS: ListRule = ListRule {
    limits: Limits::Clamped,
    filters: &["agent_id"],
};

/// Paths of operations that this service does not have although a parameter would match them: they are unknown (W-PATH-6).
const RESERVED: &[&str] = &[
    "/v1/agents/environments",
    "/v1/agents/environments/templates",
];

macro_rules! handler {
    ($($path:ident)::+) => {{
        let handler: Handler = |call| Box::pin($($path)::+(call));
        handler
    }};
}

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
    rows.extend(administration());
    rows.extend(machines());
    rows.push(Route::new(
        Verb::Get,
        "/healthz",
        Space::Open,
        ("", "Health"),
        handler!(health::alive),
    ));
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

fn administration() -> Vec<Route> {
    use Verb::{Delete, Get, Post, Put};
    use admin::{diagnostics, models, projects};
    let row = |verb, path, shapes, handler| Route::new(verb, path, Space::Admin, shapes, handler);
    const MODEL: &str = "/core/v1/harnesses/{harness_id}/model-configuration";
    vec![
        row(
            Get,
            "/core/v1/projects",
            ("", "Projects"),
            handler!(projects::list),
        )
        .list(STRICT),
        row(
            Post,
            "/core/v1/projects",
            ("Name", "Project"),
            handler!(projects::create),
        ),
        row(
            Post,
            "/core/v1/projects/{project_id}",
            ("Name", "Project"),
            handler!(projects::rename),
        ),
        row(
            Post,
            "/core/v1/projects/{project_id}/archive",
            ("", "Project"),
            handler!(projects::archive),
        )
        .body(BodyRule::Ignored),
        row(
            Get,
            "/core/v1/projects/{project_id}/keys",
            ("", "Keys"),
            handler!(projects::keys),
        )
        .list(STRICT),
        row(
            Post,
            "/core/v1/projects/{project_id}/keys",
            ("Name", "IssuedKey"),
            handler!(projects::issue),
        ),
        row(
            Delete,
            "/core/v1/projects/{project_id}/keys/{key_id}",
            ("", "RevokedKey"),
            handler!(projects::revoke),
        ),
        row(
            Get,
            "/core/v1/projects/{project_id}/sessions",
            ("", "L(Session)"),
            handler!(sessions::list),
        )
        .list(SESSIONS),
        row(
            Get,
            "/core/v1/projects/{project_id}/sessions/{session_id}",
            ("", "Session"),
            handler!(sessions::read),
        ),
        row(
            Delete,
            "/core/v1/projects/{project_id}/sessions/{session_id}",
            ("", "Deleted"),
            handler!(sessions::delete),
        ),
        row(
            Get,
            "/core/v1/projects/{project_id}/sessions/{session_id}/turns",
            ("", "L(Turn)"),
            handler!(history::turns),
        )
        .list(STRICT),
        row(
            Get,
            "/core/v1/projects/{project_id}/sessions/{session_id}/turns/{turn_id}",
            ("", "Turn"),
            handler!(history::turn),
        ),
        row(
            Get,
            "/core/v1/projects/{project_id}/sessions/{session_id}/items",
            ("", "L(Item)"),
            handler!(history::items),
        )
        .list(CLAMPED),
        row(
            Get,
            "/core/v1/projects/{project_id}/sessions/{session_id}/diagnostics",
            ("", "SessionDiagnostics"),
            handler!(diagnostics::session),
        ),
        row(
            Get,
            "/core/v1/projects/{project_id}/sessions/{session_id}/turns/{turn_id}/diagnostics",
            ("", "TurnDiagnostics"),
            handler!(diagnostics::turn),
        ),
        row(
            Get,
            "/core/v1/harnesses",
            ("", "Harnesses"),
            handler!(models::list),
        ),
        row(
            Get,
            MODEL,
            ("", "ModelConfiguration"),
            handler!(models::read),
        ),
        row(
            Put,
            MODEL,
            ("ModelConfiguration", "ModelConfiguration"),
            handler!(models::set),
        ),
        row(Delete, MODEL, ("", ""), handler!(models::clear)),
    ]
}
