//! Files, Skills and Templates: rows, references to blobs, and races on one Skill (SRC-018, SKL-020 to SKL-044, ENV-541).

use berth_store::{
    WriteError,
    files::{CreateFile, DeleteFile},
    provenance::{Administrator, Author},
    skills::{
        CreateSkill, DeleteSkill, DeleteSkillVersion, SetDefaultSkillVersion, Upload,
        UploadSkillVersion,
    },
    templates::{CreateTemplate, DeleteTemplate, UpdateTemplate},
    testing::TestDatabase,
};
use domain::{
    ProjectId, Refusal, SkillId, Timestamp,
    blob::{BlobOwner, BlobRef, BlobScope},
    file::File,
    json::{Field, Json},
    preparation::Content,
    skill::Manifest,
    template::TemplatePatch,
};

use crate::{
    fixture::{CANARY, Fixture, id},
    lists::walk,
};

fn file(project: ProjectId) -> File {
    let id = id();
    let owner = BlobOwner::File { id };
    let content = BlobScope { project, owner }.stored(domain::Digest::of(b"bytes"), 5);
    File {
        id,
        created_at: Timestamp::from_millis(0),
        filename: "a".to_owned(),
        content,
    }
}

fn upload(project: ProjectId, skill: SkillId, name: &str) -> Upload {
    let version = id();
    let owner = BlobOwner::SkillVersion { skill, version };
    let bundle = BlobScope { project, owner }.stored(domain::Digest::of(name.as_bytes()), 3);
    let manifest = Manifest {
        name: name.to_owned(),
        description: "d".to_owned(),
    };
    Upload {
        skill,
        version,
        manifest,
        bundle,
    }
}

fn template(project: ProjectId, text: &str) -> TemplatePatch<BlobRef> {
    let patch = TemplatePatch::parse(Json::new(text)).unwrap();
    TemplatePatch {
        name: patch.name,
        preparation: patch.preparation.with(|content: Content| {
            let owner = BlobOwner::Inline { id: id() };
            BlobScope { project, owner }.stored(domain::Digest::of(content.bytes()), 1)
        }),
    }
}

