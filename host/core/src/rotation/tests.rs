//! Everything that is sealed, on both databases, from the key of the fixture to another one (KEY-001, KEY-005).

use domain::agent::SavedAgent;
use domain::blob::BlobRef;
use domain::lease::Authority;
use domain::{Digest, SessionId};
use serde_json::json;
use store::provider_state::{PutProviderState, StateKey};
use store::renewals::{CredentialUse, Opened};
use store::testing::TestDatabase;

use super::*;
use crate::api::tests::fixture::Fixture;

/// The key of the fixture, and the next one.
const OLD: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [8; 32];

fn secret(key: [u8; 32]) -> Secret {
    Secret::new(key)
}

/// What the fixture stored, one of each kind.
struct Stored {
    api: Fixture,
    agent: domain::AgentId,
    session: SessionId,
    template: domain::TemplateId,
    credential: CredentialUse,
    files: Vec<BlobRef>,
    artifact: Digest,
    skill: domain::SkillId,
}

impl Stored {
    async fn on(database: TestDatabase) -> Self {
        let api = Fixture::on(database).await;
        api.default_model().await;
        let store = &api.core.store;
        let made = async |path: &str, body: &str| -> String {
            let answer = api.post(path, body).await;
            assert_eq!(answer.status, 201, "{}", answer.body);
            answer.json()["id"].as_str().unwrap().to_owned()
        };
        let agent = json!({"model": "m", "x_agents_core": {"model_provider": {
            "protocol": "responses", "base_url": "https://models.example/v1", "api_key": "canary-agent"}}});
        let agent = made("/v1/agents", &agent.to_string()).await;
        let session = made(
            "/v1/agents/sessions",
            r#"{"environment":{"type":"openai_hosted"}}"#,
        )
        .await;
        let template = json!({"env": {"A": "canary-env"}, "setup_commands": [{"command": "canary"}],
            "files": [{"type": "inline", "data": "Y2FuYXJ5LWlubGluZQ==", "path": "/workspace/a"}]});
        let template = made("/v1/agents/environments/templates", &template.to_string()).await;
        let vault = made("/v1/vaults", "{}").await;
        let bearer = json!({"name": "n", "auth": {"type": "static_bearer", "mcp_server_url": "https://mcp.example/", "token": "canary"}});
        let credential = made(
            &format!("/v1/vaults/{vault}/credentials"),
            &bearer.to_string(),
        )
        .await;
        let file = api.file("a.txt", &b"canary-file".repeat(10_000)).await;
        let skill = api.skill("---\nname: s\ndescription: d\n---").await;
        store
            .acquire_lease(OwnerId::new(uuid::Uuid::new_v4()), Authority::Folder)
            .await
            .unwrap();
        let value = Some(secret([1; 32]));
        for scope in ["a", "b"] {
            let (key, value) = (state_key(scope), value.clone());
            store.write(PutProviderState { key, value }).await.unwrap();
        }
        let artifact = api
            .core
            .blobs
            .put_bytes(b"canary-artifact")
            .await
            .unwrap()
            .digest;
        let read = store.read();
        let project = api.project;
        let file = read
            .file(project, file.parse().unwrap())
            .await
            .unwrap()
            .unwrap();
        let id = template.parse().unwrap();
        let (found, _) = read.template_opened(project, id).await.unwrap().unwrap();
        let mut files = vec![file.content];
        files.extend(found.preparation.inline());
        Self {
            agent: agent.parse().unwrap(),
            session: session.parse().unwrap(),
            template: id,
            credential: CredentialUse {
                project,
                attached: vec![vault.parse().unwrap()],
                id: credential.parse().unwrap(),
                server_url: "https://mcp.example/".to_owned(),
            },
            files,
            artifact,
            skill: skill.parse().unwrap(),
            api,
        }
    }

    /// Opens the store and the blobs with a ring.
    async fn open(&self, ring: KeyRing) -> Result<(Store, Blobs), StoreError> {
        let mut settings = self.api.database.settings();
        settings.keys = Arc::new(ring);
        let store = Store::open(settings).await?;
        let blobs = Blobs::on_disk(self.api.folder.path(), store.keys().clone()).unwrap();
        Ok((store, blobs))
    }

    /// Opens each of them with the new key alone.
    async fn check_all(&self) {
        let new = ring(&secret(NEW), None).unwrap();
        let (store, blobs) = self.open(new).await.unwrap();
        let (read, project) = (store.read(), self.api.project);
        let agent: Option<SavedAgent> = read.agent(project, self.agent).await.unwrap();
        assert!(agent.is_some());
        let key = read.agent_provider_key(project, self.agent).await.unwrap();
        assert_eq!(key, Some(Secret::from("canary-agent".to_owned())));
        let frozen = read
            .configuration_secrets(project, self.session)
            .await
            .unwrap();
        assert!(frozen.unwrap().provider_key.is_some());
        assert!(read.model_default("test").await.unwrap().is_some());
        let (_, opened) = read
            .template_opened(project, self.template)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(opened.setup_commands.len(), 1);
        let token = read.open_credential(&self.credential).await.unwrap();
        assert_eq!(token, Ok(Opened::Ready(Secret::from("canary".to_owned()))));
        for scope in ["a", "b"] {
            let value = read.provider_state(&state_key(scope)).await.unwrap();
            assert_eq!(value, Some(secret([1; 32])));
        }
        for file in &self.files {
            let bytes = blobs.get_for(file).await.unwrap().read_all().await.unwrap();
            assert!(bytes.starts_with(b"canary-"), "{file:?}");
            assert_eq!(bytes.len() as u64, file.size);
        }
        let skill = read.skill(project, self.skill).await.unwrap().unwrap();
        let bundle = blobs.get_for(&skill.default.bundle).await.unwrap();
        assert!(!bundle.read_all().await.unwrap().is_empty());
        store.close().await;
    }
}

