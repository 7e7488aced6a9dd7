//! Model providers: the bundle a caller sends, the part of it that may be shown, and deployment defaults
//! (`models-harnesses.md` 3).

use serde::{Deserialize, Serialize, Serializer};

use crate::invalid::{Invalid, Path};
use crate::json::{Json, Object, Opaque};
use crate::run::ModelProtocol;
use crate::secret::Secret;

/// Longest API key of a provider, in bytes (MDL-003).
pub const MAX_API_KEY: usize = 16 * 1024;

impl ModelProtocol {
    /// Every word.
    pub const WORDS: &'static [&'static str] = &["anthropic", "responses", "chat_completions"];

    /// Reads the word.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "anthropic" => Some(Self::Anthropic),
            "responses" => Some(Self::Responses),
            "chat_completions" => Some(Self::ChatCompletions),
            _ => None,
        }
    }
}

/// A provider as it may be stored in clear and shown: everything but the key (MDL-027).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderView {
    /// Protocol spoken at `base_url`.
    pub protocol: ModelProtocol,
    /// The caller's spelling of the endpoint.
    pub base_url: String,
    /// Context window in tokens.
    pub context_window: Option<u64>,
    /// Longest answer in tokens.
    pub max_output_tokens: Option<u64>,
}

impl ProviderView {
    /// Its endpoint is one that only the switch for development and tests admits: plain `http` to this machine (MDL-002).
    pub fn needs_loopback_switch(&self) -> bool {
        is_endpoint(&self.base_url, true) && !is_endpoint(&self.base_url, false)
    }
}

/// A complete provider with its key. An endpoint is never combined with another bundle's key (MDL-006).
#[derive(Debug, Clone)]
pub struct ProviderBundle {
    /// What may be shown.
    pub view: ProviderView,
    /// The key.
    pub api_key: Secret,
}

/// The canonical form for retry identities leaves the key out; it enters comparisons only as a keyed fingerprint that the
/// owner of the service key adds (W-IDEM-7).
impl Serialize for ProviderBundle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.view.serialize(serializer)
    }
}

/// What the operator configured for a harness (DEF-001).
#[derive(Debug, Clone)]
pub struct ModelConfiguration {
    /// Provider with its key.
    pub provider: ProviderBundle,
    /// Exact model id.
    pub model: String,
    /// Native parameters; `{}` = none.
    pub harness_config: Opaque,
}

/// Why the content of a bundle is not acceptable, in the fixed order of W-ADM-3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is one line of W-ADM-3")]
pub enum ProviderFault {
    BaseUrl,
    ApiKey,
    MaxOutputTokens,
}

impl ProviderBundle {
    /// Reads a bundle: shape and kinds only; content is [`ProviderBundle::fault`]'s.
    ///
    /// # Errors
    /// E400-03 to E400-07 with the path of the member.
    pub fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        const KNOWN: &[&str] = &[
            "protocol",
            "base_url",
            "api_key",
            "context_window",
            "max_output_tokens",
        ];
        let object = Object::open(json, path, KNOWN)?;
        let (mut protocol, mut base_url, mut api_key) = (None, None, None);
        let (mut context_window, mut max_output_tokens) = (None, None);
        for (name, value, path) in object.iter() {
            match name {
                "protocol" => {
                    let word = value.to_text(&path)?;
                    let known = ModelProtocol::from_word(&word);
                    protocol =
                        Some(known.ok_or_else(|| {
                            Invalid::not_one_of(&path, &word, ModelProtocol::WORDS)
                        })?);
                }
                "base_url" => base_url = Some(value.to_text(&path)?),
                "api_key" => api_key = Some(Secret::from(value.to_text(&path)?)),
                "context_window" => context_window = count(value, &path)?,
                _ => max_output_tokens = count(value, &path)?,
            }
        }
        let protocol = object.required(protocol, "protocol")?;
        let base_url = object.required(base_url, "base_url")?;
        let api_key = object.required(api_key, "api_key")?;
        Ok(Self {
            view: ProviderView {
                protocol,
                base_url,
                context_window,
                max_output_tokens,
            },
            api_key,
        })
    }

    /// The first thing wrong with the content (MDL-002 to MDL-004). `allow_loopback` also admits plain `http` to a loopback
    /// address.
    pub fn fault(&self, allow_loopback: bool) -> Option<ProviderFault> {
        if !is_endpoint(&self.view.base_url, allow_loopback) {
            return Some(ProviderFault::BaseUrl);
        }
        let key = self.api_key.expose();
        if key.is_empty()
            || key.len() > MAX_API_KEY
            || key.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
        {
            return Some(ProviderFault::ApiKey);
        }
        match (self.view.context_window, self.view.max_output_tokens) {
            (Some(window), Some(output)) if output > window => Some(ProviderFault::MaxOutputTokens),
            _ => None,
        }
    }

    /// Refuses bad content in a `/v1` request (S-ADM-4).
    ///
    /// # Errors
    /// E400-23 with the path of the member.
    pub fn check(&self, path: &Path, allow_loopback: bool) -> Result<(), Invalid> {
        let (member, message) = match self.fault(allow_loopback) {
            None => return Ok(()),
            Some(ProviderFault::BaseUrl) => (
                "base_url",
                "The model provider's base_url must be an HTTPS URL without credentials, query or fragment.",
            ),
            Some(ProviderFault::ApiKey) => (
                "api_key",
                "The model provider's api_key must be 1 to 16384 bytes without NUL, CR or LF.",
            ),
            Some(ProviderFault::MaxOutputTokens) => (
                "max_output_tokens",
                "The model provider's max_output_tokens must not exceed its context_window.",
            ),
        };
        Err(Invalid::unsupported(path.member(member).echo(), message))
    }
}

