//! Renewing OAuth grants (OAU-001 to OAU-007): when a token may be sent, what its issuer is asked, what the answer changes.
//! Nothing is sent here.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use url::form_urlencoded;

use super::auth::{AuthSecrets, AuthView, RefreshSecrets, RefreshView, TokenMethod};
use crate::{Secret, Timestamp};

/// Longest exchange with an issuer, its answer included.
pub const EXCHANGE_WITHIN: Duration = Duration::from_secs(20);
/// A begun exchange without an end is over after this time: whoever made it is gone.
const UNCERTAIN_AFTER: Duration = Duration::from_secs(45);

/// Longest bearer token in bytes.
pub const MAX_BEARER: usize = 16 * 1024;

/// What a stored credential takes before its server gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing: this token.
    Ready(Secret),
    /// One exchange with its issuer.
    Expired(Box<Exchange>),
    /// Another process makes that exchange now.
    UnderWay,
}

/// Why a stored credential cannot be used until somebody replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// OAU-002.
    #[error("the grant has expired and has nothing to renew it with")]
    Expired,
    /// The issuer may have given new tokens that never arrived; the old ones are not tried again (OAU-007).
    #[error("how the last renewal of the grant ended is unknown; authorize it anew")]
    Uncertain,
    /// CRD-005.
    #[error("the token is no bearer token")]
    NoBearer,
}

/// One `refresh_token` request (OAU-003).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// HTTPS address of the issuer.
    pub endpoint: String,
    /// The form, encoded.
    pub form: Secret,
    /// Value of the `Authorization` header, where the method has one.
    pub authorization: Option<Secret>,
}

/// What an issuer gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The new token.
    pub access_token: Secret,
    /// How long it lasts; none = not told.
    pub lifetime: Option<Duration>,
    /// What renews it from now on; none = what renewed it this time.
    pub refresh_token: Option<Secret>,
}

/// An issuer's answer that grants nothing (OAU-004). Its text is never repeated (OAU-008).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the issuer's answer grants no bearer token")]
pub struct NoGrant;

/// Whether the token of a credential can be sent now. `begun` is when an exchange for these secrets was begun that has not
/// ended.
///
/// # Errors
/// [`Unusable`].
pub fn readiness(
    auth: &AuthView,
    secrets: &AuthSecrets,
    begun: Option<Timestamp>,
    now: Timestamp,
) -> Result<Readiness, Unusable> {
    if !expired(auth, now) {
        let bearer = is_bearer(&secrets.token);
        let token = bearer.then(|| secrets.token.clone());
        return token.map(Readiness::Ready).ok_or(Unusable::NoBearer);
    }
    match begun {
        Some(at) if now.since(at) < UNCERTAIN_AFTER => return Ok(Readiness::UnderWay),
        Some(_) => return Err(Unusable::Uncertain),
        None => {}
    }
    match (auth, &secrets.refresh) {
        (
            AuthView::McpOauth {
                refresh: Some(shown),
                ..
            },
            Some(hidden),
        ) => Ok(Readiness::Expired(Box::new(exchange(shown, hidden)))),
        _ => Err(Unusable::Expired),
    }
}

/// OAU-001. An expiry that cannot be read has passed.
fn expired(auth: &AuthView, now: Timestamp) -> bool {
    let AuthView::McpOauth {
        expires_at: Some(text),
        ..
    } = auth
    else {
        return false;
    };
    let at = text.parse::<jiff::Timestamp>();
    at.map_or(true, |at| at.as_millisecond() <= now.millis())
}

/// RFC 6750's `b64token` of a length that a header can have (CRD-005).
fn is_bearer(token: &Secret) -> bool {
    let text = token.expose();
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let body = &text[..text.len() - padding];
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    !body.is_empty() && text.len() <= MAX_BEARER && body.iter().all(fits)
}

fn exchange(shown: &RefreshView, hidden: &RefreshSecrets) -> Exchange {
    let text = |secret: &Secret| secret.as_str().unwrap_or_default().to_owned();
    let client_secret = hidden.client_secret.as_ref().map(text).unwrap_or_default();
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token");
    form.append_pair("refresh_token", &text(&hidden.refresh_token));
    let mut authorization = None;
    match shown.token_endpoint_auth {
        TokenMethod::None => {
            form.append_pair("client_id", &shown.client_id);
        }
        TokenMethod::ClientSecretPost => {
            form.append_pair("client_id", &shown.client_id);
            form.append_pair("client_secret", &client_secret);
        }
        TokenMethod::ClientSecretBasic => {
            // RFC 6749 2.3.1: both are form-encoded before they are joined.
            let encoded = |text: &str| -> String {
                form_urlencoded::byte_serialize(text.as_bytes()).collect()
            };
            let pair = format!("{}:{}", encoded(&shown.client_id), encoded(&client_secret));
            authorization = Some(Secret::from(format!("Basic {}", STANDARD.encode(pair))));
        }
    }
    let optional = [("scope", &shown.scope), ("resource", &shown.resource)];
    for (name, value) in optional {
        if let Some(value) = value {
            form.append_pair(name, value);
        }
    }
    Exchange {
        endpoint: shown.token_endpoint.clone(),
        form: Secret::from(form.finish()),
        authorization,
    }
}

/// The members of a token answer that count (RFC 6749 5.1).
#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: String,
    #[serde(default)]
    expires_in: Option<Seconds>,
    #[serde(default)]
    refresh_token: Option<String>,
}

/// Some issuers write the number as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(f64),
    Text(String),
}

impl Grant {
    /// Reads the body of an issuer's success.
    ///
    /// # Errors
    /// [`NoGrant`]: no `Bearer` token, or one that ends at once.
    pub fn parse(body: &[u8]) -> Result<Self, NoGrant> {
        let answer: Answer = serde_json::from_slice(body).map_err(|_| NoGrant)?;
        let seconds = match answer.expires_in {
            None => None,
            Some(Seconds::Number(number)) => Some(number),
            Some(Seconds::Text(text)) => Some(text.trim().parse().map_err(|_| NoGrant)?),
        };
        // Longer than a century is a mistake that the calendar need not bear.
        const LONGEST: f64 = 100.0 * 366.0 * 86_400.0;
        let lifetime = match seconds {
            None => None,
            Some(seconds) if seconds >= 1.0 => {
                Some(Duration::from_secs(seconds.min(LONGEST).floor() as u64))
            }
            Some(_) => return Err(NoGrant),
        };
        let access_token = Secret::from(answer.access_token);
        if !answer.token_type.eq_ignore_ascii_case("bearer") || !is_bearer(&access_token) {
            return Err(NoGrant);
        }
        let rotated = answer.refresh_token.filter(|token| !token.is_empty());
        Ok(Self {
            access_token,
            lifetime,
            refresh_token: rotated.map(Secret::from),
        })
    }

    /// Takes the place of what the credential held (OAU-005). Its lifetime counts from `asked`, before the issuer's clock began.
    pub fn apply(self, asked: Timestamp, auth: &mut AuthView, secrets: &mut AuthSecrets) {
        if let AuthView::McpOauth { expires_at, .. } = auth {
            let end = self.lifetime.map(|lifetime| (asked + lifetime).seconds());
            let end = end.and_then(|end| jiff::Timestamp::from_second(end).ok());
            *expires_at = end.map(|end| end.to_string());
        }
        secrets.token = self.access_token;
        if let (Some(rotated), Some(refresh)) = (self.refresh_token, &mut secrets.refresh) {
            refresh.refresh_token = rotated;
        }
    }
}

#[cfg(test)]
mod tests;
