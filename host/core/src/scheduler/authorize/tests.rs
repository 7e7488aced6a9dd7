//! Against an issuer with a certificate of its own and answers that the test writes (OAU-001 to OAU-011).

use std::time::Duration;

use domain::lease::Authority;
use domain::{OwnerId, VaultId};
use serde_json::{Value, json};
use store::testing::TestDatabase;
use store::vaults::DeleteCredential;

use super::*;
use crate::api::tests::fixture::Fixture;
use crate::testing::issuer::{Issuer, Reply};

const SERVER: &str = "https://mcp.example/";

/// A Core that executes, an issuer, and an expired grant of that issuer.
struct Stage {
    api: Fixture,
    issuer: Issuer,
    authorizer: Arc<Authorizer>,
    path: String,
    wanted: CredentialUse,
}

impl Stage {
    async fn on(database: TestDatabase) -> Self {
        let api = Fixture::on(database).await;
        let owner = OwnerId::new(uuid::Uuid::new_v4());
        let store = &api.core.store;
        store.acquire_lease(owner, Authority::Folder).await.unwrap();
        let issuer = Issuer::start().await;
        let authorizer = Authorizer::new(Issuers::new(&issuer.settings()).unwrap());
        let vault = api.post("/v1/vaults", "{}").await.json()["id"].clone();
        let vault = vault.as_str().unwrap().to_owned();
        let path = format!("/v1/vaults/{vault}/credentials");
        let refresh = json!({
            "client_id": "client", "refresh_token": "canary-refresh-1", "token_endpoint": issuer.endpoint(),
            "token_endpoint_auth": {"type": "client_secret_basic", "client_secret": "canary-secret"}, "scope": "all",
        });
        let grant = json!({
            "type": "mcp_oauth", "mcp_server_url": SERVER, "access_token": "canary-access-1",
            "expires_at": "2020-01-01T00:00:00Z", "refresh": refresh,
        });
        let body = json!({"name": "n", "auth": grant}).to_string();
        let made = api.post(&path, &body).await;
        assert_eq!(made.status, 201, "{}", made.body);
        let id = made.json()["id"].as_str().unwrap().parse().unwrap();
        let wanted = CredentialUse {
            project: api.project,
            attached: vec![vault.parse().unwrap()],
            id,
            server_url: SERVER.to_owned(),
        };
        let authorizer = Arc::new(authorizer);
        Self {
            api,
            issuer,
            authorizer,
            path: format!("{path}/{id}"),
            wanted,
        }
    }

    async fn token(&self) -> Result<String, Denied> {
        let token = self
            .authorizer
            .token(&self.api.core.store, &self.wanted)
            .await?;
        Ok(token.as_str().unwrap().to_owned())
    }

    async fn auth(&self) -> Value {
        self.api.get(&self.path).await.json()["auth"].clone()
    }

    async fn patch(&self, auth: Value) {
        let answer = self
            .api
            .post(&self.path, &json!({"auth": auth}).to_string())
            .await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }

    /// Moves the database's clock.
    async fn later(&self, seconds: u64) {
        let move_clock = format!(
            "UPDATE clock SET offset_ms = offset_ms + {}",
            seconds * 1000
        );
        self.api.database.execute(&move_clock).await.unwrap();
    }

    /// Nothing secret is in an answer or in the database.
    async fn nothing_leaks(&self) {
        let texts = [self.api.get(&self.path).await.body, self.api.dump().await];
        assert!(texts.iter().all(|text| !text.contains("canary")));
    }
}

fn granted(access: &str, lifetime: Option<u64>, refresh: Option<&str>) -> Reply {
    let mut body = json!({"access_token": access, "token_type": "Bearer"});
    if let Some(lifetime) = lifetime {
        body["expires_in"] = lifetime.into();
    }
    if let Some(refresh) = refresh {
        body["refresh_token"] = refresh.into();
    }
    Reply::json(200, &body.to_string())
}

