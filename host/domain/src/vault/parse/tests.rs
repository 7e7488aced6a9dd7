//! Shapes of Vaults and Credentials.

use super::*;

fn vault(text: &str) -> Result<VaultCreation, Invalid> {
    VaultCreation::parse(Json::new(text))
}

fn credential(text: &str) -> Result<CredentialCreation, Invalid> {
    CredentialCreation::parse(Json::new(text))
}

#[test]
fn vaults() {
    // VLT-022, VLT-023
    let made = vault(r#"{"name":"  a b ","metadata":{"z":"1","a":"2"}}"#).unwrap();
    assert_eq!(made.name.as_deref(), Some("a b"));
    assert_eq!(made.metadata.as_str(), r#"{"z":"1","a":"2"}"#);
    for text in ["{}", r#"{"metadata":null}"#] {
        assert_eq!(vault(text).unwrap().metadata.as_str(), "{}");
    }
    let many = format!(
        r#"{{"metadata":{{{}}}}}"#,
        (0..100)
            .map(|n| format!("\"k{n}\":\"{}\"", "v".repeat(600)))
            .collect::<Vec<_>>()
            .join(",")
    );
    vault(&many).unwrap();
    for (text, param) in [
        (r#"{"name":null}"#, "name"),
        (r#"{"name":" "}"#, "name"),
        (&format!(r#"{{"name":"{}"}}"#, "é".repeat(129)), "name"),
        (r#"{"metadata":{"k":1}}"#, "metadata.k"),
        (r#"{"metadata":[]}"#, "metadata"),
        (r#"{"metadata":{"k":"a\u0000"}}"#, "metadata.k"),
        (r#"{"status":"archived"}"#, "status"),
        (
            &format!(r#"{{"metadata":{{"k":"{}"}}}}"#, "v".repeat(MAX_METADATA)),
            "metadata",
        ),
    ] {
        assert_eq!(
            vault(text).unwrap_err().param.as_deref(),
            Some(param),
            "{text}"
        );
    }
}

#[test]
fn static_bearers() {
    // CRD-001 to CRD-004
    let made = credential(r#"{"name":"n","auth":{"type":"static_bearer","mcp_server_url":"HTTPS://h/p?q=1","token":" t "}}"#).unwrap();
    assert_eq!(made.auth.server_url(), "HTTPS://h/p?q=1");
    assert_eq!(made.secrets.token.as_str(), Some(" t "));
    assert!(!format!("{made:?}").contains(" t "));
    for (auth, param) in [
        ("{}", "auth.type"),
        (r#"{"type":"x"}"#, "auth.type"),
        (
            r#"{"type":"static_bearer","token":"t"}"#,
            "auth.mcp_server_url",
        ),
        (
            r#"{"type":"static_bearer","mcp_server_url":"https://h"}"#,
            "auth.token",
        ),
        (
            r#"{"type":"static_bearer","mcp_server_url":"https://h","token":""}"#,
            "auth.token",
        ),
        (
            r#"{"type":"static_bearer","mcp_server_url":"https://h","token":null}"#,
            "auth.token",
        ),
        (
            r#"{"type":"static_bearer","mcp_server_url":"https://h","access_token":"t"}"#,
            "auth.access_token",
        ),
        (
            r#"{"type":"static_bearer","mcp_server_url":"http://h","token":"t"}"#,
            "auth.mcp_server_url",
        ),
        (
            r#"{"type":"static_bearer","mcp_server_url":"https://u:p@h","token":"t"}"#,
            "auth.mcp_server_url",
        ),
        (
            r#"{"type":"static_bearer","mcp_server_url":"https://h/#f","token":"t"}"#,
            "auth.mcp_server_url",
        ),
        (
            r#"{"type":"static_bearer","mcp_server_url":"https:h","token":"t"}"#,
            "auth.mcp_server_url",
        ),
        (
            r#"{"type":"static_bearer","mcp_server_url":" https://h","token":"t"}"#,
            "auth.mcp_server_url",
        ),
        (
            r#"{"type":"static_bearer","mcp_server_url":"/p","token":"t"}"#,
            "auth.mcp_server_url",
        ),
    ] {
        let text = format!(r#"{{"name":"n","auth":{auth}}}"#);
        assert_eq!(
            credential(&text).unwrap_err().param.as_deref(),
            Some(param),
            "{auth}"
        );
    }
}

#[test]
fn oauth_grants() {
    // CRD-008 to CRD-010
    let refresh = r#"{"client_id":"c","refresh_token":"r","token_endpoint":"https://i/t","token_endpoint_auth":{"type":"client_secret_post","client_secret":"s"}}"#;
    let text = |more: &str| {
        format!(
            r#"{{"name":"n","auth":{{"type":"mcp_oauth","mcp_server_url":"https://h","access_token":"a"{more}}}}}"#
        )
    };
    let made = credential(&text(&format!(
        r#","expires_at":"2020-01-01T00:00:00Z","refresh":{refresh}"#
    )))
    .unwrap();
    let AuthView::McpOauth {
        expires_at,
        refresh: Some(view),
        ..
    } = &made.auth
    else {
        panic!("a grant")
    };
    assert_eq!(expires_at.as_deref(), Some("2020-01-01T00:00:00Z"));
    assert_eq!(
        (view.token_endpoint_auth, &view.scope),
        (TokenMethod::ClientSecretPost, &None)
    );
    let bytes = made.secrets.to_bytes().unwrap();
    assert_eq!(
        AuthSecrets::from_bytes(bytes.expose()).as_ref(),
        Some(&made.secrets)
    );
    assert!(!serde_json::to_string(&made.auth).unwrap().contains("\"s\""));
    for nothing in ["", r#","expires_at":null,"refresh":null"#] {
        assert_eq!(credential(&text(nothing)).unwrap().secrets.refresh, None);
    }
    for (more, param) in [
        (r#","expires_at":"tomorrow""#.to_owned(), "auth.expires_at"),
        (
            r#","expires_at":"2020-01-01""#.to_owned(),
            "auth.expires_at",
        ),
        (r#","expires_at":1"#.to_owned(), "auth.expires_at"),
        (r#","refresh":{}"#.to_owned(), "auth.refresh.client_id"),
        (
            format!(r#","refresh":{}"#, refresh.replace("https://i", "http://i")),
            "auth.refresh.token_endpoint",
        ),
        (
            format!(r#","refresh":{}"#, refresh.replace("\"s\"", "\"\"")),
            "auth.refresh.token_endpoint_auth.client_secret",
        ),
        (
            format!(
                r#","refresh":{}"#,
                refresh.replace("client_secret_post", "none")
            ),
            "auth.refresh.token_endpoint_auth.client_secret",
        ),
        (
            format!(
                r#","refresh":{}"#,
                refresh.replace("client_secret_post", "x")
            ),
            "auth.refresh.token_endpoint_auth.type",
        ),
    ] {
        assert_eq!(
            credential(&text(&more)).unwrap_err().param.as_deref(),
            Some(param),
            "{more}"
        );
    }
}
