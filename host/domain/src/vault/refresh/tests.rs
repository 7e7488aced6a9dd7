use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn stored(
    expires_at: Option<&str>,
    method: Option<TokenMethod>,
    token: &str,
) -> (AuthView, AuthSecrets) {
    let auth = AuthView::McpOauth {
        mcp_server_url: "https://mcp.example/".into(),
        expires_at: expires_at.map(str::to_owned),
        refresh: method.map(|method| RefreshView {
            client_id: "a client:1".into(),
            token_endpoint: "https://issuer.example/token".into(),
            token_endpoint_auth: method,
            resource: Some("https://mcp.example/".into()),
            scope: Some("read write".into()),
        }),
    };
    let refresh = method.map(|method| RefreshSecrets {
        refresh_token: Secret::from("r&1".to_owned()),
        client_secret: (method != TokenMethod::None).then(|| Secret::from("s+%".to_owned())),
    });
    let token = Secret::from(token.to_owned());
    (auth, AuthSecrets { token, refresh })
}

fn asked(method: TokenMethod) -> Exchange {
    let (auth, secrets) = stored(Some("2020-01-01T00:00:00Z"), Some(method), "old");
    match readiness(&auth, &secrets, None, NOW) {
        Ok(Readiness::Expired(exchange)) => *exchange,
        other => panic!("{other:?}"),
    }
}

fn form(exchange: &Exchange) -> Vec<(String, String)> {
    form_urlencoded::parse(exchange.form.expose())
        .into_owned()
        .collect()
}

// OAU-001
#[test]
fn only_a_passed_expiry_asks_the_issuer() {
    let none = Some(TokenMethod::None);
    for expiry in [
        None,
        Some("2099-01-01T00:00:00Z"),
        Some("2027-01-15T08:00:00.001Z"),
    ] {
        let (auth, secrets) = stored(expiry, none, "old");
        let ready = readiness(&auth, &secrets, Some(NOW), NOW);
        assert_eq!(ready, Ok(Readiness::Ready(secrets.token)), "{expiry:?}");
    }
    for expiry in [
        "2027-01-15T08:00:00Z",
        "2027-01-15T09:00:00+01:00",
        "2000-01-01T00:00:00Z",
    ] {
        let (auth, secrets) = stored(Some(expiry), none, "old");
        let ready = readiness(&auth, &secrets, None, NOW);
        assert!(matches!(ready, Ok(Readiness::Expired(_))), "{expiry}");
    }
}

// OAU-002
#[test]
fn an_expired_grant_without_renewal_is_unusable() {
    let (auth, secrets) = stored(Some("2000-01-01T00:00:00Z"), None, "old");
    let ready = readiness(&auth, &secrets, None, NOW);
    assert_eq!(ready, Err(Unusable::Expired));
}

// OAU-003
#[test]
fn the_request_has_the_stored_method_scope_and_resource() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let base = [
        pair("grant_type", "refresh_token"),
        pair("refresh_token", "r&1"),
    ];
    let client = pair("client_id", "a client:1");
    let end = [
        pair("scope", "read write"),
        pair("resource", "https://mcp.example/"),
    ];
    let none = asked(TokenMethod::None);
    let expected = [&base[..], std::slice::from_ref(&client), &end[..]].concat();
    assert_eq!((form(&none), &none.authorization), (expected, &None));
    let post = asked(TokenMethod::ClientSecretPost);
    let secret = [client, pair("client_secret", "s+%")];
    let expected = [&base[..], &secret[..], &end[..]].concat();
    assert_eq!((form(&post), &post.authorization), (expected, &None));
    let basic = asked(TokenMethod::ClientSecretBasic);
    assert_eq!(form(&basic), [&base[..], &end[..]].concat());
    let header = STANDARD.encode("a+client%3A1:s%2B%25");
    let header = Secret::from(format!("Basic {header}"));
    assert_eq!(basic.authorization, Some(header));
}

