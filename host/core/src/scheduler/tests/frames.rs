//! Whatever was admitted fits into the frame that carries it (RP-4).

use domain::content::{MAX_START_INPUT, start_bytes};
use domain::item::{InputPart, UserMessage};
use domain::run::{Binding, History, InputMessage, MessagePart};
use domain::{BindingId, ExecutorId, FrameId, InputId, PrepareId, RunId, SessionId};
use protocol::wire::{CoreFrame, ExecutionStart, Operation, Request, limits};
use store::testing::TestDatabase;

use super::runtime::Heard;
use super::scene::Scene;

const LIMIT: &str = r#"{"error":{"message":"Invalid resource identifier or request limits.","type":"invalid_request_error","code":"invalid_request","param":null}}"#;

fn binding() -> Binding {
    Binding {
        session: SessionId::NEVER,
        environment: None,
        id: BindingId::NEVER,
        epoch: u64::MAX,
    }
}

fn length(request: Request) -> usize {
    let text = CoreFrame::Request(Box::new(request)).encode();
    text.expect("it fits").len()
}

// ENV-185: messages join a Turn that waits until no more of them fit into its start; the rest is refused, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn the_messages_of_a_waiting_turn_fit_into_its_start() {
    let part = |text: &str| format!(r#"{{"type":"input_text","text":"{text}"}}"#);
    let message = |parts: &str| format!(r#"{{"role":"user","content":[{parts}]}}"#);
    let large = message(&part(&"x".repeat(400_000)));
    let escaped = message(&part(&r"\u0001".repeat(60_000)));
    let parts = message(&vec![part("x"); 10_000].join(","));
    for input in [large, escaped, parts] {
        let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
        let path = scene.session("go").await;
        let body =
            format!(r#"{{"events":[{{"type":"agent.session.input.message","input":[{input}]}}]}}"#);
        let mut taken = 0;
        let refused = loop {
            let before = scene.api.dump().await;
            let answer = scene.api.post(&format!("{path}/events"), &body).await;
            if answer.status != 202 {
                assert_eq!(scene.api.dump().await, before, "a refusal writes nothing");
                break answer;
            }
            taken += 1;
            assert!(taken < 20, "there is a bound");
        };
        assert_eq!((refused.status, refused.body.as_str()), (400, LIMIT));
        assert!(taken > 3, "several batches wait together");
        let running = scene.run(1);
        let run = scene.started().await;
        let start = ExecutionStart {
            prepare_id: PrepareId::NEVER,
            executor_id: ExecutorId::NEVER,
            run_id: RunId::NEVER,
            input: run.input.clone(),
        };
        let operation = Operation::ExecutionStart(start);
        let sent = length(Request::of(FrameId::NEVER, binding(), operation));
        assert!(
            sent > limits::TEXT_FRAME / 4,
            "the bound is no smaller than it must be"
        );
        // What runs has room again.
        run.begin().await;
        scene.until_turn(&path, "in_progress").await;
        let joined = scene.api.post(&format!("{path}/events"), &body).await;
        assert_eq!(joined.status, 202, "{}", joined.body);
        run.done(domain::run::TurnStatus::Completed).await;
        scene.end(running).await;
    }
}

// What is counted at admission is never less than what is sent, whatever the messages are like.
#[test]
fn messages_are_counted_with_all_that_goes_around_them() {
    for (messages, parts, text) in [
        (5000, 1, "x".to_owned()),
        (1, 5000, "x".to_owned()),
        (2, 1, "x".repeat(400_000)),
        (2, 1, "\u{1}\"\\é".repeat(50_000)),
    ] {
        let stored = UserMessage {
            content: vec![InputPart::InputText { text: text.clone() }; parts],
        };
        let sent = InputMessage {
            id: InputId::NEVER,
            content: vec![MessagePart::Text(text); parts],
        };
        let start = ExecutionStart {
            prepare_id: PrepareId::NEVER,
            executor_id: ExecutorId::NEVER,
            run_id: RunId::NEVER,
            input: vec![sent; messages],
        };
        let operation = Operation::ExecutionStart(start);
        let sent = length(Request::of(FrameId::NEVER, binding(), operation)) as u64;
        let counted = start_bytes(&vec![stored; messages]);
        assert!(sent <= counted + 1024, "{sent} for {counted}");
    }
    assert!(MAX_START_INPUT + 1024 < limits::TEXT_FRAME as u64);
}

// S-SES-12, RP-4: a configuration that could never be prepared is refused when it is made, by the member that is too large.
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_fits_into_its_preparation_or_is_refused() {
    let mut scene = Scene::on(TestDatabase::sqlite(), true).await;
    let creation = |agent: &str| {
        format!(
            r#"{{"environment":{{"type":"none"}},"input":"hi","agent":{{"model":"m",{agent}}}}}"#
        )
    };
    let instructions = |text: &str| creation(&format!(r#""instructions":"{text}""#));
    for (body, param) in [
        (instructions(&"x".repeat(5 << 20)), "agent.instructions"),
        (
            instructions(&r"\u0001".repeat(700_000)),
            "agent.instructions",
        ),
    ] {
        let before = scene.api.dump().await;
        let refused = scene.api.post("/v1/agents/sessions", &body).await;
        let error = &refused.json()["error"];
        assert_eq!(
            (
                refused.status,
                error["code"].as_str(),
                error["param"].as_str()
            ),
            (
                400,
                Some("unsupported_or_invalid_configuration"),
                Some(param)
            )
        );
        assert_eq!(scene.api.dump().await, before, "nothing is written");
    }
    let most = instructions(&"x".repeat(limits::TEXT_FRAME - (128 << 10)));
    scene.api.session(&most).await;
    let running = scene.run(1);
    let prepare = |heard| match heard {
        Heard::Prepare(configuration) => Some(configuration),
        _ => None,
    };
    let mut configuration = scene.hear(prepare).await;
    configuration.history = History::Recover;
    length(Request::prepare(
        binding(),
        PrepareId::NEVER,
        *configuration,
    ));
    scene.end(running).await;
}
