//! Files and Skills: no Beta header, forms instead of JSON, and words of their own.

use super::handler;
use crate::api::query::{Limits, ListRule};
use crate::api::route::{BodyRule, Handler, Route, Space, Verb};
use crate::api::{files, skills};

const LIBRARY: Space = Space::Public { beta: false };
pub(super) const FILES: ListRule = ListRule {
    filters: &["purpose"],
    ..ListRule::new(Limits::Files)
};
pub(super) const SKILLS: ListRule = ListRule::new(Limits::Skills);

/// The rows.
pub(super) fn rows() -> Vec<Route> {
    use Verb::{Delete, Get, Post};
    let row = |verb, path, shapes, handler| {
        let row = Route::new(verb, path, LIBRARY, shapes, handler);
        match verb {
            Get => row,
            Delete => row.body(BodyRule::Refused),
            _ => row.body(BodyRule::Own),
        }
    };
    vec![
        row(Get, "/v1/files", ("", "L(File)"), handler!(files::list)).list(FILES),
        row(
            Post,
            "/v1/files",
            ("FileUpload", "File"),
            handler!(files::create),
        ),
        row(
            Get,
            "/v1/files/{file_id}",
            ("", "File"),
            handler!(files::read),
        ),
        row(
            Delete,
            "/v1/files/{file_id}",
            ("", "Deleted"),
            handler!(files::delete),
        ),
        row(
            Get,
            "/v1/files/{file_id}/content",
            ("", "bytes"),
            handler!(files::content),
        )
        .without_head(),
        row(Get, "/v1/skills", ("", "L(Skill)"), handler!(skills::list)).list(SKILLS),
        row(
            Post,
            "/v1/skills",
            ("SkillUpload", "Skill"),
            handler!(skills::create),
        ),
        row(
            Get,
            "/v1/skills/{skill_id}",
            ("", "Skill"),
            handler!(skills::read),
        ),
        row(
            Post,
            "/v1/skills/{skill_id}",
            ("SkillUpdate", "Skill"),
            handler!(skills::update),
        ),
        row(
            Delete,
            "/v1/skills/{skill_id}",
            ("", "Deleted"),
            handler!(skills::delete),
        ),
        row(
            Get,
            "/v1/skills/{skill_id}/content",
            ("", "bytes"),
            handler!(skills::default_content),
        )
        .without_head(),
        row(
            Get,
            "/v1/skills/{skill_id}/versions",
            ("", "L(SkillVersion)"),
            handler!(skills::versions),
        )
        .list(SKILLS),
        row(
            Post,
            "/v1/skills/{skill_id}/versions",
            ("SkillVersionUpload", "SkillVersion"),
            handler!(skills::upload),
        ),
        row(
            Get,
            "/v1/skills/{skill_id}/versions/{version}",
            ("", "SkillVersion"),
            handler!(skills::version),
        ),
        row(
            Delete,
            "/v1/skills/{skill_id}/versions/{version}",
            ("", "DeletedSkillVersion"),
            handler!(skills::delete_version),
        ),
        row(
            Get,
            "/v1/skills/{skill_id}/versions/{version}/content",
            ("", "bytes"),
            handler!(skills::version_content),
        )
        .without_head(),
    ]
}
