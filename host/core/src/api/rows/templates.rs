//! Environment Templates.

use super::{CLAMPED, PUBLIC, handler};
use crate::api::route::{BodyRule, Handler, LARGE_BODY, Route, Verb};
use crate::api::templates;

/// The rows.
pub(super) fn rows() -> Vec<Route> {
    use Verb::{Delete, Get, Post};
    const LIST: &str = "/v1/agents/environments/templates";
    const ONE: &str = "/v1/agents/environments/templates/{environment_template_id}";
    let row = |verb, path, shapes, handler| Route::new(verb, path, PUBLIC, shapes, handler);
    vec![
        row(Get, LIST, ("", "L(Template)"), handler!(templates::list)).list(CLAMPED),
        row(
            Post,
            LIST,
            ("TemplateCreate", "Template"),
            handler!(templates::create),
        )
        .body(BodyRule::Json(LARGE_BODY)),
        row(Get, ONE, ("", "Template"), handler!(templates::read)),
        row(
            Post,
            ONE,
            ("TemplateUpdate", "Template"),
            handler!(templates::update),
        )
        .body(BodyRule::Json(LARGE_BODY)),
        row(Delete, ONE, ("", "Deleted"), handler!(templates::delete)),
    ]
}
