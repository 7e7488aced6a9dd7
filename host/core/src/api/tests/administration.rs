//! An operator sees and deletes a Project's resources as the Project does (OPS-006, OPS-040, OPS-041, OPS-068).

use store::testing::TestDatabase;

use super::fixture::{CORE_KEY, Fixture};
use crate::api::route::Space;
use crate::api::rows;

both!(every_resource_reads_the_same_from_both_sides_and_its_deletion_is_audited);
async fn every_resource_reads_the_same_from_both_sides_and_its_deletion_is_audited(
    database: TestDatabase,
) {
    let fixture = Fixture::on(database).await;
    let file = fixture.file("a", b"x").await;
    let skill = fixture.skill("---\nname: a\ndescription: b\n---").await;
    let made = async |path: &str, body: &str| {
        fixture.post(path, body).await.json()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let agent = made("/v1/agents", r#"{"model":"m"}"#).await;
    let template = made("/v1/agents/environments/templates", "{}").await;
    let vault = made("/v1/vaults", "{}").await;
    let credential = made(
        &format!("/v1/vaults/{vault}/credentials"),
        r#"{"name":"n","auth":{"type":"static_bearer","mcp_server_url":"https://h","token":"t"}}"#,
    )
    .await;
    let credential = format!("vaults/{vault}/credentials/{credential}");
    let base = format!("/core/v1/projects/{}", fixture.project);
    for (public, admin) in [
        (format!("agents/{agent}"), None),
        (
            format!("agents/environments/templates/{template}"),
            Some(format!("environment-templates/{template}")),
        ),
        (format!("files/{file}"), None),
        (format!("skills/{skill}"), None),
        (credential, None),
        (format!("vaults/{vault}"), None),
    ] {
        let (public, admin) = (
            format!("/v1/{public}"),
            format!("{base}/{}", admin.unwrap_or(public)),
        );
        let parent = |path: &str| path.rsplit_once('/').unwrap().0.to_owned();
        for (one, other) in [
            (public.clone(), admin.clone()),
            (parent(&public), parent(&admin)),
        ] {
            let (one, other) = (
                fixture.get(&one).await,
                fixture.send("GET", &other, Some(CORE_KEY), None).await,
            );
            assert_eq!(
                (one.status, one.body),
                (other.status, other.body),
                "{admin}"
            );
        }
        let audited = async || fixture.dump().await.matches("audit_log").count();
        let before = audited().await;
        let foreign = admin.replace(
            &fixture.project.to_string(),
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        );
        assert_eq!(
            fixture
                .send("DELETE", &foreign, Some(CORE_KEY), None)
                .await
                .status,
            404,
            "{admin}"
        );
        assert_eq!(
            audited().await,
            before,
            "{admin}: a refusal is not recorded"
        );
        assert_eq!(
            fixture
                .send("DELETE", &admin, Some(CORE_KEY), None)
                .await
                .status,
            200,
            "{admin}"
        );
        assert_eq!(audited().await, before + 1, "{admin}");
        assert_eq!(fixture.get(&public).await.status, 404, "{admin}");
    }
}

both!(writes_are_recorded_by_key_and_page_by_cursor);
async fn writes_are_recorded_by_key_and_page_by_cursor(database: TestDatabase) {
    // OPS-060 to OPS-065
    let fixture = Fixture::on(database).await;
    let file = fixture.file("secret-name", b"x").await;
    for _ in 0..4 {
        fixture.post("/v1/vaults", "{}").await;
    }
    fixture
        .send(
            "DELETE",
            &format!("/v1/files/{file}"),
            Some(&fixture.key),
            None,
        )
        .await;
    let base = format!("/core/v1/projects/{}", fixture.project);
    let get = async |path: &str| {
        fixture
            .send("GET", &format!("{base}/{path}"), Some(CORE_KEY), None)
            .await
    };
    let all = get("write-operations").await.json();
    let actions: Vec<_> = all["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            format!(
                "{} {}",
                one["action"].as_str().unwrap(),
                one["resource_type"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(actions.len(), 6);
    assert_eq!(
        (actions[0].as_str(), actions[5].as_str()),
        ("delete file", "create file")
    );
    assert_eq!(all["data"][0]["api_key"]["id"], fixture.key_id.to_string());
    assert!(!all.to_string().contains("secret-name"));
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&format!("write-operations?limit=2{cursor}"))
            .await
            .json();
        seen.extend(page["data"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, *all["data"].as_array().unwrap());
    assert_eq!(
        get(&format!(
            "write-operations?resource_type=file&resource_id={file}"
        ))
        .await
        .json()["data"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        get("write-operations?created_before=2000-01-01T00:00:00Z")
            .await
            .json()["data"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    for bad in [
        "limit=0",
        "limit=101",
        "limit=x",
        "x=1",
        "limit=1&limit=1",
        "key_id=",
        "cursor=x",
        "cursor=MToA",
        "created_after=x",
        "limit",
    ] {
        let answer = get(&format!("write-operations?{bad}")).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].as_str()),
            (400, Some("invalid_request")),
            "{bad}"
        );
    }
    let owners = get(&format!(
        "resource-owners?resource_type=file&resource_ids=x,{file}"
    ))
    .await
    .json();
    assert!(owners["data"][0]["api_key"].is_null());
    assert_eq!(
        owners["data"][1]["api_key"]["id"],
        fixture.key_id.to_string()
    );
    // OPS-067
    let rename = fixture
        .send("POST", &base, Some(CORE_KEY), Some(r#"{"name":"new"}"#))
        .await;
    assert_eq!(rename.status, 200, "{}", rename.body);
    let log = fixture
        .send(
            "GET",
            &format!("/core/v1/audit-log?project_id={}&limit=1", fixture.project),
            Some(CORE_KEY),
            None,
        )
        .await
        .json();
    assert_eq!(
        (
            &log["data"][0]["resource_type"],
            log["data"][0]["admin_credential_id"].as_str().map(str::len)
        ),
        (&"project".into(), Some(8))
    );
    let none = fixture
        .send(
            "GET",
            "/core/v1/audit-log?project_id=x",
            Some(CORE_KEY),
            None,
        )
        .await
        .json();
    assert_eq!(none["data"].as_array().unwrap().len(), 0);
}

both!(a_list_of_a_project_that_is_not_there_is_no_empty_list);
async fn a_list_of_a_project_that_is_not_there_is_no_empty_list(database: TestDatabase) {
    // OPS-006: a misspelt Project would else look like one without anything in it.
    let fixture = Fixture::on(database).await;
    let mut lists = 0;
    for row in rows::table().rows() {
        if row.space != Space::Admin || row.list.is_none() || !row.path.contains("{project_id}") {
            continue;
        }
        lists += 1;
        for project in ["ffffffff-ffff-ffff-ffff-ffffffffffff", "default"] {
            let segments = row.path.split('/').map(|segment| match segment {
                "{project_id}" => project,
                parameter if parameter.starts_with('{') => "ffffffff-ffff-ffff-ffff-ffffffffffff",
                segment => segment,
            });
            let path = segments.collect::<Vec<_>>().join("/");
            let answer = fixture.send("GET", &path, Some(CORE_KEY), None).await;
            assert_eq!(
                (answer.status, answer.json()["error"]["code"].as_str()),
                (404, Some("not_found")),
                "{path}"
            );
        }
    }
    assert!(lists > 8, "the table has only {lists} such lists");
}

both!(a_hosted_session_is_archived);
async fn a_hosted_session_is_archived(database: TestDatabase) {
    // OPS-043, OPS-068, E409-09, E409-11
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let session = fixture.session(r#"{"input":"hi"}"#).await;
    let none = fixture
        .session(r#"{"environment":{"type":"none"},"input":"hi"}"#)
        .await;
    let path = |project: &str, session: &str| {
        format!("/core/v1/projects/{project}/sessions/{session}/archive")
    };
    let own = path(&fixture.project.to_string(), &session);
    let send = async |method: &str, path: &str, body: Option<&str>| {
        let answer = fixture.send(method, path, Some(CORE_KEY), body).await;
        (answer.status, answer.json())
    };
    let code = |answer: &(u16, serde_json::Value)| {
        let code = answer.1["error"]["code"].as_str().unwrap_or_default();
        (answer.0, code.to_owned())
    };
    let active = send("GET", &own, None).await;
    assert_eq!((active.0, &active.1["state"]), (200, &"active".into()));
    let right = Some(r#"{"expected_generation":1}"#);
    let before = fixture.dump().await;
    let stale = send("POST", &own, Some(r#"{"expected_generation":2}"#)).await;
    assert_eq!(code(&stale), (409, "sandbox_generation_stale".into()));
    assert_eq!(stale.1["error"]["details"]["current_generation"], 1);
    for bad in [
        "{}",
        r#"{"expected_generation":"1"}"#,
        r#"{"expected_generation":1,"x":1}"#,
    ] {
        assert_eq!(
            code(&send("POST", &own, Some(bad)).await),
            (400, "invalid_request".into())
        );
    }
    let never = "ffffffff-ffff-ffff-ffff-ffffffffffff";
    for (method, body) in [("GET", None), ("POST", right)] {
        let hosted_only = path(&fixture.project.to_string(), &none);
        assert_eq!(
            code(&send(method, &hosted_only, body).await),
            (400, "invalid_request".into())
        );
        for missing in [
            path(never, &session),
            path(&fixture.project.to_string(), never),
        ] {
            assert_eq!(
                code(&send(method, &missing, body).await),
                (404, "not_found".into())
            );
        }
    }
    assert_eq!(fixture.dump().await, before);
    for _ in 0..2 {
        let archived = send("POST", &own, right).await;
        assert_eq!(
            (archived.0, &archived.1["state"]),
            (200, &"released".into())
        );
    }
    let audited = fixture.dump().await;
    let audited = audited
        .lines()
        .filter(|line| line.starts_with("audit_log") && line.ends_with("archive"));
    assert_eq!(audited.count(), 2, "each accepted request is recorded");
    let events = format!("/v1/agents/sessions/{session}/events");
    let message = r#"{"events":[{"type":"agent.session.input.message","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]}]}]}"#;
    let late = fixture.post(&events, message).await;
    assert_eq!(
        late.json()["error"]["code"],
        "environment_unavailable",
        "{}",
        late.body
    );
    assert_eq!(
        fixture
            .get(&format!("/v1/agents/sessions/{session}/items"))
            .await
            .status,
        200
    );
}

both!(an_operator_reads_the_facts_of_the_installation);
async fn an_operator_reads_the_facts_of_the_installation(database: TestDatabase) {
    // OPS-082
    let fixture = Fixture::on(database).await;
    let read = fixture
        .send("GET", "/core/v1/installation", Some(CORE_KEY), None)
        .await;
    assert_eq!(read.status, 200, "{}", read.body);
    let facts = read.json();
    assert_eq!(
        facts,
        serde_json::json!({
            "object": "core.installation",
            "installation_id": fixture.core.store.installation().to_string(),
            "public_url": "http://127.0.0.1:8091",
            "api_base_url": "http://127.0.0.1:8091/v1",
            "local_only": true,
            "source_commit": facts["source_commit"],
            "configuration": {"settings": [{
                "key": "database-url", "value": null, "default": null, "changeable": true, "sensitive": true,
                "restarts": ["core"], "configured": true,
            }]},
            "address_bindings": {
                "nodes": 0, "nodes_on_other_address": 0, "hosted_sandboxes": 0, "self_hosted_executors": 0,
            },
        })
    );
    assert!(!read.body.contains("canary"));
}

both!(a_summary_counts_sessions_by_project_agent_and_key);
async fn a_summary_counts_sessions_by_project_agent_and_key(database: TestDatabase) {
    // OPS-070, OPS-071
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let agent = fixture.post("/v1/agents", r#"{"model":"m"}"#).await.json()["id"].clone();
    let agent = agent.as_str().unwrap();
    let saved = format!(r#"{{"environment":{{"type":"openai_hosted"}},"agent_id":"{agent}"}}"#);
    for _ in 0..2 {
        fixture.session(&saved).await;
    }
    fixture
        .session(r#"{"environment":{"type":"none"},"input":"x"}"#)
        .await;
    let gone = fixture.session(&saved).await;
    let path = format!("/v1/agents/sessions/{gone}");
    let deleted = fixture
        .send("DELETE", &path, Some(&fixture.key), None)
        .await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    fixture.file("f", b"x").await;
    let get = async |query: &str| {
        let path = format!("/core/v1/summary{query}");
        fixture.send("GET", &path, Some(CORE_KEY), None).await
    };
    let project = fixture.project.to_string();
    let all = get(&format!("?project_id={project}")).await;
    assert_eq!(all.status, 200, "{}", all.body);
    let all = all.json();
    let row = &all["data"][0];
    assert_eq!(
        (
            row["project_id"].as_str(),
            all["data"].as_array().unwrap().len()
        ),
        (Some(project.as_str()), 1)
    );
    assert_eq!(
        row["sessions"].to_string(),
        r#"{"total":3,"idle":2,"in_progress":1,"requires_action":0,"failed":0}"#
    );
    assert_eq!(
        row["assets"].to_string(),
        r#"{"agents":1,"environment_templates":0,"files":1,"skills":0,"vaults":0}"#
    );
    assert_eq!(
        row["coverage"].to_string(),
        r#"{"measured_sessions":0,"total_sessions":3,"ratio":0.0}"#
    );
    assert_eq!(row["usage"]["total_tokens"], 0);
    assert!(
        row["last_active_at"].is_string() && row["agent_id"].is_null() && row["key_id"].is_null()
    );

    let by_agent = get(&format!("?project_id={project}&group_by=agent"))
        .await
        .json();
    let rows = by_agent["data"].as_array().unwrap();
    let of_saved = rows.iter().find(|row| row["agent_id"] == agent).unwrap();
    assert_eq!((rows.len(), &of_saved["sessions"]["total"]), (2, &2.into()));
    let by_key = get(&format!("?project_id={project}&group_by=key"))
        .await
        .json();
    assert_eq!(by_key["data"][0]["key_id"], fixture.key_id.to_string());
    assert_eq!(by_key["data"][0]["sessions"]["total"], 3);

    // Sessions of a time: from inclusive, until exclusive.
    let none = get(&format!(
        "?project_id={project}&created_before=2020-01-01T00:00:00Z"
    ))
    .await
    .json();
    assert_eq!(none["data"][0]["sessions"]["total"], 0);
    assert_eq!(
        none["data"][0]["coverage"]["ratio"],
        serde_json::Value::Null
    );
    let since = get(&format!(
        "?project_id={project}&created_after=2020-01-01T00:00:00Z"
    ))
    .await
    .json();
    assert_eq!(since["data"][0]["sessions"]["total"], 3);

    // Pages over Projects visit each once, in both directions.
    for order in ["asc", "desc"] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = get(&format!("?limit=1&order={order}{after}")).await.json();
            let id = page["data"][0]["project_id"].as_str().unwrap().to_owned();
            after = format!("&after={id}");
            seen.push(id);
            if page["has_more"] == false {
                break;
            }
        }
        let mut sorted = seen.clone();
        sorted.sort();
        if order == "desc" {
            sorted.reverse();
        }
        assert_eq!((seen.len(), &seen), (2, &sorted));
    }
    for (query, status) in [
        ("?group_by=agent", 400),
        ("?group_by=x", 400),
        ("?group_by=key&group_by=key", 400),
        ("?limit=0", 400),
        ("?limit=101", 400),
        ("?order=up", 400),
        ("?x=1", 400),
        ("?project_id=", 400),
        ("?created_after=yesterday", 400),
        ("?project_id=x", 404),
        ("?project_id=ffffffff-ffff-ffff-ffff-ffffffffffff", 404),
        ("?after=ffffffff-ffff-ffff-ffff-ffffffffffff", 404),
    ] {
        assert_eq!(get(query).await.status, status, "{query}");
    }
}
