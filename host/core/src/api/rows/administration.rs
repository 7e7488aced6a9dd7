//! `/core/v1`: what an operator may read, name and delete.

use super::{CLAMPED, SESSIONS, STRICT, handler};
use crate::api::route::{BodyRule, Handler, Route, Space, Verb};
use crate::api::{admin, history, sessions};

/// The rows.
pub(super) fn rows() -> Vec<Route> {
    use Verb::{Delete, Get, Post, Put};
    use admin::{
        archives, diagnostics, installation, models, plugins, projects, provider, records, summary,
    };
    let row = |verb, path, shapes, handler| Route::new(verb, path, Space::Admin, shapes, handler);
    const PROVIDER: &str = "/core/v1/sandbox-provider";
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
            "/core/v1/projects/{project_id}/sessions/{session_id}/archive",
            ("", "SessionArchive"),
            handler!(archives::read),
        ),
        row(
            Post,
            "/core/v1/projects/{project_id}/sessions/{session_id}/archive",
            ("SessionArchive", "SessionArchive"),
            handler!(archives::archive),
        ),
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
            "/core/v1/projects/{project_id}/write-operations",
            ("", "WriteOperations"),
            handler!(records::write_operations),
        ),
        row(
            Get,
            "/core/v1/projects/{project_id}/resource-owners",
            ("", "ResourceOwners"),
            handler!(records::resource_owners),
        ),
        row(
            Get,
            "/core/v1/summary",
            ("", "Summary"),
            handler!(summary::read),
        ),
        row(
            Get,
            "/core/v1/installation",
            ("", "Installation"),
            handler!(installation::read),
        ),
        row(
            Get,
            "/core/v1/audit-log",
            ("", "AuditLog"),
            handler!(records::audit_log),
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
        row(
            Get,
            PROVIDER,
            ("", "SandboxProvider"),
            handler!(provider::read),
        ),
        row(
            Put,
            PROVIDER,
            ("SandboxProvider", "SandboxProvider"),
            handler!(provider::set),
        ),
        row(
            Get,
            "/core/v1/plugins",
            ("", "Plugins"),
            handler!(plugins::list),
        ),
        row(
            Post,
            "/core/v1/plugins/reload",
            ("", "Plugins"),
            handler!(plugins::reload),
        )
        .body(BodyRule::Ignored),
    ]
}
