//! `/core/v1/projects/{project_id}/…`: a Project's resources as an operator reads and deletes them. Same handlers, objects,
//! pages and errors as under `/v1` (OPS-040, OPS-041); the deletions are audited (OPS-068).

use super::library::{FILES, SKILLS};
use super::vaults::VAULTS;
use super::{ARTIFACTS, CLAMPED, handler};
use crate::api::query::ListRule;
use crate::api::route::{Handler, Route, Space, Verb};
use crate::api::{agents, artifacts, files, skills, templates, vaults};

/// The rows.
pub(super) fn rows() -> Vec<Route> {
    use Verb::{Delete, Get};
    macro_rules! below {
        ($path:literal) => {
            concat!("/core/v1/projects/{project_id}", $path)
        };
    }
    let row =
        |verb, path, shape, handler| Route::new(verb, path, Space::Admin, ("", shape), handler);
    let list = |path, shape, rule: ListRule, handler| row(Get, path, shape, handler).list(rule);
    let bytes = |path, handler| row(Get, path, "bytes", handler).without_head();
    let delete = |path, handler| row(Delete, path, "Deleted", handler);
    vec![
        list(
            below!("/agents"),
            "L(Agent)",
            CLAMPED,
            handler!(agents::list),
        ),
        row(
            Get,
            below!("/agents/{agent_id}"),
            "Agent",
            handler!(agents::read),
        ),
        delete(below!("/agents/{agent_id}"), handler!(agents::delete)),
        list(
            below!("/environment-templates"),
            "L(Template)",
            CLAMPED,
            handler!(templates::list),
        ),
        row(
            Get,
            below!("/environment-templates/{environment_template_id}"),
            "Template",
            handler!(templates::read),
        ),
        delete(
            below!("/environment-templates/{environment_template_id}"),
            handler!(templates::delete),
        ),
        list(below!("/files"), "L(File)", FILES, handler!(files::list)),
        row(
            Get,
            below!("/files/{file_id}"),
            "File",
            handler!(files::read),
        ),
        delete(below!("/files/{file_id}"), handler!(files::delete)),
        list(
            below!("/skills"),
            "L(Skill)",
            SKILLS,
            handler!(skills::list),
        ),
        row(
            Get,
            below!("/skills/{skill_id}"),
            "Skill",
            handler!(skills::read),
        ),
        delete(below!("/skills/{skill_id}"), handler!(skills::delete)),
        bytes(
            below!("/skills/{skill_id}/content"),
            handler!(skills::default_content),
        ),
        list(
            below!("/skills/{skill_id}/versions"),
            "L(SkillVersion)",
            SKILLS,
            handler!(skills::versions),
        ),
        row(
            Get,
            below!("/skills/{skill_id}/versions/{version}"),
            "SkillVersion",
            handler!(skills::version),
        ),
        row(
            Delete,
            below!("/skills/{skill_id}/versions/{version}"),
            "DeletedSkillVersion",
            handler!(skills::delete_version),
        ),
        bytes(
            below!("/skills/{skill_id}/versions/{version}/content"),
            handler!(skills::version_content),
        ),
        list(
            below!("/vaults"),
            "L(Vault)",
            VAULTS,
            handler!(vaults::list),
        ),
        row(
            Get,
            below!("/vaults/{vault_id}"),
            "Vault",
            handler!(vaults::read),
        ),
        delete(below!("/vaults/{vault_id}"), handler!(vaults::delete)),
        list(
            below!("/vaults/{vault_id}/credentials"),
            "L(Credential)",
            VAULTS,
            handler!(vaults::list_credentials),
        ),
        row(
            Get,
            below!("/vaults/{vault_id}/credentials/{credential_id}"),
            "Credential",
            handler!(vaults::read_credential),
        ),
        delete(
            below!("/vaults/{vault_id}/credentials/{credential_id}"),
            handler!(vaults::delete_credential),
        ),
        row(
            Get,
            below!("/sessions/{session_id}/artifacts"),
            "L(Artifact)",
            handler!(artifacts::list),
        )
        .late_list(ARTIFACTS),
        row(
            Get,
            below!("/sessions/{session_id}/artifacts/{artifact_id}"),
            "Artifact",
            handler!(artifacts::read),
        ),
        delete(
            below!("/sessions/{session_id}/artifacts/{artifact_id}"),
            handler!(artifacts::delete),
        ),
        bytes(
            below!("/sessions/{session_id}/artifacts/{artifact_id}/content"),
            handler!(artifacts::download),
        ),
    ]
}
