//! Vaults and Credentials: seals, replacement under the lock, deletion (KEY-001, KEY-002, CRD-007, VLT-025).

use berth_store::{
    StoreError, WriteError,
    testing::TestDatabase,
    vaults::{
        CreateCredential, CreateVault, DeleteCredential, DeleteVault, ReplaceCredential,
        ReplaceRefusal,
    },
};
use domain::{
    ProjectId, Refusal, Timestamp, VaultId,
    json::{Json, Opaque},
    vault::{AuthPatch, Credential, CredentialCreation, ReplaceFault, Status, Vault},
};

use crate::{
    fixture::{CANARY, Fixture, id},
    lists::walk,
};

fn vault() -> Vault {
    Vault {
        id: id(),
        created_at: Timestamp::from_millis(0),
        name: None,
        metadata: Opaque::empty_object(),
    }
}

fn bearer(project: ProjectId, vault: VaultId) -> CreateCredential {
    let text = format!(
        r#"{{"name":"n","auth":{{"type":"static_bearer","mcp_server_url":"https://h","token":"{CANARY}"}}}}"#
    );
    let made = CredentialCreation::parse(Json::new(&text)).unwrap();
    CreateCredential {
        project,
        credential: Credential {
            id: id(),
            vault,
            name: made.name,
            auth: made.auth,
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        },
        secrets: made.secrets,
        provenance: None,
    }
}

fn patch(text: &str) -> AuthPatch {
    AuthPatch::parse(Json::new(text)).unwrap()
}

both! {
    async fn credentials_are_sealed_and_replaced(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let vault = store.write(CreateVault { project, vault: vault(), provenance: None }).await.unwrap();
        let made = store.write(bearer(project, vault.id)).await.unwrap();
        assert!(!db.dump().await.unwrap().contains(CANARY));
        let replace = |project, vault, text: &str| ReplaceCredential { project, vault, id: made.id, patch: patch(text), provenance: None };
        let token = r#"{"auth":{"type":"static_bearer","token":"x"}}"#;
        let changed = store.write(replace(project, vault.id, token)).await.unwrap();
        assert_eq!((changed.auth, changed.created_at), (made.auth.clone(), made.created_at));
        // Another kind is refused, and so is everybody else's Credential.
        let other = store.write(replace(project, vault.id, r#"{"auth":{"type":"mcp_oauth","access_token":"x"}}"#)).await;
        assert!(matches!(other, Err(WriteError::Refused(ReplaceRefusal::Fault(ReplaceFault::Kind)))));
        for (project, vault) in [(id(), vault.id), (project, id())] {
            assert!(matches!(store.write(replace(project, vault, token)).await, Err(WriteError::Refused(ReplaceRefusal::NotFound))));
            assert_eq!(store.read().credential(project, vault, made.id).await.unwrap(), None);
        }
        for _ in 0..4 {
            store.write(bearer(project, vault.id)).await.unwrap();
            store.write(CreateVault { project, vault: self::vault(), provenance: None }).await.unwrap();
        }
        for status in [None, Some(Status::Active)] {
            walk(|one: &Vault| one.id.to_string(), |list| async move { store.read().vaults(project, status, &list).await }).await;
            walk(|one: &Credential| one.id.to_string(), |list| async move { store.read().credentials(vault.id, status, &list).await }).await;
        }
        store.write(DeleteCredential { project, vault: vault.id, id: made.id, by: None }).await.unwrap();
        store.write(DeleteVault { project, id: vault.id, by: None }).await.unwrap();
        assert!(!db.dump().await.unwrap().contains("credentials "));
        assert!(matches!(store.write(bearer(project, vault.id)).await, Err(WriteError::Refused(Refusal::NotFound))));
        store.close().await;
    }

    /// KEY-002: a sealed value that was moved to another row does not open there.
    async fn a_moved_secret_does_not_open(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let vault = store.write(CreateVault { project, vault: vault(), provenance: None }).await.unwrap();
        let one = store.write(bearer(project, vault.id)).await.unwrap();
        let two = store.write(bearer(project, vault.id)).await.unwrap();
        db.execute(&format!(
            "UPDATE credentials SET sealed = (SELECT o.sealed FROM credentials o WHERE o.id = '{}') WHERE id = '{}'",
            one.id, two.id
        ))
        .await
        .unwrap();
        let replace = |id| ReplaceCredential { project, vault: vault.id, id, patch: patch(r#"{"auth":{"type":"static_bearer","token":"x"}}"#), provenance: None };
        assert!(matches!(store.write(replace(two.id)).await, Err(WriteError::Store(StoreError::Seal(_)))));
        store.write(replace(one.id)).await.unwrap();
        store.close().await;
    }

    /// DEL-002: however a creation and the deletion of its Vault meet, nothing is left over.
    async fn a_deleted_vault_takes_what_comes_at_the_same_time(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        for _ in 0..8 {
            let vault = store.write(CreateVault { project, vault: vault(), provenance: None }).await.unwrap();
            let (adding, deleting) = (store.clone(), store.clone());
            let add = tokio::spawn(async move { adding.write(bearer(project, vault.id)).await.is_ok() });
            let delete = tokio::spawn(async move { deleting.write(DeleteVault { project, id: vault.id, by: None }).await });
            let _ = add.await.unwrap();
            delete.await.unwrap().unwrap();
        }
        assert!(!db.dump().await.unwrap().contains("credentials "));
        store.close().await;
    }
}
