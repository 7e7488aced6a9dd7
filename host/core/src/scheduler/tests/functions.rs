//! Function tools of a Session on a harness that declares them, from admission to the result (sessions 10).

use domain::run::{Capability, EventBody, HarnessDeclaration, PerPlacement, Support, TurnStatus};
use store::testing::TestDatabase;

use super::faults::call;
use super::runtime::Heard;
use super::scene::Scene;
use crate::api::tests::fixture::{Fixture, declaration};
use crate::peer::Answer;

/// The harness of the fixture takes functions from now on, with these limits.
fn takes_functions(api: &Fixture, limit: impl FnOnce(&mut HarnessDeclaration)) {
    let mut declared = declaration();
    if let Some(place) = declared.abilities.get_mut(Capability::FunctionTools) {
        *place = PerPlacement::all(Support::Verified);
    }
    limit(&mut declared);
    let harnesses = &api.core.harnesses;
    harnesses.replace(harnesses.judge(vec![declared]).unwrap());
}

fn session(functions: &str) -> String {
    format!(
        r#"{{"environment":{{"type":"none"}},"input":"x","agent":{{"model":"m","tools":[{functions}]}}}}"#
    )
}

fn function(name: &str, parameters: &str) -> String {
    format!(
        r#"{{"type":"function","name":"{name}","description":"does f","parameters":{parameters}}}"#
    )
}

// S-FN-1, S-FN-2, S-FN-4, S-FN-5
#[tokio::test(flavor = "multi_thread")]
async fn a_declared_function_is_called_answered_and_applied() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    takes_functions(&scene.api, |_| {});
    let running = scene.run(1);
    let schema = r#"{"type":"object","properties":{"a":{"minimum":0.10}}}"#;
    let id = scene.api.session(&session(&function("f", schema))).await;
    let path = format!("/v1/agents/sessions/{id}");
    let told = scene
        .hear(|heard| match heard {
            Heard::Prepare(configuration) => Some(configuration.functions),
            _ => None,
        })
        .await;
    let [told] = told.as_slice() else {
        panic!("{told:?}");
    };
    // Byte for byte, as the caller wrote it.
    assert_eq!(
        (told.name.as_str(), told.parameters.as_str()),
        ("f", schema)
    );
    assert_eq!(
        (told.description.as_str(), told.deferred),
        ("does f", false)
    );

    let mut run = scene.started().await;
    run.begin().await;
    run.report(EventBody::ItemStarted(call())).await;
    scene.until_turn(&path, "waiting").await;
    let shown = scene.api.get(&path).await.json();
    assert_eq!(shown["status"], "requires_action");
    let action = &shown["required_actions"][0];
    assert_eq!(
        (&action["type"], &action["name"]),
        (&"function_call".into(), &"f".into())
    );
    let (turn, native) = (action["turn_id"].as_str(), action["call_id"].as_str());
    let result = format!(
        r#"{{"type":"agent.session.input.tool_result","turn_id":"{}","call_id":"{}","success":true,"output":"42"}}"#,
        turn.unwrap(),
        native.unwrap()
    );
    scene.send(&path, &result).await;
    let answer = scene
        .hear(|heard| match heard {
            Heard::Result(answer) => Some(answer),
            _ => None,
        })
        .await;
    answer.send(Answer::Done(())).unwrap();
    scene.until_turn(&path, "in_progress").await;
    assert_eq!(
        scene.api.get(&path).await.json()["required_actions"],
        serde_json::json!([])
    );
    run.done(TurnStatus::Completed).await;
    scene.until_turn(&path, "completed").await;
    scene.end(running).await;
}

// S-FN-9, CAP-008, CLD-009: refused before anything is stored, with the place.
#[tokio::test]
async fn what_the_harness_does_not_take_of_a_function_is_refused() {
    type Limit = fn(&mut HarnessDeclaration);
    let api = Fixture::on(TestDatabase::sqlite()).await;
    api.default_model().await;
    let fine = function("get_it", r#"{"type":"object"}"#);
    let two = format!("{fine},{}", function("get_them", "{}"));
    let big = r#"{"type":"object","maximum":9007199254740993}"#;
    let cases: [(Limit, String, Option<&str>); 9] = [
        (|_| {}, two.clone(), None),
        (|it| it.functions.max_count = 1, two, Some("agent.tools")),
        (
            |it| it.functions.max_name_bytes = 5,
            fine.clone(),
            Some("agent.tools[0].name"),
        ),
        (
            |it| it.functions.reserved_names = vec!["get_it".into()],
            fine.clone(),
            Some("agent.tools[0].name"),
        ),
        (
            |it| it.functions.name_pattern = Some("[a-z]+".into()),
            fine.clone(),
            Some("agent.tools[0].name"),
        ),
        (
            |it| it.functions.name_pattern = Some("[a-z_]+".into()),
            fine.clone(),
            None,
        ),
        (
            |it| it.functions.object_root = true,
            function("f", "{}"),
            Some("agent.tools[0].parameters"),
        ),
        (
            |it| it.functions.exact_numbers = true,
            function("f", big),
            Some("agent.tools[0].parameters"),
        ),
        (
            |it| it.functions.object_root = true,
            function("f", big),
            None,
        ),
    ];
    for (limit, functions, param) in cases {
        takes_functions(&api, limit);
        let before = api.dump().await;
        let answer = api.post("/v1/agents/sessions", &session(&functions)).await;
        match param {
            None => assert_eq!(answer.status, 201, "{functions}: {}", answer.body),
            Some(param) => {
                assert_eq!(answer.status, 400, "{functions}");
                let error = &answer.json()["error"];
                assert_eq!(error["param"], param, "{functions}: {error}");
                assert_eq!(api.dump().await, before);
            }
        }
    }
}