fn state_key(key: &str) -> StateKey {
    StateKey {
        provider: "local".to_owned(),
        allocation: None,
        key: key.to_owned(),
    }
}

both!(everything_opens_with_the_new_key_alone);
async fn everything_opens_with_the_new_key_alone(database: TestDatabase) {
    let stored = Stored::on(database).await;
    let rotating = || ring(&secret(NEW), Some(&secret(OLD))).unwrap();
    let (store, blobs) = stored.open(rotating()).await.unwrap();
    let stop = CancellationToken::new();
    // Interrupted before anything, then after it was complete.
    stop.cancel();
    let interrupted = rewrap(&store, &blobs, &stop).await;
    assert!(matches!(interrupted, Err(RotationError::Interrupted)));
    let go = CancellationToken::new();
    let first = rewrap(&store, &blobs, &go).await.unwrap();
    // Installation, default, Agent, Session, two of the Template, Credential, two of the provider; File, content, bundle.
    assert_eq!(
        first,
        Rotated {
            values: 9,
            blobs: 3
        }
    );
    assert_eq!(
        rewrap(&store, &blobs, &go).await.unwrap(),
        Rotated::default()
    );
    store.close().await;
    stored.check_all().await;
    // The former key alone opens nothing any more, and says so before it does anything.
    let former = stored.open(ring(&secret(OLD), None).unwrap()).await.err();
    assert!(
        matches!(former, Some(StoreError::WrongServiceKey { .. })),
        "{former:?}"
    );
    // Nobody names this blob, so it was left to the sweep.
    assert!(blobs.is_former(stored.artifact).await.unwrap());
}

both!(a_value_that_does_not_open_keeps_the_former_key);
async fn a_value_that_does_not_open_keeps_the_former_key(database: TestDatabase) {
    // KEY-002
    let stored = Stored::on(database).await;
    let (store, blobs) = stored
        .open(ring(&secret(NEW), Some(&secret(OLD))).unwrap())
        .await
        .unwrap();
    let moved = "UPDATE templates SET sealed_setup = sealed_variables";
    stored.api.database.execute(moved).await.unwrap();
    let refused = rewrap(&store, &blobs, &CancellationToken::new()).await;
    assert!(
        matches!(
            refused,
            Err(RotationError::Unreadable {
                count: 1,
                what: "values"
            })
        ),
        "{refused:?}"
    );
    stored
        .api
        .database
        .execute("UPDATE templates SET sealed_setup = NULL")
        .await
        .unwrap();
    // A reference whose owner nobody knows here is found too.
    let other = stored
        .api
        .core
        .blobs
        .put_bytes(b"another owner's")
        .await
        .unwrap();
    let name = other.digest;
    let insert = format!("INSERT INTO blob_references (blob, holder) VALUES ('{name}', 'x')");
    stored.api.database.execute(&insert).await.unwrap();
    let refused = rewrap(&store, &blobs, &CancellationToken::new()).await;
    assert!(
        matches!(
            refused,
            Err(RotationError::Unreadable {
                count: 1,
                what: "blobs"
            })
        ),
        "{refused:?}"
    );
    store.close().await;
}

#[tokio::test]
async fn nothing_is_moved_while_another_core_executes() {
    let stored = Stored::on(TestDatabase::sqlite()).await;
    let store::Location::File(file) = stored.api.database.location() else {
        panic!("on SQLite");
    };
    // The database of a data folder has a fixed name.
    let folder = tempfile::tempdir().unwrap();
    std::fs::hard_link(&file, folder.path().join("berth.db")).unwrap();
    let settings = |owner| RotationSettings {
        data_dir: folder.path().to_path_buf(),
        database: Database::Sqlite,
        key: secret(NEW),
        former_key: secret(OLD),
        installation: stored.api.core.store.installation(),
        owner,
    };
    let lease = stored.api.core.store.lease_row().await.unwrap();
    stored.api.core.store.close().await;
    let stop = CancellationToken::new();
    let other = OwnerId::new(uuid::Uuid::new_v4());
    let refused = rotate(settings(other), stop.clone()).await;
    assert!(matches!(refused, Err(RotationError::InUse)), "{refused:?}");
    let done = rotate(settings(lease.owner.unwrap()), stop).await.unwrap();
    assert_eq!(done.values, 9);
}
