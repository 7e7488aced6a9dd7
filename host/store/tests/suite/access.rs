//! Projects, keys, Agents, defaults, provider state, records.

use std::time::Duration;

use berth_store::{
    StoreError, WriteError,
    agents::{CreateAgent, DeleteAgent, UpdateAgent},
    model_defaults::{ClearModelDefault, SetModelDefault},
    projects::{
        ArchiveProject, CreateProject, IssueApiKey, ProjectRefusal, RenameProject, RevokeApiKey,
    },
    provenance::{Administrator, Author, Provenance},
    provider_state::{PutProviderState, StateKey},
    retries::{Keyed, RetryKey},
    selections::SelectProvider,
    testing::{TestDatabase, move_clock},
    units::retention::PruneWriteOperations,
};
use domain::{
    Digest, KeyId, ProjectId, Refusal, Timestamp,
    agent::{AgentConfiguration, AgentExtension, AgentPatch, SavedAgent},
    json::{Field, Opaque},
    metadata::Metadata,
    model::{ModelConfiguration, ProviderBundle, ProviderView},
    run::ModelProtocol,
    selection::{Choice, SelectionRefused},
};

use futures_util::future::join_all;

use crate::fixture::{CANARY, Fixture, id};

fn administrator() -> Option<Administrator> {
    Some(Administrator {
        credential_id: "0011aabb".to_owned(),
        actor_label: None,
        request_id: None,
        trace_id: None,
    })
}

fn issue(project: ProjectId, secret: &str) -> IssueApiKey {
    IssueApiKey {
        id: id(),
        project,
        name: "key".to_owned(),
        prefix: secret.chars().take(9).collect(),
        digest: Digest::of(secret.as_bytes()),
        by: administrator(),
    }
}

fn agent() -> SavedAgent {
    SavedAgent {
        id: id(),
        created_at: Timestamp::from_millis(0),
        updated_at: Timestamp::from_millis(0),
        name: Some("helper".to_owned()),
        metadata: Metadata::default(),
        configuration: AgentConfiguration::from_patch(AgentPatch::default(), "gpt".to_owned()),
        extension: AgentExtension::default(),
    }
}

