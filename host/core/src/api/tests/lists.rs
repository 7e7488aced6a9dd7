//! Lists end, in both orders, whatever their length, while others insert and delete (W-LIST-7, F23).

use std::collections::BTreeSet;

use serde_json::Value;
use store::testing::TestDatabase;

use super::fixture::{CORE_KEY, Fixture};

/// Follows a list to its end as the official client does: by the id of the last element while `has_more` says so.
async fn walk(fixture: &Fixture, path: &str, limit: usize, order: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let separator = if path.contains('?') { '&' } else { '?' };
        let page = fixture
            .get(&format!(
                "{path}{separator}limit={limit}&order={order}{after}"
            ))
            .await;
        assert_eq!(page.status, 200, "{}", page.body);
        let page = page.json();
        let ids = ids(&page);
        assert!(ids.len() <= limit);
        assert_eq!(page["first_id"].as_str(), ids.first().map(String::as_str));
        assert_eq!(page["last_id"].as_str(), ids.last().map(String::as_str));
        seen.extend(ids.iter().cloned());
        if page["has_more"] == Value::Bool(false) {
            return seen;
        }
        after = format!("&after={}", ids.last().unwrap());
        assert!(seen.len() < 1000, "the list does not end");
    }
}

fn ids(page: &Value) -> Vec<String> {
    page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

async fn agents(fixture: &Fixture, count: usize) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for _ in 0..count {
        ids.insert(
            fixture.post("/v1/agents", r#"{"model":"m"}"#).await.json()["id"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    ids
}

async fn both_orders(fixture: &Fixture, path: &str, expected: &BTreeSet<String>) {
    for limit in [1, 2, 3, 20, 100] {
        let up = walk(fixture, path, limit, "asc").await;
        let mut down = walk(fixture, path, limit, "desc").await;
        down.reverse();
        assert_eq!(up, down, "{path} {limit}");
        assert_eq!(
            up.len(),
            expected.len(),
            "{path} {limit}: something came twice"
        );
        assert_eq!(
            up.into_iter().collect::<BTreeSet<_>>(),
            *expected,
            "{path} {limit}"
        );
    }
}

both!(agents_page_at_every_length);
async fn agents_page_at_every_length(database: TestDatabase) {
    let fixture = Fixture::on(database).await;
    let mut all = BTreeSet::new();
    for count in [0, 1, 1, 1, 17, 1] {
        all.extend(agents(&fixture, count).await);
        both_orders(&fixture, "/v1/agents", &all).await;
    }
    let empty = fixture
        .send("GET", "/v1/agents", Some(&fixture.other), None)
        .await;
    assert_eq!(
        empty.body,
        r#"{"object":"list","data":[],"has_more":false,"first_id":null,"last_id":null}"#
    );
}

both!(a_walk_survives_inserts_and_deletes);
async fn a_walk_survives_inserts_and_deletes(database: TestDatabase) {
    // F23
    let fixture = Fixture::on(database).await;
    let stay = agents(&fixture, 10).await;
    let go = agents(&fixture, 5).await;
    for order in ["asc", "desc"] {
        let first = fixture
            .get(&format!("/v1/agents?limit=4&order={order}"))
            .await
            .json();
        let mut seen = ids(&first);
        // Never the cursor itself: a deleted cursor is an unknown one (W-LIST-5).
        let cursor = seen.last().unwrap().clone();
        for id in go.iter().filter(|id| **id != cursor) {
            fixture
                .send(
                    "DELETE",
                    &format!("/v1/agents/{id}"),
                    Some(&fixture.key),
                    None,
                )
                .await;
        }
        agents(&fixture, 3).await;
        let mut after = cursor;
        loop {
            let page = fixture
                .get(&format!("/v1/agents?limit=4&order={order}&after={after}"))
                .await
                .json();
            seen.extend(ids(&page));
            match ids(&page).last() {
                Some(last) if page["has_more"] == Value::Bool(true) => after.clone_from(last),
                _ => break,
            }
        }
        assert_eq!(
            seen.iter().collect::<BTreeSet<_>>().len(),
            seen.len(),
            "{order}: something came twice"
        );
        assert!(
            stay.iter().all(|id| seen.contains(id)),
            "{order}: something was missed"
        );
    }
}

both!(sessions_turns_and_items_page);
async fn sessions_turns_and_items_page(database: TestDatabase) {
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let mut sessions = BTreeSet::new();
    for _ in 0..5 {
        sessions.insert(
            fixture
                .session(r#"{"environment":{"type":"none"},"input":"hi"}"#)
                .await,
        );
    }
    both_orders(&fixture, "/v1/agents/sessions", &sessions).await;
    let session = sessions.first().unwrap();
    let events = format!("/v1/agents/sessions/{session}/events");
    for text in ["a", "b", "c"] {
        let message = format!(
            r#"{{"events":[{{"type":"agent.session.input.message","input":[{{"role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}]}},{{"type":"agent.session.input.message","input":[{{"role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}]}}]}}"#
        );
        assert_eq!(fixture.post(&events, &message).await.status, 202);
        assert_eq!(
            fixture
                .post(
                    &events,
                    r#"{"events":[{"type":"agent.session.input.cancel"}]}"#
                )
                .await
                .status,
            202
        );
    }
    let turns: BTreeSet<_> = walk(
        &fixture,
        &format!("/v1/agents/sessions/{session}/turns"),
        100,
        "asc",
    )
    .await
    .into_iter()
    .collect();
    assert_eq!(turns.len(), 3);
    both_orders(
        &fixture,
        &format!("/v1/agents/sessions/{session}/turns"),
        &turns,
    )
    .await;
    let items = walk(
        &fixture,
        &format!("/v1/agents/sessions/{session}/items"),
        100,
        "asc",
    )
    .await;
    assert_eq!(items.len(), 7);
    both_orders(
        &fixture,
        &format!("/v1/agents/sessions/{session}/items"),
        &items.into_iter().collect(),
    )
    .await;
}

both!(the_agent_filter_is_a_filter);
async fn the_agent_filter_is_a_filter(database: TestDatabase) {
    // W-LIST-8, W-TEXT-2
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let agent = fixture.post("/v1/agents", r#"{"model":"m"}"#).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mine = fixture
        .session(&format!(r#"{{"agent_id":"{agent}","input":"hi"}}"#))
        .await;
    let inline = fixture.session(r#"{"input":"hi"}"#).await;
    let list = async |query: &str| {
        ids(&fixture
            .get(&format!("/v1/agents/sessions?{query}"))
            .await
            .json())
    };
    assert_eq!(
        list(&format!("agent_id={agent}")).await,
        std::slice::from_ref(&mine)
    );
    assert_eq!(
        list(&format!("agent_id={}", agent.to_uppercase())).await,
        [mine]
    );
    let own = fixture
        .get(&format!("/v1/agents/sessions/{inline}"))
        .await
        .json()["agent"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(list(&format!("agent_id={own}")).await, [inline]);
    assert!(list("agent_id=").await.is_empty() && list("agent_id=x").await.is_empty());
    let unstorable = fixture.get("/v1/agents/sessions?agent_id=%ff").await;
    assert_eq!(
        unstorable.body,
        r#"{"error":{"message":"Request text contains characters this service cannot store or compare, such as U+0000 or invalid UTF-8.","type":"invalid_request_error","code":"invalid_request_error","param":null}}"#
    );
}

both!(cursors_that_name_nothing_are_one_case);
async fn cursors_that_name_nothing_are_one_case(database: TestDatabase) {
    // W-LIST-5, W-ORDER-2, W-ORDER-3
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture
        .session(r#"{"environment":{"type":"none"},"input":"hi"}"#)
        .await;
    let missing = r#"{"error":{"message":"Resource not found.","type":"not_found_error","code":"not_found_error","param":null}}"#;
    let item = r#"{"error":{"message":"Invalid session item ID in `after`","type":"invalid_request_error","code":"invalid_request_error","param":null}}"#;
    for after in [
        "x",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        session.as_str(),
        "%00",
        "item_0",
    ] {
        let turns = fixture
            .get(&format!(
                "/v1/agents/sessions/{session}/turns?after={after}"
            ))
            .await;
        assert_eq!(
            (turns.status, turns.body.as_str()),
            (404, missing),
            "{after}"
        );
        let items = fixture
            .get(&format!(
                "/v1/agents/sessions/{session}/items?after={after}"
            ))
            .await;
        assert_eq!((items.status, items.body.as_str()), (400, item), "{after}");
        let none = fixture
            .get(&format!("/v1/agents/sessions/x/items?after={after}"))
            .await;
        assert_eq!((none.status, none.body.as_str()), (404, missing), "{after}");
    }
    let query = fixture.get("/v1/agents/sessions/x/turns?limit=0").await;
    assert_eq!(
        query.json()["error"]["message"],
        "limit must be between 1 and 100"
    );
    assert_eq!(
        fixture
            .get(&format!("/v1/agents/sessions/{session}/items?limit=0"))
            .await
            .status,
        200
    );
}

both!(administration_lists_page_too);
async fn administration_lists_page_too(database: TestDatabase) {
    // OPS-020, OPS-032
    let fixture = Fixture::on(database).await;
    let all = fixture
        .send("GET", "/core/v1/projects?order=asc", Some(CORE_KEY), None)
        .await
        .json();
    assert_eq!(
        (all["data"].as_array().unwrap().len(), &all["has_more"]),
        (2, &Value::Bool(false))
    );
    let first = fixture
        .send(
            "GET",
            "/core/v1/projects?limit=1&order=asc",
            Some(CORE_KEY),
            None,
        )
        .await
        .json();
    assert_eq!(
        (&first["data"][0], &first["has_more"]),
        (&all["data"][0], &Value::Bool(true))
    );
    let path = format!(
        "/core/v1/projects?order=asc&after={}",
        first["data"][0]["id"].as_str().unwrap()
    );
    let rest = fixture
        .send("GET", &path, Some(CORE_KEY), None)
        .await
        .json();
    assert_eq!(rest["data"][0], all["data"][1]);
    let bad = fixture
        .send("GET", "/core/v1/projects?limit=0", Some(CORE_KEY), None)
        .await;
    assert_eq!(
        (bad.status, bad.json()["error"]["code"].as_str()),
        (400, Some("invalid_request"))
    );
}
