//! Who asks: Project API keys for `/v1`, Core keys for `/core/v1`. Each credential works in its own namespace only.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use domain::Digest;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::call::Caller;
use super::error::{AdminError, ApiError};
use super::route::Space;
use crate::state::Core;

/// A key look-up may take so long (W-AUTH-2).
const LOOKUP: Duration = Duration::from_secs(5);

/// The Beta header of the Agents API (W-HDR-1): exactly one value.
pub(crate) fn has_beta(headers: &HeaderMap) -> bool {
    only(headers, "openai-beta") == Some("agents=v1")
}

/// Checks the credential that a space asks for.
pub(crate) async fn authenticate(
    core: &Core,
    space: Space,
    headers: &HeaderMap,
) -> Result<Caller, ApiError> {
    match space {
        Space::Public { beta } => project(core, headers, beta).await,
        Space::Admin => admin(core, headers),
        Space::Machine | Space::Open => Ok(Caller::Unchecked),
    }
}

async fn project(core: &Core, headers: &HeaderMap, beta: bool) -> Result<Caller, ApiError> {
    let Some(token) = bearer(headers) else {
        return Err(ApiError::Unauthorized(None));
    };
    // W-AUTH-6: outside the Beta a rejected key is named.
    let rejected = ApiError::Unauthorized((!beta).then_some("invalid_api_key"));
    let reader = core.store.read();
    let lookup = reader.authenticate(Digest::of(token.as_bytes()));
    let owner = match tokio::time::timeout(LOOKUP, lookup).await {
        Ok(Ok(owner)) => owner,
        Ok(Err(error)) => {
            tracing::warn!(%error, "a key could not be looked up");
            return Err(ApiError::AuthenticationUnavailable);
        }
        Err(_) => return Err(ApiError::AuthenticationUnavailable),
    };
    let Some(owner) = owner else {
        return Err(rejected);
    };
    let scoped = scope(headers, "openai-organization", "core")
        && scope(
            headers,
            "openai-project",
            &format!("proj_{}", owner.project),
        );
    if !scoped {
        return Err(rejected);
    }
    Ok(Caller::Project {
        project: owner.project,
        key: owner.key,
    })
}

fn admin(core: &Core, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let token = bearer(headers).ok_or(AdminError::Key)?;
    let digest = Digest::of(token.as_bytes());
    // Every digest is compared, so that time says nothing about which one matched (OPS-003, W-AUTH-8).
    let mut matched = Choice::from(0);
    for known in &core.core_keys {
        matched =
            Choice::conditional_select(&matched, &Choice::from(1), known.ct_eq(digest.as_bytes()));
    }
    if !bool::from(matched) {
        return Err(AdminError::Key.into());
    }
    let actor = only(headers, "x-core-console-actor").map(str::to_owned);
    Ok(Caller::Admin {
        credential: digest.to_string()[..8].to_owned(),
        actor,
    })
}

/// The token of exactly one `Authorization: Bearer …` header.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only(headers, AUTHORIZATION.as_str())?.split_once(' ')?;
    let token = token.trim_start_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The value of a header that is there exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// An optional scope header: absent, or once with this value.
fn scope(headers: &HeaderMap, name: &str, value: &str) -> bool {
    !headers.contains_key(name) || only(headers, name) == Some(value)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn the_beta_header_is_one_exact_value() {
        // W-HDR-1
        assert!(has_beta(&headers(&[("openai-beta", "agents=v1")])));
        for wrong in [
            &[][..],
            &[("openai-beta", "agents=v0")],
            &[("openai-beta", "agents=v1,x")],
            &[("openai-beta", "agents=v1"), ("openai-beta", "agents=v1")],
        ] {
            assert!(!has_beta(&headers(wrong)), "{wrong:?}");
        }
    }

    #[test]
    fn a_bearer_is_sent_once() {
        // W-AUTH-5
        assert_eq!(
            bearer(&headers(&[("authorization", "Bearer k")])),
            Some("k")
        );
        assert_eq!(
            bearer(&headers(&[("authorization", "bearer k")])),
            Some("k")
        );
        for wrong in [
            &[][..],
            &[("authorization", "")],
            &[("authorization", "Bearer")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Basic k")],
            &[("authorization", "Bearer k"), ("authorization", "Bearer k")],
        ] {
            assert_eq!(bearer(&headers(wrong)), None, "{wrong:?}");
        }
    }

    #[test]
    fn scopes_are_optional_but_exact() {
        // wire.md 4
        assert!(scope(&headers(&[]), "openai-organization", "core"));
        assert!(scope(
            &headers(&[("openai-organization", "core")]),
            "openai-organization",
            "core"
        ));
        assert!(!scope(
            &headers(&[("openai-organization", "x")]),
            "openai-organization",
            "core"
        ));
        let twice = headers(&[
            ("openai-organization", "core"),
            ("openai-organization", "core"),
        ]);
        assert!(!scope(&twice, "openai-organization", "core"));
    }
}