both!(one_of_many_renews_and_everybody_gets_the_new_token);
async fn one_of_many_renews_and_everybody_gets_the_new_token(database: TestDatabase) {
    // OAU-001, OAU-003, OAU-005
    let stage = Arc::new(Stage::on(database).await);
    stage.issuer.answer(granted(
        "canary-access-2",
        Some(3600),
        Some("canary-refresh-2"),
    ));
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let stage = stage.clone();
            tokio::spawn(async move { stage.token().await.unwrap() })
        })
        .collect();
    for caller in callers {
        assert_eq!(caller.await.unwrap(), "canary-access-2");
    }
    let asked = stage.issuer.asked();
    assert_eq!(asked.len(), 1, "single flight");
    let form = "grant_type=refresh_token&refresh_token=canary-refresh-1&scope=all";
    assert_eq!(asked[0].body, form);
    // client:canary-secret
    let basic = "Basic Y2xpZW50OmNhbmFyeS1zZWNyZXQ=";
    assert_eq!(asked[0].authorization.as_deref(), Some(basic));
    assert_eq!(asked[0].kind, "application/x-www-form-urlencoded");
    let until = stage.auth().await["expires_at"]
        .as_str()
        .unwrap()
        .to_owned();
    let until: jiff::Timestamp = until.parse().unwrap();
    let left = until.as_second() - stage.api.core.store.now().await.unwrap().seconds();
    assert!((3500..=3600).contains(&left), "{left} s");
    stage.nothing_leaks().await;

    // The next end asks with the rotated token; an issuer that gives none keeps it.
    stage.later(4000).await;
    stage
        .issuer
        .answer(granted("canary-access-3", Some(60), None));
    assert_eq!(stage.token().await.unwrap(), "canary-access-3");
    stage.later(100).await;
    stage.issuer.answer(granted("canary-access-4", None, None));
    assert_eq!(stage.token().await.unwrap(), "canary-access-4");
    let asked = stage.issuer.asked();
    assert_eq!(asked.len(), 3);
    assert!(
        asked[1..]
            .iter()
            .all(|asked| asked.body.contains("refresh_token=canary-refresh-2&"))
    );
    // Without an expiry nobody asks again.
    stage.later(1_000_000).await;
    assert_eq!(stage.auth().await["expires_at"], Value::Null);
    assert_eq!(stage.token().await.unwrap(), "canary-access-4");
    assert_eq!(stage.issuer.asked().len(), 3);
    stage.nothing_leaks().await;
}

both!(a_refusal_fails_this_work_and_leaves_the_next_its_own_attempt);
async fn a_refusal_fails_this_work_and_leaves_the_next_its_own_attempt(database: TestDatabase) {
    // OAU-003, OAU-007, OAU-008
    let stage = Stage::on(database).await;
    let elsewhere = Reply::json(302, "{}").to("https://localhost:1/token");
    let refusals = [
        (
            Reply::json(
                400,
                r#"{"error":"invalid_grant","error_description":"canary"}"#,
            ),
            400,
        ),
        (Reply::json(401, "canary"), 401),
        (elsewhere, 302),
        (Reply::json(503, "canary"), 503),
    ];
    for (count, (reply, status)) in refusals.into_iter().enumerate() {
        stage.issuer.answer(reply);
        let denied = stage.token().await.unwrap_err();
        let expected = ExchangeFault::Refused(status);
        assert!(
            matches!(denied, Denied::Exchange(fault) if fault == expected),
            "{denied:?}"
        );
        assert!(!format!("{denied:?} {denied}").contains("canary"));
        assert_eq!(
            stage.issuer.asked().len(),
            count + 1,
            "one request, no retry"
        );
    }
    stage.nothing_leaks().await;
    stage.issuer.answer(granted("canary-access-2", None, None));
    assert_eq!(stage.token().await.unwrap(), "canary-access-2");
}

both!(an_unknown_end_is_never_asked_again_until_the_credential_is_replaced);
async fn an_unknown_end_is_never_asked_again_until_the_credential_is_replaced(
    database: TestDatabase,
) {
    // OAU-004, OAU-007
    let stage = Stage::on(database).await;
    let unknown = [
        Reply::json(500, "canary"),
        Reply::hang_up(),
        Reply::json(200, "no grant, canary"),
        granted("canary-access-9", Some(0), None),
        Reply::json(200, &"x".repeat(70_000)),
    ];
    for (count, reply) in unknown.into_iter().enumerate() {
        stage.issuer.answer(reply);
        let denied = stage.token().await.unwrap_err();
        assert!(
            matches!(denied, Denied::Exchange(ExchangeFault::Unknown)),
            "{denied:?}"
        );
        // It may still be under way somewhere; later it is over, and nobody asks again.
        assert!(matches!(stage.token().await, Err(Denied::NotNow)));
        stage.later(60).await;
        let denied = stage.token().await.unwrap_err();
        assert!(
            matches!(denied, Denied::Unusable(UseFault::Unusable(_))),
            "{denied:?}"
        );
        assert_eq!(stage.issuer.asked().len(), count + 1);
        stage.nothing_leaks().await;
        // Authorized anew (CRD-011).
        let secret = json!({"refresh_token": format!("canary-refresh-{count}")});
        stage
            .patch(json!({"type": "mcp_oauth", "refresh": secret}))
            .await;
    }
    stage.issuer.answer(granted("canary-access-2", None, None));
    assert_eq!(stage.token().await.unwrap(), "canary-access-2");
    let last = stage.issuer.asked().pop().unwrap();
    assert!(last.body.contains("refresh_token=canary-refresh-4"));
}

