//! Replacements, member by member.

use super::super::auth::{RefreshSecrets, RefreshView};
use super::*;

fn patch(auth: &str) -> Result<AuthPatch, Invalid> {
    AuthPatch::parse(Json::new(&format!(r#"{{"auth":{auth}}}"#)))
}

fn grant(with_refresh: bool) -> (AuthView, AuthSecrets) {
    let view = AuthView::McpOauth {
        mcp_server_url: "https://h".into(),
        expires_at: Some("2030-01-01T00:00:00Z".into()),
        refresh: with_refresh.then(|| RefreshView {
            client_id: "c".into(),
            token_endpoint: "https://i".into(),
            token_endpoint_auth: TokenMethod::ClientSecretBasic,
            resource: None,
            scope: Some("all".into()),
        }),
    };
    let secrets = AuthSecrets {
        token: Secret::new("a"),
        refresh: with_refresh.then(|| RefreshSecrets {
            refresh_token: Secret::new("r"),
            client_secret: Some(Secret::new("s")),
        }),
    };
    (view, secrets)
}

/// Token, expiry, refresh token, client secret and scope after a replacement.
fn replaced(auth: &str) -> Result<[Option<String>; 5], ReplaceFault> {
    let (mut view, mut secrets) = grant(true);
    patch(auth).unwrap().apply(&mut view, &mut secrets)?;
    let AuthView::McpOauth {
        expires_at,
        refresh: Some(shown),
        mcp_server_url,
    } = view
    else {
        panic!("a grant")
    };
    assert_eq!(
        (mcp_server_url.as_str(), shown.client_id.as_str()),
        ("https://h", "c")
    );
    let hidden = secrets.refresh.unwrap();
    let text = |secret: &Secret| secret.as_str().map(str::to_owned);
    Ok([
        text(&secrets.token),
        expires_at,
        text(&hidden.refresh_token),
        hidden.client_secret.as_ref().and_then(text),
        shown.scope,
    ])
}

#[test]
fn omitted_and_null_keep_or_clear() {
    // CRD-020 to CRD-023
    let expiry = "2030-01-01T00:00:00Z";
    for (auth, expected) in [
        (
            r#"{"type":"mcp_oauth","access_token":"A"}"#,
            [Some("A"), None, Some("r"), Some("s"), Some("all")],
        ),
        (
            r#"{"type":"mcp_oauth","access_token":null,"expires_at":null}"#,
            [Some("a"), None, Some("r"), Some("s"), Some("all")],
        ),
        (
            r#"{"type":"mcp_oauth","access_token":"A","expires_at":"2031-01-01T00:00:00Z"}"#,
            [
                Some("A"),
                Some("2031-01-01T00:00:00Z"),
                Some("r"),
                Some("s"),
                Some("all"),
            ],
        ),
        (
            r#"{"type":"mcp_oauth","refresh":{"refresh_token":"R"}}"#,
            [Some("a"), Some(expiry), Some("R"), Some("s"), Some("all")],
        ),
        (
            r#"{"type":"mcp_oauth","refresh":{"scope":null,"refresh_token":null,"token_endpoint_auth":null}}"#,
            [Some("a"), Some(expiry), Some("r"), Some("s"), None],
        ),
        (
            r#"{"type":"mcp_oauth","refresh":{"token_endpoint_auth":{"type":"client_secret_basic","client_secret":"S"}}}"#,
            [Some("a"), Some(expiry), Some("r"), Some("S"), Some("all")],
        ),
    ] {
        assert_eq!(
            replaced(auth).unwrap(),
            expected.map(|text| text.map(str::to_owned)),
            "{auth}"
        );
    }
}

#[test]
fn what_is_stored_limits_the_replacement() {
    // CRD-012 to CRD-014
    assert_eq!(
        replaced(
            r#"{"type":"mcp_oauth","refresh":{"token_endpoint_auth":{"type":"client_secret_post","client_secret":"S"}}}"#
        ),
        Err(ReplaceFault::Method)
    );
    assert_eq!(
        replaced(r#"{"type":"static_bearer","token":"t"}"#),
        Err(ReplaceFault::Kind)
    );
    let (mut view, mut secrets) = grant(false);
    let added = patch(r#"{"type":"mcp_oauth","access_token":"A","refresh":{"refresh_token":"R"}}"#)
        .unwrap();
    assert_eq!(
        added.apply(&mut view, &mut secrets),
        Err(ReplaceFault::NoRefresh)
    );
    assert_eq!((view, secrets), grant(false));
}

#[test]
fn shapes() {
    // CRD-006, CRD-011, CRD-013
    for (auth, param) in [
        (r#"{"type":"static_bearer"}"#, "auth.token"),
        (r#"{"type":"static_bearer","token":""}"#, "auth.token"),
        (r#"{"type":"static_bearer","token":null}"#, "auth.token"),
        (
            r#"{"type":"static_bearer","token":"t","mcp_server_url":"https://h"}"#,
            "auth.mcp_server_url",
        ),
        (r#"{"type":"mcp_oauth"}"#, "auth"),
        (r#"{"type":"mcp_oauth","access_token":null}"#, "auth"),
        (r#"{"type":"mcp_oauth","refresh":{}}"#, "auth"),
        (
            r#"{"type":"mcp_oauth","refresh":{"token_endpoint_auth":{"type":"client_secret_basic"}}}"#,
            "auth",
        ),
        (
            r#"{"type":"mcp_oauth","access_token":""}"#,
            "auth.access_token",
        ),
        (
            r#"{"type":"mcp_oauth","refresh":{"client_id":"x"}}"#,
            "auth.refresh.client_id",
        ),
        (
            r#"{"type":"mcp_oauth","refresh":{"token_endpoint_auth":{"type":"none"}}}"#,
            "auth.refresh.token_endpoint_auth.type",
        ),
    ] {
        assert_eq!(
            patch(auth).unwrap_err().param.as_deref(),
            Some(param),
            "{auth}"
        );
    }
    assert_eq!(
        AuthPatch::parse(Json::new("{}"))
            .unwrap_err()
            .param
            .as_deref(),
        Some("auth")
    );
}