both! {
    async fn files_keep_their_bytes_while_they_live(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let made = store.write(CreateFile { file: file(project), provenance: None }).await.unwrap();
        let referenced = async || store.read().blob_is_referenced(&made.content.name().to_string()).await.unwrap();
        assert!(referenced().await);
        assert_eq!(store.read().file(project, made.id).await.unwrap().as_ref(), Some(&made));
        assert_eq!(store.read().file(id(), made.id).await.unwrap(), None);
        let delete = |project| DeleteFile { project, id: made.id, by: None };
        assert!(matches!(store.write(delete(id())).await, Err(WriteError::Refused(Refusal::NotFound))));
        assert!(referenced().await);
        store.write(delete(project)).await.unwrap();
        assert!(!referenced().await);
        assert!(matches!(store.write(delete(project)).await, Err(WriteError::Refused(Refusal::NotFound))));
        for _ in 0..6 {
            store.write(CreateFile { file: file(project), provenance: None }).await.unwrap();
        }
        walk(|file: &File| file.id.to_string(), |list| async move { store.read().files(project, &list).await }).await;
        store.close().await;
    }

    /// OPS-067, OPS-068: the same unit records an administrator's deletion in the audit log.
    async fn an_administrator_is_audited(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let made = store.write(CreateFile { file: file(project), provenance: None }).await.unwrap();
        let before = db.dump().await.unwrap().matches("audit_log").count();
        let by = Administrator { credential_id: "0011aabb".to_owned(), actor_label: None, request_id: None, trace_id: None };
        let unit = DeleteFile { project, id: made.id, by: Some(Author::Administrator(by)) };
        store.write(unit).await.unwrap();
        let dump = db.dump().await.unwrap();
        assert_eq!(dump.matches("audit_log").count(), before + 1);
        assert!(!dump.contains("write_operations "));
        store.close().await;
    }

    async fn numbers_of_versions_are_used_once(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let skill = id();
        let first = upload(project, skill, "one");
        let made = store.write(CreateSkill { upload: first.clone(), provenance: None }).await.unwrap();
        assert_eq!((made.default.number, made.latest), (1, 1));
        // SKL-020, SKL-023: concurrent uploads, while versions are deleted under them.
        let mut tasks = Vec::new();
        for number in 0..8 {
            let (store, upload) = (store.clone(), upload(project, skill, &format!("v{number}")));
            tasks.push(tokio::spawn(async move {
                let default = number % 2 == 0;
                let made = store.write(UploadSkillVersion { upload, default, provenance: None }).await.unwrap();
                let delete = DeleteSkillVersion { project, skill, number: made.number, by: None };
                (made.number, default, store.write(delete).await)
            }));
        }
        let mut numbers = Vec::new();
        for task in tasks {
            let (number, default, deleted) = task.await.unwrap();
            numbers.push(number);
            assert!(default || deleted.is_ok(), "{number}: {deleted:?}");
            if let Err(WriteError::Refused(refusal)) = deleted {
                assert_eq!(refusal, Refusal::DefaultSkillVersion);
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (2..=9).collect::<Vec<_>>());
        let next = store.write(UploadSkillVersion { upload: upload(project, skill, "last"), default: false, provenance: None }).await.unwrap();
        assert_eq!(next.number, 10);
        let now = store.read().skill(project, skill).await.unwrap().unwrap();
        assert_eq!(now.latest, 10);
        let moved = store.write(SetDefaultSkillVersion { project, skill, number: 10, provenance: None }).await.unwrap();
        assert_eq!((moved.default.manifest.name.as_str(), moved.created_at), ("last", made.created_at));
        let missing = SetDefaultSkillVersion { project, skill, number: 99, provenance: None };
        assert!(matches!(store.write(missing).await, Err(WriteError::Refused(Refusal::NotFound))));
        assert_eq!(store.read().skill_of_version(project, next.id).await.unwrap(), Some(skill));
        assert_eq!(store.read().skill_of_version(id(), next.id).await.unwrap(), None);
        store.write(DeleteSkill { project, skill, by: None }).await.unwrap();
        assert!(!store.read().blob_is_referenced(&next.bundle.name().to_string()).await.unwrap());
        let dump = db.dump().await.unwrap();
        assert!(!dump.contains("skill_versions ") && !dump.contains("blob_references "));
        store.close().await;
    }

    async fn skills_and_versions_page(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let mut skill = id();
        for _ in 0..5 {
            skill = id();
            store.write(CreateSkill { upload: upload(project, skill, "s"), provenance: None }).await.unwrap();
        }
        for _ in 0..4 {
            store.write(UploadSkillVersion { upload: upload(project, skill, "s"), default: false, provenance: None }).await.unwrap();
        }
        walk(|skill: &domain::skill::Skill| skill.id.to_string(), |list| async move { store.read().skills(project, &list).await }).await;
        walk(|version: &domain::skill::SkillVersion| version.id.to_string(), |list| async move { store.read().skill_versions(project, skill, &list).await }).await;
        store.close().await;
    }

    /// ENV-438, ENV-441 to ENV-445, KEY-006.
    async fn templates_hide_what_is_confidential(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let text = format!(r#"{{"name":"n","env":{{"A":"{CANARY}"}},"setup_commands":[{{"command":"{CANARY}"}}],"files":[{{"type":"inline","data":"YQ==","path":"/workspace/a"}}]}}"#);
        let made = store.write(CreateTemplate { project, id: id(), patch: template(project, &text), provenance: None }).await.unwrap();
        assert!(!db.dump().await.unwrap().contains(CANARY));
        let (shown, hidden) = store.read().template_opened(project, made.id).await.unwrap().unwrap();
        assert_eq!(shown, made);
        assert_eq!(hidden.env.pairs().collect::<Vec<_>>(), [("A", CANARY)]);
        assert_eq!(hidden.setup_commands[0].command, CANARY);
        assert_eq!(store.read().template(id(), made.id).await.unwrap(), None);
        let blob = made.preparation.inline().next().unwrap().name().to_string();
        assert!(store.read().blob_is_referenced(&blob).await.unwrap());
        let patch = TemplatePatch { name: Field::Null, ..template(project, r#"{"files":[],"env":null}"#) };
        let update = |patch| UpdateTemplate { project, id: made.id, patch, provenance: None };
        let changed = store.write(update(patch)).await.unwrap();
        assert_eq!((changed.name, changed.preparation.files.len()), (None, 0));
        assert!(!store.read().blob_is_referenced(&blob).await.unwrap());
        let (_, hidden) = store.read().template_opened(project, made.id).await.unwrap().unwrap();
        assert!(hidden.env.is_empty() && hidden.setup_commands.len() == 1);
        // W-ID-4: a reference that names nothing writes nothing.
        let before = db.dump().await.unwrap();
        for text in [r#"{"files":[{"type":"file_id","file_id":"file-x","path":"/workspace/a"}]}"#, r#"{"skills":[{"type":"skill_reference","skill_id":"x"}]}"#] {
            let refused = store.write(update(template(project, text))).await;
            assert!(matches!(refused, Err(WriteError::Refused(Refusal::NotFound))));
        }
        assert_eq!(db.dump().await.unwrap(), before);
        for _ in 0..4 {
            store.write(CreateTemplate { project, id: id(), patch: template(project, "{}"), provenance: None }).await.unwrap();
        }
        walk(|one: &domain::template::Template| one.id.to_string(), |list| async move { store.read().templates(project, &list).await }).await;
        store.write(DeleteTemplate { project, id: made.id, by: None }).await.unwrap();
        assert_eq!(store.read().template(project, made.id).await.unwrap(), None);
        store.close().await;
    }
}