both! {
    /// W-AUTH-2, OPS-034, OPS-035: revocation and archive count from the next request on.
    async fn keys_live_and_die_in_the_database(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let one = store.write(issue(project, "berth_sk_one")).await.unwrap();
        let two = store.write(issue(project, "berth_sk_two")).await.unwrap();
        let caller = store.read().authenticate(Digest::of(b"berth_sk_one")).await.unwrap().unwrap();
        assert_eq!((caller.project, caller.key), (project, one.id));
        assert_eq!(store.read().authenticate(Digest::of(b"berth_sk_none")).await.unwrap(), None);
        store.write(RevokeApiKey { id: one.id, project, by: administrator() }).await.unwrap();
        let before = db.dump().await.unwrap();
        store.write(RevokeApiKey { id: one.id, project, by: administrator() }).await.unwrap();
        assert_eq!(db.dump().await.unwrap(), before);
        let foreign: ProjectId = id();
        let wrong = store.write(RevokeApiKey { id: two.id, project: foreign, by: administrator() }).await;
        assert!(matches!(wrong, Err(WriteError::Refused(ProjectRefusal::NotFound))));
        assert_eq!(store.read().authenticate(Digest::of(b"berth_sk_one")).await.unwrap(), None);
        assert!(!store.read().key_is_valid(one.id).await.unwrap());
        assert!(store.read().key_is_valid(two.id).await.unwrap());
        assert_eq!(store.read().project(project).await.unwrap().unwrap().active_key_count, 1);

        let archived = store.write(ArchiveProject { id: project, by: administrator() }).await.unwrap();
        assert!(archived.archived_at.is_some() && archived.active_key_count == 0);
        assert!(!store.read().key_is_valid(two.id).await.unwrap());
        let late = store.write(issue(project, "berth_sk_late")).await;
        assert!(matches!(late, Err(WriteError::Refused(ProjectRefusal::Archived))));
        let again = store.write(ArchiveProject { id: project, by: administrator() }).await.unwrap();
        assert_eq!(again.archived_at, archived.archived_at);
        let missing = store.write(issue(foreign, "berth_sk_x")).await;
        assert!(matches!(missing, Err(WriteError::Refused(ProjectRefusal::NotFound))));
        let renamed = store.write(RenameProject { id: project, name: "new".to_owned(), by: administrator() }).await.unwrap();
        assert_eq!(renamed.name, "new");
        let audit = db.dump().await.unwrap();
        for action in ["create", "revoke", "archive", "rename"] {
            assert!(audit.lines().any(|line| line.starts_with("audit_log") && line.ends_with(action)), "{action}");
        }
        assert!(!audit.contains("berth_sk_one"), "a key is stored");
        store.close().await;
    }

    /// S-AG-10, S-AG-12, MDL-028.
    async fn agents_change_and_go(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let key: KeyId = id();
        let by = Some(Provenance { key, request_id: Some("req_1".to_owned()), trace_id: None });
        let unit = CreateAgent { project, agent: agent(), provider_key: Some(CANARY.to_owned().into()), provenance: by.clone() };
        let made = store.write(unit).await.unwrap();
        assert!(made.created_at.millis() > 0 && made.created_at == made.updated_at);
        assert_eq!(store.read().agent(project, made.id).await.unwrap().unwrap(), made);
        let foreign: ProjectId = id();
        assert_eq!(store.read().agent(foreign, made.id).await.unwrap(), None);
        assert_eq!(store.read().agent_provider_key(project, made.id).await.unwrap().unwrap().as_str(), Some(CANARY));
        let patch = || AgentPatch { name: Field::Value("other".to_owned()), ..AgentPatch::default() };
        let changed = store.write(UpdateAgent { project, id: made.id, patch: patch(), provenance: by.clone() }).await.unwrap();
        assert_eq!(changed.name.as_deref(), Some("other"));
        assert!(changed.updated_at >= made.updated_at);
        // S-AG-15: clearing the extension clears the sealed key with it.
        let clear = AgentPatch { extension: Field::Null, ..AgentPatch::default() };
        store.write(UpdateAgent { project, id: made.id, patch: clear, provenance: None }).await.unwrap();
        assert!(store.read().agent_provider_key(project, made.id).await.unwrap().is_none());
        let before = db.dump().await.unwrap();
        let wrong = store.write(UpdateAgent { project: foreign, id: made.id, patch: patch(), provenance: None }).await;
        assert!(matches!(wrong, Err(WriteError::Refused(Refusal::NotFound))));
        assert_eq!(db.dump().await.unwrap(), before);
        store.write(DeleteAgent { project, id: made.id, by: by.map(Author::Key) }).await.unwrap();
        let twice = store.write(DeleteAgent { project, id: made.id, by: None }).await;
        assert!(matches!(twice, Err(WriteError::Refused(Refusal::NotFound))));
        assert_eq!(store.read().agent(project, made.id).await.unwrap(), None);
        let records = db.dump().await.unwrap();
        let recorded = records.lines().filter(|line| line.starts_with("write_operations")).count();
        assert_eq!(recorded, 3, "one record for each write with a caller (OPS-060)");
        store.close().await;
    }

    /// OPS-066: records of creations stay; others go after their time, a bounded number at once.
    async fn records_of_writes_go_after_their_time(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let hour = Duration::from_secs(3600);
        let retention_ms = 3_600_000;
        let key: KeyId = id();
        let by = Some(Provenance { key, request_id: None, trace_id: None });
        let unit = CreateAgent { project, agent: agent(), provider_key: None, provenance: by.clone() };
        let agent = store.write(unit).await.unwrap().id;
        let update = || UpdateAgent { project, id: agent, patch: AgentPatch::default(), provenance: by.clone() };
        for _ in 0..5 {
            store.write(update()).await.unwrap();
        }
        let prune = async || store.write(PruneWriteOperations { retention_ms, most: 3 }).await.unwrap();
        assert_eq!(prune().await, 0, "nothing is old");
        move_clock(store, hour + Duration::from_secs(1)).await.unwrap();
        store.write(update()).await.unwrap();
        assert_eq!((prune().await, prune().await, prune().await), (3, 2, 0));
        let records = db.dump().await.unwrap();
        let kept: Vec<_> = records.lines().filter(|line| line.starts_with("write_operations")).collect();
        assert_eq!(kept.len(), 2, "{kept:?}");
        for action in ["create", "update"] {
            assert!(kept.iter().any(|line| line.ends_with(action)), "{kept:?}");
        }
        store.close().await;
    }

    /// SP-2.1, SP-2.2, SP-2.6: of many changes at one generation one is made, and every generation stays as it was.
    async fn one_provider_is_selected(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let store = &fixture.store;
        let first = store.read().selection().await.unwrap();
        assert_eq!((first.generation, first.choice.provider.as_deref()), (1, Some("local")));
        let choice = |size: usize| Choice {
            provider: Some("local".to_owned()),
            settings: [("size".to_owned(), size.to_string())].into(),
        };
        let change = |expected, choice| {
            store.write(SelectProvider { expected, choice, secrets: Default::default(), by: administrator().unwrap() })
        };
        let made = join_all((0..20).map(|size| change(1, choice(size)))).await;
        let (won, lost): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1);
        assert!(lost.iter().all(|answer| {
            matches!(answer, Err(WriteError::Refused(SelectionRefused::Stale(2))))
        }));
        let second = won.into_iter().next().unwrap().unwrap();
        assert_eq!(store.read().selection().await.unwrap(), second);
        let before = db.dump().await.unwrap();
        assert_eq!(change(2, second.choice.clone()).await.unwrap(), second);
        assert_eq!(db.dump().await.unwrap(), before);
        let none = Choice { provider: None, settings: [].into() };
        assert_eq!(change(2, none).await.unwrap().generation, 3);
        let read = store.read();
        assert_eq!(read.selection_of(1).await.unwrap(), Some(first));
        assert_eq!(read.selection_of(2).await.unwrap(), Some(second));
        assert_eq!(read.selection_of(4).await.unwrap(), None);
        store.close().await;
    }

    /// W-IDEM-3, W-IDEM-5, W-IDEM-11, F20: a key and its resource are committed together, for whoever comes first.
    async fn a_key_makes_one_resource(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let create = |request: &str| Keyed {
            unit: CreateAgent { project, agent: agent(), provider_key: None, provenance: None },
            retry: Some(RetryKey { key: "k".to_owned(), digest: Digest::of(request.as_bytes()) }),
        };
        let made = join_all((0..20).map(|_| store.write(create("a")))).await;
        let made: Vec<_> = made.into_iter().map(Result::unwrap).collect();
        assert!(made.iter().all(|agent| *agent == made[0]));
        let conflict = store.write(create("b")).await;
        assert!(matches!(conflict, Err(WriteError::Refused(Refusal::KeyConflict))));
        store.write(DeleteAgent { project, id: made[0].id, by: None }).await.unwrap();
        let gone = store.write(create("a")).await;
        assert!(matches!(gone, Err(WriteError::Refused(Refusal::KeyConflict))));
        let rows = db.dump().await.unwrap();
        assert_eq!(rows.lines().filter(|line| line.starts_with("agents ")).count(), 1);
        store.close().await;
    }

    /// DEF-001, DEF-004.
    async fn model_defaults_are_sealed_and_versioned(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let store = &fixture.store;
        let set = || SetModelDefault {
            harness: "codex".to_owned(),
            configuration: ModelConfiguration {
                provider: ProviderBundle {
                    view: ProviderView {
                        protocol: ModelProtocol::Responses,
                        base_url: "https://model.test/v1".to_owned(),
                        context_window: None,
                        max_output_tokens: None,
                    },
                    api_key: CANARY.to_owned().into(),
                },
                model: "gpt".to_owned(),
                harness_config: Opaque::empty_object(),
            },
            by: administrator().unwrap(),
        };
        let first = store.write(set()).await.unwrap();
        let second = store.write(set()).await.unwrap();
        assert_ne!(first.revision, second.revision);
        let (found, key) = store.read().model_default("codex").await.unwrap().unwrap();
        assert_eq!((found, key.as_str()), (second.clone(), Some(CANARY)));
        assert_eq!(store.read().model_defaults().await.unwrap(), [second]);
        let clear = || ClearModelDefault { harness: "codex".to_owned(), by: administrator().unwrap() };
        assert!(store.write(clear()).await.unwrap());
        assert!(!store.write(clear()).await.unwrap());
        assert!(store.read().model_default("codex").await.unwrap().is_none());
        store.close().await;
    }

    /// SP-14.2, SP-4.9.
    async fn providers_remember_under_the_lease(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let store = &fixture.store;
        let key = StateKey { provider: "local".to_owned(), allocation: Some(id2()), key: "token".to_owned() };
        let put = |value: Option<&str>| PutProviderState {
            key: key.clone(),
            value: value.map(|value| value.to_owned().into()),
        };
        store.write(put(Some("one"))).await.unwrap();
        store.write(put(Some("two"))).await.unwrap();
        assert_eq!(store.read().provider_state(&key).await.unwrap().unwrap().as_str(), Some("two"));
        let other = StateKey { allocation: None, ..key.clone() };
        assert!(store.read().provider_state(&other).await.unwrap().is_none());
        store.write(put(None)).await.unwrap();
        assert!(store.read().provider_state(&key).await.unwrap().is_none());
        store.release_lease().await.unwrap();
        assert!(matches!(store.write(put(Some("late"))).await, Err(WriteError::Store(StoreError::LeaseLost))));
        store.close().await;
    }

    async fn names_may_repeat(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        for _ in 0..2 {
            fixture.store.write(CreateProject { id: id(), name: "same".to_owned(), by: administrator() }).await.unwrap();
        }
        fixture.store.close().await;
    }
}

fn id2() -> domain::AllocationId {
    domain::AllocationId::new(uuid::Uuid::new_v4())
}
