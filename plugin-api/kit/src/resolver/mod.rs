//! MCP resolvers: a pure function, judged by what it may never do, and by fixtures.

use std::path::Path;

use contract::McpResolver;
use contract::common::Extra;
use contract::mcp_types::{
    Authority, DeclaredHttp, DeclaredServer, DeclaredTransport, McpBinding, Origin, Refusal,
    ResolveRequest, Transport,
};
use serde::Deserialize;

use crate::{Error, Result, broken, ensure, is_code};

/// One request and its whole answer, as a JSON file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixture {
    /// Name of the file, without its ending.
    pub name: String,
    /// The rule that it shows.
    pub rule: String,
    /// What is asked.
    pub request: ResolveRequest,
    /// What must be answered.
    pub answer: std::result::Result<Vec<McpBinding>, Refusal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: String,
    request: ResolveRequest,
    bindings: Option<Vec<McpBinding>>,
    refusal: Option<Refusal>,
}

impl Fixture {
    /// All `.json` files of a folder, in the order of their names.
    ///
    /// # Errors
    /// One cannot be read, or has not exactly one answer.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>> {
        let unreadable = |what: String| Error {
            rule: "fixture",
            what,
        };
        let entries = std::fs::read_dir(folder).map_err(|error| unreadable(error.to_string()))?;
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
        paths.sort();
        let read = |path: &std::path::PathBuf| {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let text = std::fs::read_to_string(path)
                .map_err(|error| unreadable(format!("{name}: {error}")))?;
            let file: File = serde_json::from_str(&text)
                .map_err(|error| unreadable(format!("{name}: {error}")))?;
            let answer = match (file.bindings, file.refusal) {
                (Some(bindings), None) => Ok(bindings),
                (None, Some(refusal)) => Err(refusal),
                _ => return broken("fixture", format!("{name} has not exactly one answer")),
            };
            Ok(Self {
                name,
                rule: file.rule,
                request: file.request,
                answer,
            })
        };
        paths.iter().map(read).collect()
    }

    /// Compares the answer whole, and judges it.
    ///
    /// # Errors
    /// It is another one.
    pub fn check(&self, resolver: &dyn McpResolver) -> Result {
        let answer = judged(resolver, &self.request)?;
        ensure(answer == self.answer, "fixture", || {
            format!("{} ({}): {answer:?}", self.name, self.rule)
        })
    }
}

/// What no resolver may do, whatever it supports.
///
/// # Errors
/// The first rule that is broken.
pub fn suite(resolver: &dyn McpResolver) -> Result {
    let nothing = judged(resolver, &request(Vec::new()))?;
    ensure(nothing == Ok(Vec::new()), "ENV-580", || {
        format!("nothing declared gave {nothing:?}")
    })?;
    let plain = judged(resolver, &request(vec![server("one"), server("two")]))?;
    let labels = plain.map(|found| found.into_iter().map(|binding| binding.label).collect());
    ensure(
        labels == Ok(vec!["one".to_owned(), "two".to_owned()]),
        "ENV-590",
        || format!("two plain servers gave {labels:?}"),
    )?;
    refused(resolver, "ENV-571", vec![server("one"), server("one")])?;
    let mut unknown = server("one");
    unknown.origin = Origin::Other("later".to_owned());
    refused(resolver, "ENV-591", vec![unknown])?;
    let mut elsewhere = server("one");
    elsewhere.origin = Origin::Environment;
    refused(resolver, "ENV-592", vec![elsewhere])?;
    let mut later = server("one");
    later.transport = DeclaredTransport::Other(Extra {
        kind: "later".to_owned(),
        json: "{}".to_owned(),
    });
    refused(resolver, "ENV-602", vec![later])?;
    for (rule, url, credential) in [
        ("ENV-599", "https://mcp.example.com/", Some("missing")),
        ("ENV-602", "https://user@mcp.example.com/", None),
        ("ENV-602", "https://mcp.example.com/?q=1", None),
        ("ENV-602", "file:///etc/passwd", None),
        ("ENV-602", "", None),
    ] {
        let mut wrong = server("one");
        wrong.transport = http(url, credential);
        refused(resolver, rule, vec![wrong])?;
    }
    Ok(())
}

