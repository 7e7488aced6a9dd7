//! Vaults and Credentials over the API: shapes, replacement, and that no secret ever comes out (VLT, CRD, KEY).

use store::testing::TestDatabase;

use super::fixture::{CORE_KEY, Fixture};

const BEARER: &str = r#"{"name":" n ","auth":{"type":"static_bearer","mcp_server_url":"https://mcp.example/a?b","token":"canary-token"}}"#;
const GRANT: &str = r#"{"name":"n","auth":{"type":"mcp_oauth","mcp_server_url":"https://mcp.example/","access_token":"canary-access","expires_at":"2030-01-01T00:00:00Z","refresh":{"client_id":"c","refresh_token":"canary-refresh","token_endpoint":"https://issuer.example/t","token_endpoint_auth":{"type":"client_secret_basic","client_secret":"canary-secret"},"scope":"all"}}}"#;

async fn vault(fixture: &Fixture) -> String {
    let made = fixture
        .post(
            "/v1/vaults",
            r#"{"name":" a ","metadata":{"z":"1","b":"2"}}"#,
        )
        .await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.json()["id"].as_str().unwrap().to_owned()
}

both!(shapes_are_exact_and_secrets_stay_inside);
async fn shapes_are_exact_and_secrets_stay_inside(database: TestDatabase) {
    // VLT-002, VLT-024, CRD-003
    let fixture = Fixture::on(database).await;
    let id = vault(&fixture).await;
    let shown = fixture.get(&format!("/v1/vaults/{id}")).await;
    let at = shown.json()["created_at"].clone();
    assert_eq!(
        shown.body,
        format!(
            r#"{{"id":"{id}","object":"vault","created_at":{at},"name":"a","metadata":{{"z":"1","b":"2"}}}}"#
        )
    );
    let path = format!("/v1/vaults/{id}/credentials");
    let bearer = fixture.post(&path, BEARER).await;
    let one = bearer.json()["id"].as_str().unwrap().to_owned();
    let at = bearer.json()["created_at"].clone();
    assert_eq!(
        (bearer.status, bearer.body.clone()),
        (
            201,
            format!(
                r#"{{"id":"{one}","object":"vault.credential","vault_id":"{id}","name":"n","auth":{{"type":"static_bearer","mcp_server_url":"https://mcp.example/a?b"}},"created_at":{at},"updated_at":{at}}}"#
            )
        )
    );
    let grant = fixture.post(&path, GRANT).await.json();
    assert_eq!(
        grant["auth"].to_string(),
        r#"{"type":"mcp_oauth","mcp_server_url":"https://mcp.example/","expires_at":"2030-01-01T00:00:00Z","refresh":{"client_id":"c","token_endpoint":"https://issuer.example/t","token_endpoint_auth":{"type":"client_secret_basic"},"resource":null,"scope":"all"}}"#
    );
    let two = grant["id"].as_str().unwrap().to_owned();
    let replaced = fixture
        .post(
            &format!("{path}/{one}"),
            r#"{"auth":{"type":"static_bearer","token":"canary-other"}}"#,
        )
        .await;
    assert_eq!(replaced.json()["created_at"], bearer.json()["created_at"]);
    let patched = fixture
        .post(
            &format!("{path}/{two}"),
            r#"{"auth":{"type":"mcp_oauth","access_token":"canary-new","refresh":{"scope":null}}}"#,
        )
        .await
        .json();
    assert_eq!(
        (
            &patched["auth"]["expires_at"],
            &patched["auth"]["refresh"]["scope"]
        ),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    let everything = [
        fixture.get(&path).await.body,
        fixture.get(&format!("{path}/{one}")).await.body,
        fixture.get("/v1/vaults").await.body,
        fixture.dump().await,
    ];
    assert!(everything.iter().all(|text| !text.contains("canary")));
    // The file itself, not only what the dump shows of it.
    if let store::Location::File(path) = fixture.database.location() {
        for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            assert!(!bytes.windows(6).any(|part| part == b"canary"));
        }
    }
}

both!(a_failed_replacement_changes_nothing);
async fn a_failed_replacement_changes_nothing(database: TestDatabase) {
    // CRD-007, CRD-012 to CRD-014
    let fixture = Fixture::on(database).await;
    let id = vault(&fixture).await;
    let path = format!("/v1/vaults/{id}/credentials");
    let one = fixture.post(&path, BEARER).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let before = fixture.dump().await;
    for (body, param) in [
        (
            r#"{"auth":{"type":"mcp_oauth","access_token":"x"}}"#,
            "auth.type",
        ),
        (
            r#"{"auth":{"type":"static_bearer","token":""}}"#,
            "auth.token",
        ),
        (
            r#"{"name":"x","auth":{"type":"static_bearer","token":"x"}}"#,
            "name",
        ),
    ] {
        let answer = fixture.post(&format!("{path}/{one}"), body).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["param"].as_str()),
            (400, Some(param)),
            "{body}"
        );
    }
    // Through another Vault of the same Project it is missing (VLT-020).
    let other = vault(&fixture).await;
    let before_other = fixture.dump().await;
    assert_ne!(before, before_other);
    let wrong = format!("/v1/vaults/{other}/credentials/{one}");
    assert_eq!(fixture.get(&wrong).await.status, 404);
    assert_eq!(
        fixture
            .post(&wrong, r#"{"auth":{"type":"static_bearer","token":"x"}}"#)
            .await
            .status,
        404
    );
    assert_eq!(
        fixture
            .send("DELETE", &wrong, Some(&fixture.key), None)
            .await
            .status,
        404
    );
    assert_eq!(fixture.dump().await, before_other);
}

both!(a_vault_goes_with_its_credentials);
async fn a_vault_goes_with_its_credentials(database: TestDatabase) {
    // VLT-012, VLT-025, DEL-002, W-LIST-10
    let fixture = Fixture::on(database).await;
    let id = vault(&fixture).await;
    let path = format!("/v1/vaults/{id}");
    fixture.post(&format!("{path}/credentials"), BEARER).await;
    for (query, count) in [
        ("", 1),
        ("?status=active", 1),
        ("?status[]=archived", 0),
        ("?status=archived&status[]=active", 1),
        ("?limit=-3", 1),
    ] {
        for list in ["/v1/vaults".to_owned(), format!("{path}/credentials")] {
            let page = fixture.get(&format!("{list}{query}")).await;
            assert_eq!(
                page.json()["data"].as_array().map(Vec::len),
                Some(count),
                "{list}{query}: {}",
                page.body
            );
        }
    }
    assert_eq!(
        fixture.get("/v1/vaults?status=x&limit=y").await.json()["error"]["message"],
        "Failed to deserialize query string: status: data did not match any variant of untagged enum VaultStatusFilterParam"
    );
    let deleted = fixture
        .send("DELETE", &path, Some(&fixture.key), None)
        .await;
    assert_eq!(
        deleted.body,
        format!(r#"{{"id":"{id}","object":"vault.deleted","deleted":true}}"#)
    );
    for (method, path) in [
        ("GET", path.clone()),
        ("DELETE", path.clone()),
        ("GET", format!("{path}/credentials")),
    ] {
        assert_eq!(
            fixture
                .send(method, &path, Some(&fixture.key), None)
                .await
                .status,
            404
        );
    }
    assert_eq!(
        fixture
            .post(&format!("{path}/credentials"), BEARER)
            .await
            .status,
        404
    );
    assert!(!fixture.dump().await.contains("credentials "));
    // A Core key is no Project key here.
    assert_eq!(
        fixture
            .send("GET", "/v1/vaults", Some(CORE_KEY), None)
            .await
            .status,
        401
    );
}
