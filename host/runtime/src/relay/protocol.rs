//! What differs between model protocols.

use hyper::http::{HeaderName, HeaderValue, Method, header};

/// A protocol that a model provider speaks (MDL-001).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelProtocol {
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    ChatCompletions,
}

/// One request that a protocol allows.
struct Endpoint {
    method: Method,
    /// Path as the harness asks for it, below the relay's address.
    path: &'static str,
    /// Path below the provider's base address.
    upstream: &'static str,
}

const fn post(path: &'static str, upstream: &'static str) -> Endpoint {
    Endpoint {
        method: Method::POST,
        path,
        upstream,
    }
}

const RESPONSES: &[Endpoint] = &[
    post("/v1/responses", "/responses"),
    post("/v1/responses/compact", "/responses/compact"),
];
// Anthropic's base address is written without the version, the harness adds it; `ModelUrl::join` mends a base that has it.
const ANTHROPIC: &[Endpoint] = &[
    post("/v1/messages", "/v1/messages"),
    post("/v1/messages/count_tokens", "/v1/messages/count_tokens"),
];
const CHAT: &[Endpoint] = &[post("/v1/chat/completions", "/chat/completions")];

impl ModelProtocol {
    /// From its public name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Responses, Self::Anthropic, Self::ChatCompletions]
            .into_iter()
            .find(|p| p.name() == name)
    }

    /// Its public name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::ChatCompletions => "chat_completions",
        }
    }

    /// The path below the provider's base address for a request, or `None` for one that this protocol does not have.
    pub(super) fn upstream_path(self, method: &Method, path: &str) -> Option<&'static str> {
        let table = match self {
            Self::Responses => RESPONSES,
            Self::Anthropic => ANTHROPIC,
            Self::ChatCompletions => CHAT,
        };
        table
            .iter()
            .find(|e| e.method == *method && e.path == path)
            .map(|e| e.upstream)
    }

    /// The header that carries the key to the provider. `None` when the key has bytes that no header can carry.
    pub(super) fn key_header(self, key: &[u8]) -> Option<(HeaderName, HeaderValue)> {
        let (name, bytes) = match self {
            Self::Anthropic => (HeaderName::from_static("x-api-key"), key.to_vec()),
            Self::Responses | Self::ChatCompletions => {
                (header::AUTHORIZATION, [b"Bearer ", key].concat())
            }
        };
        let mut value = HeaderValue::from_bytes(&bytes).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }
}