fn http(url: &str, credential: Option<&str>) -> DeclaredTransport {
    DeclaredTransport::Http(DeclaredHttp {
        url: url.to_owned(),
        credential: credential.map(str::to_owned),
    })
}

fn server(label: &str) -> DeclaredServer {
    DeclaredServer {
        label: label.to_owned(),
        transport: http("https://mcp.example.com/", None),
        origin: Origin::Service,
        allowed_tools: None,
        required: false,
    }
}

fn request(declared: Vec<DeclaredServer>) -> ResolveRequest {
    ResolveRequest {
        declared,
        plugins: Vec::new(),
        origins: vec![Origin::Service],
        variables: Vec::new(),
        credentials: vec!["present".to_owned()],
        abilities: super::harness::ABILITIES
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        host_features: Vec::new(),
    }
}

fn refused(
    resolver: &dyn McpResolver,
    rule: &'static str,
    declared: Vec<DeclaredServer>,
) -> Result {
    let answer = judged(resolver, &request(declared))?;
    ensure(answer.is_err(), rule, || format!("accepted: {answer:?}"))
}

/// The answer, if it is one that a resolver may give to this request.
fn judged(
    resolver: &dyn McpResolver,
    request: &ResolveRequest,
) -> Result<std::result::Result<Vec<McpBinding>, Refusal>> {
    let answer = resolver.resolve(request);
    ensure(resolver.resolve(request) == answer, "ENV-580", || {
        "the same request has two answers".to_owned()
    })?;
    match &answer {
        Ok(bindings) => bindings_hold(request, bindings)?,
        Err(refusal) => refusal_holds(refusal)?,
    }
    Ok(answer)
}

fn refusal_holds(refusal: &Refusal) -> Result {
    ensure(is_code(&refusal.code), "ENV-582", || {
        format!("{:?} is no fixed code", refusal.code)
    })?;
    let detail = refusal.detail.as_deref().unwrap_or_default();
    ensure(
        detail.len() <= 1024 && !detail.chars().any(char::is_control),
        "refusal.detail",
        || "it is longer than 1 KiB, or holds control characters".to_owned(),
    )
}

fn bindings_hold(request: &ResolveRequest, bindings: &[McpBinding]) -> Result {
    let declared = request.declared.iter();
    for (server, binding) in declared.zip(bindings) {
        let kept = binding.label == server.label
            && binding.origin == server.origin
            && binding.allowed_tools == server.allowed_tools
            && binding.required == server.required
            && binding.plugin.is_none();
        ensure(kept, "ENV-581", || format!("{server:?} became {binding:?}"))?;
        if let (DeclaredTransport::Http(declared), Transport::Http(resolved)) =
            (&server.transport, &binding.transport)
        {
            let same = match (&declared.credential, &resolved.authority) {
                (None, Authority::Anonymous) => true,
                (Some(wanted), Authority::ProjectVault(given)) => wanted == given,
                _ => false,
            };
            ensure(declared.url == resolved.url && same, "ENV-600", || {
                format!("{declared:?} became {resolved:?}")
            })?;
        }
    }
    ensure(bindings.len() >= request.declared.len(), "ENV-580", || {
        "a declared server is left out".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_a_fixed_code_and_a_short_sentence() {
        let refusal = |code: &str, detail: Option<String>| Refusal {
            code: code.to_owned(),
            label: None,
            plugin: None,
            detail,
        };
        let rule = |refusal: Refusal| refusal_holds(&refusal).map_err(|error| error.rule);
        assert_eq!(rule(refusal("label_twice", None)), Ok(()));
        assert_eq!(rule(refusal("label_twice", Some("x".repeat(1024)))), Ok(()));
        assert_eq!(rule(refusal("Label twice", None)), Err("ENV-582"));
        for wrong in ["x".repeat(1025), "two\nlines".to_owned()] {
            assert_eq!(rule(refusal("a", Some(wrong))), Err("refusal.detail"));
        }
    }
}
