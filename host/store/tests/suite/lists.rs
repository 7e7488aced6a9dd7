//! W-LIST-5 to W-LIST-8 over every list.

use berth_store::{
    projects::CreateProject,
    read::{List, ListError, Order, Page},
    testing::TestDatabase,
};
use domain::session::Placement;

use crate::fixture::{Fixture, answer, id};

/// Pages through a list with small limits in both directions and compares with one big page.
pub(crate) async fn walk<T, F, R>(text: impl Fn(&T) -> String, read: F)
where
    F: Fn(List) -> R,
    R: Future<Output = Result<Page<T>, ListError>>,
{
    let mut directions = Vec::new();
    for order in [Order::Ascending, Order::Descending] {
        let whole = read(List {
            after: None,
            limit: 100,
            order,
        })
        .await
        .unwrap();
        assert!(!whole.has_more);
        let whole: Vec<String> = whole.items.iter().map(&text).collect();
        for limit in [1, 2, 3] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let page = read(List {
                    after: after.clone(),
                    limit,
                    order,
                })
                .await
                .unwrap();
                assert!(page.items.len() <= limit as usize);
                seen.extend(page.items.iter().map(&text));
                after = seen.last().cloned();
                if !page.has_more {
                    break;
                }
            }
            assert_eq!(seen, whole, "limit {limit}");
        }
        directions.push(whole);
    }
    directions[1].reverse();
    assert_eq!(directions[0], directions[1]);
    assert!(
        directions[0].len() > 3,
        "the list is too short to prove anything"
    );
    let unknown = List {
        after: Some(uuid::Uuid::new_v4().to_string()),
        limit: 1,
        order: Order::Ascending,
    };
    assert!(matches!(read(unknown).await, Err(ListError::UnknownCursor)));
}

both! {
    async fn every_list_visits_each_resource_once(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let (store, project) = (&fixture.store, fixture.project);
        let mut sessions = Vec::new();
        for _ in 0..7 {
            sessions.push(fixture.create(Placement::OpenaiHosted, &["x"]).await);
        }
        walk(|record: &berth_store::read::SessionRecord| record.state.session.id.to_string(), |list| async move {
            store.read().sessions(project, None, &list).await
        })
        .await;
        for _ in 0..5 {
            store.write(CreateProject { id: id(), name: "p".to_owned(), by: None }).await.unwrap();
        }
        walk(|row: &berth_store::projects::Project| row.id.to_string(), |list| async move {
            store.read().projects(&list).await
        })
        .await;
        let session = fixture.create(Placement::None, &["a", "b"]).await;
        let machine = fixture.bind(session).await;
        for n in 0..4 {
            if n > 0 {
                fixture.send(session, &["next"], None).await;
            }
            let run = fixture.claim_queued(machine).await;
            fixture.append(session, run, 1, answer("m")).await;
            fixture.complete(session, run).await;
        }
        walk(|turn: &domain::turn::Turn| turn.id.to_string(), |list| async move { store.read().turns(session, &list).await })
            .await;
        walk(|item: &domain::item::Item| item.id.to_string(), |list| async move {
            store.read().items(session, None, &list).await
        })
        .await;
        // W-LIST-5: a cursor of another parent, or of a deleted resource, is unknown.
        let foreign = List { after: Some(sessions[0].to_string()), limit: 1, order: Order::Ascending };
        assert!(matches!(store.read().turns(session, &foreign).await, Err(ListError::UnknownCursor)));
        assert!(matches!(store.read().sessions(id(), None, &foreign).await, Err(ListError::UnknownCursor)));
        // W-LIST-8: the filter is exact; an empty value matches nothing.
        let agent = store.read().session(project, sessions[2]).await.unwrap().unwrap().state.session.agent_id.to_string();
        let list = List { after: None, limit: 10, order: Order::Descending };
        let found = store.read().sessions(project, Some(&agent), &list).await.unwrap();
        assert_eq!(found.items.iter().map(|row| row.state.session.id).collect::<Vec<_>>(), [sessions[2]]);
        assert!(store.read().sessions(project, Some(""), &list).await.unwrap().items.is_empty());
        store.close().await;
    }

    async fn scans_go_on_behind_their_cursor(db: TestDatabase) {
        let fixture = Fixture::new(&db).await;
        let mut made = std::collections::BTreeSet::new();
        for _ in 0..5 {
            made.insert(fixture.create(Placement::OpenaiHosted, &["x"]).await);
        }
        let (mut after, mut seen) = (None, std::collections::BTreeSet::new());
        loop {
            let page = fixture.store.read().pending_inputs(after, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.session);
            seen.extend(page.iter().map(|input| input.session));
        }
        assert_eq!(seen, made);
        let mut queued = std::collections::BTreeSet::new();
        for _ in 0..3 {
            queued.insert(fixture.create(Placement::None, &["x"]).await);
        }
        let (mut after, mut seen) = (None, std::collections::BTreeSet::new());
        loop {
            let page = fixture.store.read().queued_turns(after, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(*last);
            seen.extend(page.iter().map(|turn| turn.session));
        }
        assert_eq!(seen, queued);
        fixture.store.close().await;
    }
}