/// A nonnegative count; null = not given.
fn count(json: Json<'_>, path: &Path) -> Result<Option<u64>, Invalid> {
    if json.is_null() {
        return Ok(None);
    }
    json.to_integer(path, 0)
        .map(|value| u64::try_from(value).ok())
}

/// HTTPS, valid host, no credentials, query or fragment (MDL-002). The raw text is looked at first: the URL parser accepts
/// back-slashes, tabs and surrounding space.
fn is_endpoint(text: &str, allow_loopback: bool) -> bool {
    if text.len() > 2048
        || text.contains(['\\', '?', '#', '@'])
        || text.chars().any(|c| c.is_whitespace() || c.is_control())
    {
        return false;
    }
    let Ok(url) = url::Url::parse(text) else {
        return false;
    };
    let Some(host) = url.host() else { return false };
    match url.scheme() {
        "https" => true,
        "http" => {
            allow_loopback
                && match host {
                    url::Host::Ipv4(ip) => ip.is_loopback(),
                    url::Host::Ipv6(ip) => ip.is_loopback(),
                    url::Host::Domain(name) => name == "localhost",
                }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(text: &str) -> Result<ProviderBundle, Invalid> {
        ProviderBundle::parse(Json::new(text), &Path::root().member("p"))
    }

    fn with(base_url: &str, key: &str, rest: &str) -> ProviderBundle {
        let key = serde_json::to_string(key).unwrap();
        bundle(&format!(
            r#"{{"protocol":"responses","base_url":"{base_url}","api_key":{key}{rest}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn a_partial_bundle_is_refused() {
        // MDL-025
        assert_eq!(
            bundle("{}").unwrap_err().message,
            "Missing required parameter: 'p.protocol'."
        );
        assert_eq!(
            bundle(r#"{"protocol":"responses","base_url":"https://h","api_key_configured":true}"#)
                .unwrap_err()
                .message,
            "Unknown parameter: 'p.api_key_configured'."
        );
        assert_eq!(
            bundle(r#"{"protocol":"grpc"}"#).unwrap_err().message,
            "Invalid value: 'grpc'. Supported values are: 'anthropic', 'responses', and 'chat_completions'."
        );
    }

    #[test]
    fn endpoints_are_https_and_bare() {
        // MDL-002
        for good in [
            "https://api.example.com/v1",
            "https://10.0.0.1:8443",
            "https://[::1]/x",
        ] {
            assert!(is_endpoint(good, false), "{good}");
        }
        for bad in [
            "http://api.example.com",
            "http://127.0.0.1",
            "https://user:pw@h",
            "https://h/?q",
            "https://h/#f",
            "https://h\\x",
            " https://h",
            "https://",
            "ftp://h",
            "h",
            "",
        ] {
            assert!(!is_endpoint(bad, false), "{bad}");
        }
        for loopback in [
            "http://127.0.0.1:9",
            "http://[::1]:9/v1",
            "http://localhost:9",
        ] {
            assert!(
                is_endpoint(loopback, true) && !is_endpoint(loopback, false),
                "{loopback}"
            );
        }
        assert!(!is_endpoint("http://10.0.0.1", true));
        assert!(!is_endpoint("http://127.0.0.1.example.com", true));
    }

    #[test]
    fn faults_come_in_a_fixed_order() {
        // MDL-003, MDL-004, W-ADM-3
        assert_eq!(
            with("http://h", "", "").fault(false),
            Some(ProviderFault::BaseUrl)
        );
        for key in ["", "a\nb", "a\0", &"x".repeat(MAX_API_KEY + 1)] {
            assert_eq!(
                with("https://h", key, "").fault(false),
                Some(ProviderFault::ApiKey)
            );
        }
        let limits = r#","context_window":10,"max_output_tokens":11"#;
        assert_eq!(
            with("https://h", "k", limits).fault(false),
            Some(ProviderFault::MaxOutputTokens)
        );
        assert_eq!(
            with(
                "https://h",
                "k",
                r#","context_window":10,"max_output_tokens":10"#
            )
            .fault(false),
            None
        );
        assert!(bundle(r#"{"protocol":"responses","context_window":-1}"#).is_err());
    }

    #[test]
    fn the_key_is_in_no_serialized_form() {
        let text = serde_json::to_string(&with("https://h", "canary", "")).unwrap();
        assert!(
            !text.contains("canary")
                && !format!("{:?}", with("https://h", "canary", "")).contains("canary")
        );
    }
}