// OAU-007
#[test]
fn a_begun_exchange_is_waited_for_and_never_made_again() {
    let (auth, secrets) = stored(Some("2000-01-01T00:00:00Z"), Some(TokenMethod::None), "old");
    let at = |seconds| {
        readiness(
            &auth,
            &secrets,
            Some(NOW - Duration::from_secs(seconds)),
            NOW,
        )
    };
    assert_eq!(at(1), Ok(Readiness::UnderWay));
    assert_eq!(at(60), Err(Unusable::Uncertain));
}

// CRD-005
#[test]
fn what_is_no_bearer_token_is_never_sent() {
    for (token, fits) in [
        ("abc", true),
        ("a-._~+/9==", true),
        ("=", false),
        ("a=b", false),
        ("a b", false),
        ("a\r\nx: y", false),
        ("ü", false),
    ] {
        let (auth, secrets) = stored(None, None, token);
        let ready = readiness(&auth, &secrets, None, NOW);
        assert_eq!(ready.is_ok(), fits, "{token:?}");
    }
}

// OAU-004
#[test]
fn only_a_lasting_bearer_token_is_a_grant() {
    let good = [
        (r#"{"access_token":"n","token_type":"bearer"}"#, None),
        (
            r#"{"access_token":"n","token_type":"Bearer","expires_in":60,"x":1}"#,
            Some(60),
        ),
        (
            r#"{"access_token":"n","token_type":"BEARER","expires_in":"60"}"#,
            Some(60),
        ),
        (
            r#"{"access_token":"n","token_type":"bearer","expires_in":59.9}"#,
            Some(59),
        ),
        (
            r#"{"access_token":"n","token_type":"bearer","expires_in":null,"refresh_token":""}"#,
            None,
        ),
    ];
    for (body, lifetime) in good {
        let grant = Grant::parse(body.as_bytes()).unwrap();
        assert_eq!(grant.lifetime, lifetime.map(Duration::from_secs), "{body}");
        assert_eq!(grant.refresh_token, None, "{body}");
    }
    for bad in [
        "",
        "[]",
        r#"{"access_token":"n"}"#,
        r#"{"access_token":"","token_type":"bearer"}"#,
        r#"{"access_token":"n","token_type":"mac"}"#,
        r#"{"access_token":"a b","token_type":"bearer"}"#,
        r#"{"access_token":"n","token_type":"bearer","expires_in":0}"#,
        r#"{"access_token":"n","token_type":"bearer","expires_in":-5}"#,
        r#"{"access_token":"n","token_type":"bearer","expires_in":"soon"}"#,
        r#"{"error":"invalid_grant"}"#,
    ] {
        assert_eq!(Grant::parse(bad.as_bytes()), Err(NoGrant), "{bad}");
    }
}

// OAU-005
#[test]
fn a_grant_replaces_tokens_and_expiry_and_keeps_the_rest() {
    let parse = |text: &str| Grant::parse(text.as_bytes()).unwrap();
    let (mut auth, mut secrets) =
        stored(Some("2000-01-01T00:00:00Z"), Some(TokenMethod::None), "old");
    parse(r#"{"access_token":"n","token_type":"bearer","expires_in":60,"refresh_token":"r2"}"#)
        .apply(NOW, &mut auth, &mut secrets);
    let (mut expected, mut hidden) =
        stored(Some("2027-01-15T08:01:00Z"), Some(TokenMethod::None), "n");
    if let Some(refresh) = &mut hidden.refresh {
        refresh.refresh_token = Secret::from("r2".to_owned());
    }
    assert_eq!((&auth, &secrets), (&expected, &hidden));
    parse(r#"{"access_token":"m","token_type":"bearer"}"#).apply(NOW, &mut auth, &mut secrets);
    if let AuthView::McpOauth { expires_at, .. } = &mut expected {
        *expires_at = None;
    }
    hidden.token = Secret::from("m".to_owned());
    assert_eq!((auth, secrets), (expected, hidden));
}

#[test]
fn nothing_secret_is_printed() {
    let exchange = format!("{:?}", asked(TokenMethod::ClientSecretPost));
    assert!(!exchange.contains("r%261") && !exchange.contains("s%2B"));
    let grant = Grant::parse(
        br#"{"access_token":"canary","token_type":"bearer","refresh_token":"canary"}"#,
    );
    assert!(!format!("{grant:?}").contains("canary"));
}
