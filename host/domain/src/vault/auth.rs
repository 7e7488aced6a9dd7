//! The two kinds of credentials: what may be shown of them, and their secrets.

use serde::{Deserialize, Serialize};

use crate::Secret;

/// What may be shown of a credential (CRD-003). Stored in clear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AuthView {
    /// A fixed bearer token.
    StaticBearer {
        /// The one server it is for, byte for byte (CRD-002).
        mcp_server_url: String,
    },
    /// An OAuth grant.
    McpOauth {
        /// The one server it is for, byte for byte.
        mcp_server_url: String,
        /// When the access token ends, in the caller's RFC 3339 spelling; null = never checked (OAU-001).
        expires_at: Option<String>,
        /// How it is renewed.
        refresh: Option<RefreshView>,
    },
}

/// How a grant is renewed, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the members of api-surface 11")]
pub struct RefreshView {
    pub client_id: String,
    pub token_endpoint: String,
    pub token_endpoint_auth: TokenMethod,
    pub resource: Option<String>,
    pub scope: Option<String>,
}

/// How a client authenticates at the token endpoint (CRD-010).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TokenMethod {
    /// Not at all.
    None,
    /// By the secret in a header.
    ClientSecretBasic,
    /// By the secret in the form.
    ClientSecretPost,
}

impl TokenMethod {
    /// Every word.
    pub const WORDS: &'static [&'static str] =
        &["none", "client_secret_basic", "client_secret_post"];
    /// The words of a replacement: without a secret there is nothing to replace (CRD-013).
    pub const SECRET_WORDS: &'static [&'static str] =
        &["client_secret_basic", "client_secret_post"];

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "none" => Some(Self::None),
            "client_secret_basic" => Some(Self::ClientSecretBasic),
            "client_secret_post" => Some(Self::ClientSecretPost),
            _ => None,
        }
    }
}

/// The secrets of a credential: sealed together, opened only at the point of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSecrets {
    /// The bearer token, or the access token of a grant.
    pub token: Secret,
    /// What renews a grant.
    pub refresh: Option<RefreshSecrets>,
}

/// What renews a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshSecrets {
    /// The refresh token.
    pub refresh_token: Secret,
    /// The client secret of the two secret methods.
    pub client_secret: Option<Secret>,
}

impl AuthView {
    /// The words of `auth.type`.
    pub const WORDS: &'static [&'static str] = &["mcp_oauth", "static_bearer"];

    /// The word of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::StaticBearer { .. } => "static_bearer",
            Self::McpOauth { .. } => "mcp_oauth",
        }
    }

    /// The server it is for.
    pub fn server_url(&self) -> &str {
        match self {
            Self::StaticBearer { mcp_server_url } | Self::McpOauth { mcp_server_url, .. } => {
                mcp_server_url
            }
        }
    }
}

/// The plaintext form that is sealed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain<'a> {
    token: std::borrow::Cow<'a, str>,
    refresh_token: Option<std::borrow::Cow<'a, str>>,
    client_secret: Option<std::borrow::Cow<'a, str>>,
}

impl AuthSecrets {
    /// The bytes to seal. `None` if a secret is no text, which no request makes.
    pub fn to_bytes(&self) -> Option<Secret> {
        let refresh = self.refresh.as_ref();
        let text = |secret: &Secret| secret.as_str().map(str::to_owned);
        let plain = Plain {
            token: text(&self.token)?.into(),
            refresh_token: match refresh {
                Some(refresh) => Some(text(&refresh.refresh_token)?.into()),
                None => None,
            },
            client_secret: match refresh.and_then(|refresh| refresh.client_secret.as_ref()) {
                Some(secret) => Some(text(secret)?.into()),
                None => None,
            },
        };
        serde_json::to_vec(&plain).ok().map(Secret::new)
    }

    /// Reads what [`AuthSecrets::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let plain: Plain<'_> = serde_json::from_slice(bytes).ok()?;
        let secret = |text: std::borrow::Cow<'_, str>| Secret::from(text.into_owned());
        let client_secret = plain.client_secret.map(secret);
        Some(Self {
            token: secret(plain.token),
            refresh: plain.refresh_token.map(|token| RefreshSecrets {
                refresh_token: secret(token),
                client_secret,
            }),
        })
    }
}
