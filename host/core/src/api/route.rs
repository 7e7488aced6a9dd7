//! The route table: one row per operation is the only way to register one. Routing, `Allow`, `HEAD`, the order of checks and
//! the authorisation tests are all derived from it.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;

use super::call::{Call, Reply};
use super::error::ApiError;
use super::query::ListRule;

/// Answers an admitted request.
pub(crate) type Handler = fn(Call) -> BoxFuture<'static, Result<Reply, ApiError>>;

/// Methods that rows may have, in the order of `Allow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    /// Reads; answers `HEAD` too unless the row says otherwise.
    Get,
    /// Creates and updates.
    Post,
    /// Replaces (administration only).
    Put,
    /// Deletes.
    Delete,
}

impl Verb {
    /// The HTTP method.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// Whose credentials a route takes (W-ROUTE-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    /// `/v1`: a Project API key, and the Beta header where `beta`.
    Public {
        /// Needs `OpenAI-Beta: agents=v1`.
        beta: bool,
    },
    /// `/core/v1`: a Core key.
    Admin,
    /// `/api/v1`: the handler checks the machine's own credential.
    Machine,
    /// Process health: nobody is asked.
    Open,
}

/// What a route reads of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyRule {
    /// Nothing; a body is left unread.
    Ignored,
    /// Nothing; a body is refused (E400-49).
    Refused,
    /// One JSON object through the gate, of at most so many bytes.
    Json(usize),
    /// Whatever the handler makes of it.
    Own,
}

/// What `HEAD` does on a `GET` row (W-PATH-7, W-PATH-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// Runs the whole `GET` and sends no body.
    Mirrors,
    /// 405.
    Refused,
}

/// One operation.
pub(crate) struct Route {
    /// Method.
    pub verb: Verb,
    /// Path with `{parameters}`.
    pub path: &'static str,
    /// Credentials.
    pub space: Space,
    /// Body.
    pub body: BodyRule,
    /// Query of a list.
    pub list: Option<ListRule>,
    /// The handler reads that query itself, after it looked up the parent (W-ORDER-5).
    pub late_query: bool,
    /// `HEAD`.
    pub head: Head,
    /// Names of the request and response shapes (api-surface), for generated documents.
    pub shapes: (&'static str, &'static str),
    /// Answers it.
    pub handler: Handler,
}

/// Body limit where nothing else is said (W-BODY-2).
pub(crate) const BODY: usize = 1024 * 1024;
/// Body limit of Session create (W-BODY-2).
pub(crate) const LARGE_BODY: usize = 16 * 1024 * 1024;

impl Route {
    pub(crate) const fn new(
        verb: Verb,
        path: &'static str,
        space: Space,
        shapes: (&'static str, &'static str),
        handler: Handler,
    ) -> Self {
        let body = match verb {
            Verb::Post | Verb::Put => BodyRule::Json(BODY),
            Verb::Get | Verb::Delete => BodyRule::Ignored,
        };
        Self {
            verb,
            path,
            space,
            body,
            list: None,
            late_query: false,
            head: Head::Mirrors,
            shapes,
            handler,
        }
    }

    /// Takes a body of another size, or none.
    pub(crate) const fn body(mut self, body: BodyRule) -> Self {
        self.body = body;
        self
    }

    /// Is a list.
    pub(crate) const fn list(mut self, rule: ListRule) -> Self {
        self.list = Some(rule);
        self
    }

    /// Is a list whose parent comes before its query.
    pub(crate) const fn late_list(mut self, rule: ListRule) -> Self {
        self.list = Some(rule);
        self.late_query = true;
        self
    }

    /// Makes a resource of its own, under an `Idempotency-Key` if there is one (`wire.md` 10).
    pub(crate) fn creates(&self) -> bool {
        let shape = self.shapes.0;
        matches!(self.space, Space::Public { .. })
            && self.verb == Verb::Post
            && (shape.ends_with("Create") || shape.ends_with("Upload"))
            && shape != "EventsCreate"
    }

    /// Has no `HEAD`.
    pub(crate) const fn without_head(mut self) -> Self {
        self.head = Head::Refused;
        self
    }
}

/// The table, compiled for look-up by canonical path.
pub(crate) struct Table {
    rows: Vec<Route>,
    paths: matchit::Router<Vec<usize>>,
}

/// A known path.
pub(crate) struct Known<'t> {
    rows: Vec<&'t Route>,
    params: Vec<(String, String)>,
}

impl Table {
    /// Compiles rows; `reserved` paths are known to have no operation although a parameter would match them.
    ///
    /// # Panics
    /// Two rows of one method and path, or paths that exclude each other: a mistake of whoever wrote the table, found by
    /// its first test.
    pub(crate) fn new(rows: Vec<Route>, reserved: &[&'static str]) -> Self {
        let mut by_path: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
        for (index, row) in rows.iter().enumerate() {
            by_path.entry(row.path).or_default().push(index);
        }
        for path in reserved {
            by_path.entry(path).or_default();
        }
        let mut paths = matchit::Router::new();
        for (path, mut indices) in by_path {
            indices.sort_by_key(|index| rows[*index].verb);
            #[allow(
                clippy::expect_used,
                reason = "the table is a constant; see the comment above"
            )]
            paths
                .insert(path, indices)
                .expect("paths of the route table exclude each other");
        }
        Self { rows, paths }
    }

    /// Every row.
    pub(crate) fn rows(&self) -> &[Route] {
        &self.rows
    }

    /// The operations of a canonical path; `None` = unknown.
    pub(crate) fn find(&self, path: &str) -> Option<Known<'_>> {
        let found = self.paths.at(path).ok()?;
        if found.value.is_empty() {
            return None;
        }
        let rows = found.value.iter().map(|index| &self.rows[*index]).collect();
        let params = found
            .params
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Some(Known { rows, params })
    }
}

impl<'t> Known<'t> {
    /// The row for a method, or the value of `Allow` (W-PATH-5).
    pub(crate) fn row(&self, method: &axum::http::Method) -> Result<&'t Route, String> {
        let is_head = method == axum::http::Method::HEAD;
        let name = if is_head {
            Verb::Get.name()
        } else {
            method.as_str()
        };
        let row = self.rows.iter().find(|row| row.verb.name() == name);
        row.copied()
            .filter(|row| !is_head || row.head == Head::Mirrors)
            .ok_or_else(|| self.allow())
    }

    fn allow(&self) -> String {
        let mut methods = Vec::new();
        for row in &self.rows {
            methods.push(row.verb.name());
            if row.verb == Verb::Get && row.head == Head::Mirrors {
                methods.push("HEAD");
            }
        }
        methods.join(",")
    }

    /// Whose credentials its operations take; all operations of a path take the same.
    pub(crate) fn space(&self) -> Space {
        self.rows.first().map_or(Space::Open, |row| row.space)
    }

    /// Path parameters, still percent-encoded where an escape is no unreserved character.
    pub(crate) fn into_params(self) -> Vec<(String, String)> {
        self.params
    }
}