both!(a_slow_issuer_never_undoes_a_replacement_or_a_deletion);
async fn a_slow_issuer_never_undoes_a_replacement_or_a_deletion(database: TestDatabase) {
    // OAU-006
    let stage = Arc::new(Stage::on(database).await);
    let asking = |stage: &Arc<Stage>| {
        let stage = stage.clone();
        tokio::spawn(async move { stage.token().await })
    };
    let held = stage
        .issuer
        .hold(granted("canary-stale", Some(3600), Some("canary-stale")));
    let asked = asking(&stage);
    stage.issuer.wait_for(1).await;
    stage
        .patch(json!({"type": "mcp_oauth", "access_token": "canary-mine"}))
        .await;
    held.release();
    assert_eq!(asked.await.unwrap().unwrap(), "canary-mine");
    assert_eq!(stage.auth().await["expires_at"], Value::Null);

    stage
        .patch(json!({"type": "mcp_oauth", "expires_at": "2020-01-01T00:00:00Z"}))
        .await;
    let held = stage.issuer.hold(granted("canary-stale", Some(3600), None));
    let asked = asking(&stage);
    stage.issuer.wait_for(2).await;
    assert!(
        stage.issuer.asked()[1].body.contains("canary-refresh-1"),
        "the stale rotation was not kept"
    );
    let delete = DeleteCredential {
        project: stage.wanted.project,
        vault: stage.wanted.attached[0],
        id: stage.wanted.id,
        by: None,
    };
    stage.api.core.store.write(delete).await.unwrap();
    held.release();
    let denied = asked.await.unwrap().unwrap_err();
    assert!(
        matches!(denied, Denied::Unusable(UseFault::Missing)),
        "{denied:?}"
    );
    assert_eq!(stage.api.get(&stage.path).await.status, 404);
}

both!(what_is_not_attached_or_for_another_server_gives_nothing);
async fn what_is_not_attached_or_for_another_server_gives_nothing(database: TestDatabase) {
    // SEL-019, SEL-021
    let stage = Stage::on(database).await;
    let none = || VaultId::new(uuid::Uuid::new_v4());
    let other = |change: fn(&mut CredentialUse)| {
        let mut wanted = stage.wanted.clone();
        change(&mut wanted);
        wanted
    };
    let mut elsewhere = stage.wanted.clone();
    elsewhere.attached = vec![none()];
    for wanted in [
        elsewhere,
        other(|wanted| wanted.attached.clear()),
        other(|wanted| wanted.server_url.push('x')),
        other(|wanted| wanted.project = domain::ProjectId::NEVER),
        other(|wanted| wanted.id = CredentialId::NEVER),
    ] {
        let denied = stage.authorizer.token(&stage.api.core.store, &wanted).await;
        assert!(
            matches!(denied, Err(Denied::Unusable(UseFault::Missing))),
            "{denied:?}"
        );
    }
    assert_eq!(stage.issuer.asked().len(), 0);
}

both!(an_issuer_that_is_not_trusted_or_not_there_is_never_asked);
async fn an_issuer_that_is_not_trusted_or_not_there_is_never_asked(database: TestDatabase) {
    // OAU-010, OAU-011
    let mut stage = Stage::on(database).await;
    let nobody = crate::issuers::IssuerSettings {
        trusted: Vec::new(),
        ..stage.issuer.settings()
    };
    let no_authority = crate::issuers::IssuerSettings {
        authorities: net::Authorities::default(),
        ..stage.issuer.settings()
    };
    for settings in [nobody, no_authority] {
        stage.authorizer = Arc::new(Authorizer::new(Issuers::new(&settings).unwrap()));
        let denied = stage.token().await.unwrap_err();
        assert!(
            matches!(denied, Denied::Exchange(ExchangeFault::NotSent)),
            "{denied:?}"
        );
    }
    assert_eq!(stage.issuer.asked().len(), 0);
    // Nothing was sent, so the next work may ask.
    stage.authorizer = Arc::new(Authorizer::new(
        Issuers::new(&stage.issuer.settings()).unwrap(),
    ));
    stage.issuer.answer(granted("canary-access-2", None, None));
    assert_eq!(stage.token().await.unwrap(), "canary-access-2");
    let settled = tokio::time::timeout(Duration::from_secs(5), stage.authorizer.settled());
    settled.await.expect("nothing is in flight");
}
