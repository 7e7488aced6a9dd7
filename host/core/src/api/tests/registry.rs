//! The table of `wire.md` 8.2, row by row: a request that gets exactly these bytes, a decision that is answered with them
//! (the state behind it is made by the tests of that decision), or the later work that owns the cause.

use axum::http::Response;
use domain::Refusal;
use domain::call::CallId;
use domain::invalid::Invalid;
use store::testing::TestDatabase;

use super::fixture::{Answered, Fixture, Part, read};
use crate::api::error::{ApiError, ContentError};

/// The rows of the table. E400-19 is not used there.
const IDS: &[(&str, u32)] = &[
    ("E400", 51),
    ("E401", 1),
    ("E404", 3),
    ("E405", 1),
    ("E409", 11),
    ("E410", 1),
    ("E413", 1),
    ("E500", 1),
    ("E503", 6),
];
const UNUSED: &str = "E400-19";

const INV: &str = "invalid_request_error";
const NEVER: &str = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/// How the bytes of a row come about.
enum Proof {
    /// Requests with the error's type, code, param and message.
    Sent(Vec<(Sent, Expected)>),
    /// What a handler answers in a state that cannot be made with requests alone.
    Decided(Vec<(ApiError, Expected)>),
    /// Its cause does not exist yet: the work that brings it.
    Later(&'static str),
}

struct Sent {
    method: &'static str,
    path: String,
    body: Option<String>,
    headers: Vec<(&'static str, String)>,
    key: bool,
}

struct Expected {
    status: u16,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<&'static str>,
    message: String,
}

fn post(path: impl Into<String>, body: impl Into<String>) -> Sent {
    Sent {
        method: "POST",
        path: path.into(),
        body: Some(body.into()),
        headers: Vec::new(),
        key: true,
    }
}

fn get(path: impl Into<String>) -> Sent {
    send("GET", path)
}

fn send(method: &'static str, path: impl Into<String>) -> Sent {
    Sent {
        method,
        path: path.into(),
        body: None,
        headers: Vec::new(),
        key: true,
    }
}

impl Sent {
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn keyless(mut self) -> Self {
        self.key = false;
        self
    }
}

/// 400 with type and code `invalid_request_error`.
fn shape(param: Option<&'static str>, message: impl Into<String>) -> Expected {
    bad(Some(INV), param, message)
}

/// 400 with another code.
fn bad(
    code: Option<&'static str>,
    param: Option<&'static str>,
    message: impl Into<String>,
) -> Expected {
    answer(400, INV, code, param, message)
}

fn conflict(code: &'static str, message: impl Into<String>) -> Expected {
    answer(409, "conflict_error", Some(code), None, message)
}

fn unavailable(code: &'static str, message: &'static str) -> Expected {
    answer(503, "server_error", Some(code), None, message)
}

fn answer(
    status: u16,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<&'static str>,
    message: impl Into<String>,
) -> Expected {
    Expected {
        status,
        kind,
        code,
        param,
        message: message.into(),
    }
}

impl Expected {
    fn check(&self, id: &str, got: &Answered) {
        let text = |value: Option<&str>| serde_json::to_string(&value).unwrap();
        let body = format!(
            r#"{{"error":{{"message":{},"type":{},"code":{},"param":{}}}}}"#,
            text(Some(&self.message)),
            text(Some(self.kind)),
            text(self.code),
            text(self.param)
        );
        assert_eq!(
            (got.status, got.body.as_str()),
            (self.status, body.as_str()),
            "{id}"
        );
    }
}

/// Resources that the requests name.
struct Ids {
    /// On `none`, with a Turn.
    session: String,
    /// Hosted, with input that waits.
    pending: String,
    skill: String,
    file: String,
    /// With a Credential for one server and two for another.
    vault: String,
    credential: String,
    /// A Credential of a Vault that is not attached, and of another Project.
    unattached: String,
    foreign: String,
}

fn one(sent: Sent, expected: Expected) -> Proof {
    Proof::Sent(vec![(sent, expected)])
}

fn decided(refusal: Refusal, expected: Expected) -> Proof {
    Proof::Decided(vec![(ApiError::Refused(refusal), expected)])
}

const AGENTS: &str = "/v1/agents";
const SESSIONS: &str = "/v1/agents/sessions";
const TEMPLATES: &str = "/v1/agents/environments/templates";
const SYNTAX: &str = "Invalid body: failed to parse JSON value. Please check the value to ensure it is valid JSON. (Common errors include trailing commas, missing closing brackets, missing quotation marks, etc.)";
const FILES_OF_ENVIRONMENTS: &str = "Environment files (issue 6)";

/// Rows of requests to Agents: shapes.
fn shapes() -> Vec<(&'static str, Proof)> {
    let agent = |members: &str| post(AGENTS, format!(r#"{{"model":"m",{members}}}"#));
    let function = |root: &str| {
        format!(
            r#"{{"type":"function","name":"f","description":"d","parameters":{{"type":"{root}"}}}}"#
        )
    };
    let pairs: Vec<_> = (0..17).map(|n| format!(r#""{n}":"v""#)).collect();
    let long = "x".repeat(65);
    let key_too_long = format!(
        "Invalid property name in 'metadata': '{long}' is too long. Expected a string with maximum length 64, but got a string with length 65 instead."
    );
    vec![
        (
            "E400-01",
            one(
                get(AGENTS).with("openai-beta", "agents=v1"),
                answer(
                    400,
                    "invalid_beta",
                    Some("invalid_beta"),
                    None,
                    "To access the Agents API, set the 'OpenAI-Beta' header to 'agents=v1'.",
                ),
            ),
        ),
        (
            "E400-02",
            Proof::Sent(vec![
                (
                    send("POST", AGENTS),
                    shape(None, "expected request with Content-Type: application/json"),
                ),
                (post(AGENTS, "{"), shape(None, SYNTAX)),
                (
                    post(AGENTS, r#"{"a":{"k":1,"k":2}}"#),
                    shape(
                        None,
                        "Invalid body: duplicate JSON key 'k' at 'a.k'. Duplicate JSON keys are not supported.",
                    ),
                ),
                (
                    post(AGENTS, "[]"),
                    shape(None, "Invalid type: expected an object, but got an array instead."),
                ),
            ]),
        ),
        ("E400-03", one(post(AGENTS, "{}"), shape(Some("model"), "Missing required parameter: 'model'."))),
        (
            "E400-04",
            Proof::Sent(vec![
                (agent(r#""Tools":[]"#), shape(Some("Tools"), "Unknown parameter: 'Tools'.")),
                (
                    agent(r#""tool_choice":1"#),
                    shape(Some("tool_choice"), "Unknown parameter: 'tool_choice'."),
                ),
                (
                    agent(&format!(r#""{}":1"#, "x".repeat(257))),
                    shape(None, "Unknown parameter."),
                ),
            ]),
        ),
        (
            "E400-05",
            one(
                agent(r#""tools":{}"#),
                shape(
                    Some("tools"),
                    "Invalid type for 'tools': expected an array, but got an object instead.",
                ),
            ),
        ),
        (
            "E400-06",
            one(
                agent(r#""service_tier":"x""#),
                shape(
                    Some("service_tier"),
                    "Invalid value: 'x'. Supported values are: 'auto', 'default', 'flex', 'priority', and 'fast'.",
                ),
            ),
        ),
        (
            "E400-07",
            one(
                agent(r#""multi_agent":{"enabled":true,"max_concurrent_subagents":0}"#),
                shape(
                    Some("multi_agent.max_concurrent_subagents"),
                    "Invalid 'multi_agent.max_concurrent_subagents': integer below minimum value. Expected a value >= 1, but got 0 instead.",
                ),
            ),
        ),
        (
            "E400-08",
            Proof::Sent(vec![
                (
                    agent(&format!(r#""tools":[{0},{0}]"#, function("object"))),
                    shape(None, "duplicate function tool name: f"),
                ),
                (
                    agent(r#""tools":[{"type":"web_search"},{"type":"web_search"}]"#),
                    shape(None, "duplicate web_search tool"),
                ),
                (
                    agent(r#""tools":[{"type":"tool_search"},{"type":"tool_search"}]"#),
                    shape(None, "duplicate tool_search tool"),
                ),
            ]),
        ),
        (
            "E400-09",
            one(
                agent(&format!(r#""tools":[{}]"#, function("array"))),
                shape(
                    None,
                    "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'.",
                ),
            ),
        ),
        (
            "E400-10",
            one(
                agent(r#""text":{"format":{"type":"json_schema","schema":{"type":"array"}}}"#),
                shape(
                    None,
                    "agent.text.format.schema must have top-level type \"object\"; got \"array\"",
                ),
            ),
        ),
        (
            "E400-11",
            one(
                agent(&format!(r#""metadata":{{{}}}"#, pairs.join(","))),
                shape(
                    Some("metadata"),
                    "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, but got an object with 17 properties instead.",
                ),
            ),
        ),
        (
            "E400-12",
            one(
                agent(&format!(r#""metadata":{{"{long}":"v"}}"#)),
                shape(Some(concat!("metadata.", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")), key_too_long),
            ),
        ),
        (
            "E400-13",
            one(
                agent(&format!(r#""metadata":{{"k":"{}"}}"#, "x".repeat(513))),
                shape(
                    Some("metadata.k"),
                    "Invalid 'metadata.k': string too long. Expected a string with maximum length 512, but got a string with length 513 instead.",
                ),
            ),
        ),
        (
            "E400-14",
            Proof::Sent(
                [AGENTS, SESSIONS, "/v1/vaults"]
                    .map(|path| {
                        (
                            post(path, r#"{"metadata":{"k":1}}"#),
                            shape(
                                Some("metadata.k"),
                                "Invalid type for 'metadata.k': expected a string, but got an integer instead.",
                            ),
                        )
                    })
                    .into(),
            ),
        ),
        (
            "E400-15",
            one(
                agent(&format!(r#""name":"{}""#, "x".repeat(129))),
                shape(
                    Some("name"),
                    "Invalid 'name': string too long. Expected a string with maximum length 128, but got a string with length 129 instead.",
                ),
            ),
        ),
        (
            "E400-16",
            Proof::Sent(
                [
                    agent(r#""instructions":"\u0000""#),
                    get(format!("{SESSIONS}?agent_id=%ff")),
                ]
                .map(|sent| {
                    (
                        sent,
                        shape(
                            None,
                            "Request text contains characters this service cannot store or compare, such as U+0000 or invalid UTF-8.",
                        ),
                    )
                })
                .into(),
            ),
        ),
    ]
}

/// Rows of Sessions, their input and their Environments.
fn sessions(ids: &Ids) -> Vec<(&'static str, Proof)> {
    let events = |session: &str, events: &str| {
        post(
            format!("{SESSIONS}/{session}/events"),
            format!(r#"{{"events":[{events}]}}"#),
        )
    };
    let result =
        r#"{"type":"agent.session.input.tool_result","turn_id":"t","call_id":"c","success":true}"#;
    let configuration = Some("unsupported_or_invalid_configuration");
    let request = || {
        bad(
            Some("invalid_request"),
            None,
            "Invalid resource identifier or request limits.",
        )
    };
    let restricted = |domains: &str| {
        post(
            TEMPLATES,
            format!(r#"{{"network":{{"access":"restricted","allowed_domains":{domains}}}}}"#),
        )
    };
    vec![
        (
            "E400-17",
            one(
                post(format!("{SESSIONS}/{}", ids.session), "{}"),
                shape(None, "At least one update field is required"),
            ),
        ),
        (
            "E400-18",
            one(
                post(SESSIONS, r#"{"environment":{"type":"none"}}"#),
                shape(
                    None,
                    "conversation-only sessions currently require initial input",
                ),
            ),
        ),
        (
            "E400-20",
            Proof::Sent(vec![
                (events(&ids.session, ""), request()),
                (
                    post(SESSIONS, "{}").with("idempotency-key", "x".repeat(129)),
                    request(),
                ),
            ]),
        ),
        (
            "E400-21",
            one(
                events(&ids.session, result),
                shape(None, "Unknown pending tool call: c"),
            ),
        ),
        (
            "E400-22",
            decided(
                Refusal::OtherTurn,
                shape(None, "The tool call belongs to a different Turn."),
            ),
        ),
        (
            "E400-23",
            one(
                post(SESSIONS, r#"{"agent":{"service_tier":"flex"}}"#),
                bad(
                    configuration,
                    Some("agent.service_tier"),
                    "Execution currently supports service_tier=auto only.",
                ),
            ),
        ),
        (
            "E400-24",
            one(
                post(SESSIONS, r#"{"input":" "}"#),
                bad(
                    configuration,
                    None,
                    "This Session's harness does not accept a message whose text is only whitespace. Include non-whitespace text or an image, or use a harness that supports whitespace-only text.",
                ),
            ),
        ),
        (
            "E400-25",
            Proof::Decided(vec![(
                Invalid::model_provider_required().into(),
                bad(
                    Some("model_provider_required"),
                    Some("x_agents_core.model_provider"),
                    "This Session needs a model provider. Set 'x_agents_core.model_provider' with 'protocol', 'base_url' and 'api_key', or ask the operator to configure a default.",
                ),
            )]),
        ),
        (
            "E400-26",
            Proof::Decided(vec![(
                Invalid::harness_required().into(),
                shape(
                    Some("x_agents_core.harness"),
                    "No harness is selected and no default harness is available.",
                ),
            )]),
        ),
        (
            "E400-30",
            Proof::Sent(vec![
                (
                    restricted("[]"),
                    shape(
                        None,
                        "Network access 'restricted' requires 1 to 100 allowed_domains.",
                    ),
                ),
                (
                    restricted(r#"["*.example"]"#),
                    shape(
                        None,
                        "allowed_domains must hold exact ASCII host names: no wildcards, schemes, ports, paths or IP addresses.",
                    ),
                ),
                (
                    post(
                        TEMPLATES,
                        r#"{"network":{"access":"enabled","allowed_domains":["a.example"]}}"#,
                    ),
                    shape(
                        None,
                        "allowed_domains requires network access 'restricted'.",
                    ),
                ),
            ]),
        ),
        (
            "E400-31",
            Proof::Sent(
                [
                    post(TEMPLATES, r#"{"packages":{"system":null}}"#),
                    post(
                        SESSIONS,
                        r#"{"environment":{"type":"openai_hosted","packages":{"system":[]}}}"#,
                    ),
                ]
                .map(|sent| {
                    (
                        sent,
                        shape(
                            Some("packages.system"),
                            "System packages cannot be installed; use an image that has them.",
                        ),
                    )
                })
                .into(),
            ),
        ),
        (
            "E400-32",
            Proof::Later("self-hosted Environments (issue 8)"),
        ),
        ("E400-33", Proof::Later(FILES_OF_ENVIRONMENTS)),
        ("E400-43", Proof::Later(FILES_OF_ENVIRONMENTS)),
        ("E400-44", Proof::Later(FILES_OF_ENVIRONMENTS)),
        (
            "E409-01",
            one(
                events(&ids.pending, r#"{"type":"agent.session.input.cancel"}"#),
                conflict(
                    "conflict_error",
                    "Earlier input to this Session is still pending.",
                ),
            ),
        ),
        (
            "E409-02",
            decided(
                Refusal::TurnState { final_: true },
                conflict(
                    "conflict_error",
                    "The Turn cannot accept this input in its current state.",
                ),
            ),
        ),
        (
            "E409-03",
            decided(
                Refusal::DifferentResult,
                conflict(
                    "conflict_error",
                    "The tool call already has a different result.",
                ),
            ),
        ),
        (
            "E409-04",
            decided(
                Refusal::HostedEnvironmentFailed,
                conflict(
                    "conflict_error",
                    "the hosted environment failed to provision",
                ),
            ),
        ),
        (
            "E409-05",
            one(
                send("DELETE", format!("{SESSIONS}/{}", ids.pending)),
                conflict(
                    "conflict_error",
                    "session must be durably idle or failed without required actions before deletion",
                ),
            ),
        ),
        (
            "E409-07",
            one(
                post(AGENTS, r#"{"model":"two"}"#).with("idempotency-key", "k"),
                conflict(
                    "idempotency_conflict",
                    "This idempotency key was used with different input.",
                ),
            ),
        ),
        (
            "E409-08",
            decided(
                Refusal::FileWrite { unsettled: true },
                conflict(
                    "turn_conflict",
                    "The Turn cannot accept this input in its current state.",
                ),
            ),
        ),
        (
            "E409-09",
            decided(
                Refusal::EnvironmentUnavailable,
                conflict(
                    "environment_unavailable",
                    "The environment is no longer available for new input.",
                ),
            ),
        ),
        (
            "E409-10",
            decided(
                Refusal::InputExpired,
                conflict(
                    "environment_input_expired",
                    "The environment input deadline elapsed before admission.",
                ),
            ),
        ),
        (
            "E409-11",
            decided(
                Refusal::InputCancelled,
                conflict(
                    "environment_input_cancelled",
                    "The environment input was cancelled before admission.",
                ),
            ),
        ),
        ("E410-01", Proof::Later("the runner socket (issue 6)")),
    ]
}

/// Rows of Credentials that a Session selects.
fn selections(ids: &Ids) -> Vec<(&'static str, Proof)> {
    let create = |vaults: &str, credential: &str, url: &str| {
        let credential = match credential {
            "" => String::new(),
            id => format!(r#","credential_id":"{id}""#),
        };
        post(
            SESSIONS,
            format!(
                r#"{{"vault_ids":[{vaults}],"agent":{{"tools":[{{"type":"mcp","server_label":"l"{credential},"transport":{{"type":"http","server_url":"{url}"}}}}]}}}}"#
            ),
        )
    };
    let vault = format!(r#""{}""#, ids.vault);
    let (one, own) = (&ids.credential, "https://one");
    vec![
        (
            "E400-27",
            self::one(
                create("", one, own),
                shape(None, "MCP credential_id requires an attached vault"),
            ),
        ),
        (
            "E400-28",
            Proof::Sent(
                [NEVER, "x", &ids.foreign, &ids.unattached]
                    .map(|id| {
                        let message =
                            format!("MCP credential_id {id} was not found in an attached vault");
                        (create(&vault, id, own), shape(None, message))
                    })
                    .into(),
            ),
        ),
        (
            "E400-29",
            self::one(
                create(&vault, one, "https://two"),
                shape(
                    None,
                    format!("MCP credential_id {one} does not match server_url https://two"),
                ),
            ),
        ),
        (
            "E409-06",
            self::one(
                create(&vault, "", "https://twice"),
                conflict(
                    "conflict_error",
                    "multiple attached vault credentials match MCP server_url https://twice; specify credential_id",
                ),
            ),
        ),
    ]
}

/// Rows of lists, Files and Skills.
fn lists(ids: &Ids) -> Vec<(&'static str, Proof)> {
    let below = |rest: &str| format!("{SESSIONS}/{}/{rest}", ids.session);
    let version = |id: &str| format!("/v1/skills/{}/versions{id}", ids.skill);
    let query = |text: &str| shape(None, format!("Failed to deserialize query string: {text}"));
    vec![
        (
            "E400-34",
            one(
                get("/v1/agents?limit=1&limit=2"),
                query("duplicate field `limit`"),
            ),
        ),
        (
            "E400-35",
            Proof::Sent(vec![
                (
                    get("/v1/agents?order=x"),
                    query("order: unknown variant `x`, expected `asc` or `desc`"),
                ),
                (
                    get("/v1/agents?order="),
                    query("order: unknown variant ``, expected `asc` or `desc`"),
                ),
            ]),
        ),
        (
            "E400-36",
            one(
                get("/v1/agents?limit=x"),
                query("limit: invalid digit found in string"),
            ),
        ),
        (
            "E400-37",
            one(
                get("/v1/agents?limit=9223372036854775808"),
                query("limit: number too large to fit in target type"),
            ),
        ),
        (
            "E400-38",
            Proof::Sent(
                ["turns?limit=0", "subagents?limit=101", "artifacts?limit=0"]
                    .map(|rest| {
                        (
                            get(below(rest)),
                            shape(None, "limit must be between 1 and 100"),
                        )
                    })
                    .into(),
            ),
        ),
        (
            "E400-39",
            one(
                get("/v1/vaults?status=x"),
                query(
                    "status: data did not match any variant of untagged enum VaultStatusFilterParam",
                ),
            ),
        ),
        (
            "E400-40",
            one(
                get(below("items?after=x")),
                shape(None, "Invalid session item ID in `after`"),
            ),
        ),
        (
            "E400-41",
            one(
                get(below("subagents?after=x")),
                shape(None, "Invalid resource ID in `after`"),
            ),
        ),
        (
            "E400-42",
            one(
                get(below("artifacts?after=x")),
                shape(None, "after is not a valid artifact ID"),
            ),
        ),
        (
            "E400-45",
            Proof::Sent(vec![
                (
                    get("/v1/skills?order=x"),
                    bad(
                        Some("invalid_value"),
                        Some("order"),
                        "Invalid value: 'x'. Supported values are: 'asc' and 'desc'.",
                    ),
                ),
                (
                    get(version("?after=x")),
                    bad(
                        Some("invalid_value"),
                        Some("after"),
                        "Invalid 'after': 'x'. Expected an ID that begins with 'skillver'.",
                    ),
                ),
                (
                    send("DELETE", version("/1")),
                    bad(
                        Some("invalid_value"),
                        Some("version"),
                        "Cannot delete the default skill version.",
                    ),
                ),
            ]),
        ),
        (
            "E400-46",
            one(
                get("/v1/skills?limit=1&limit=2"),
                bad(
                    Some("duplicate_parameter"),
                    Some("limit"),
                    "Duplicate parameter: 'limit'. This parameter must be given once.",
                ),
            ),
        ),
        (
            "E400-47",
            Proof::Sent(vec![
                (
                    get("/v1/skills?limit=-1"),
                    bad(
                        Some("integer_below_min_value"),
                        Some("limit"),
                        "Invalid 'limit': integer below minimum value. Expected a value >= 0, but got -1 instead.",
                    ),
                ),
                (
                    get("/v1/skills?limit=101"),
                    bad(
                        Some("integer_above_max_value"),
                        Some("limit"),
                        "Invalid 'limit': integer above maximum value. Expected a value <= 100, but got 101 instead.",
                    ),
                ),
            ]),
        ),
        (
            "E400-48",
            one(
                get("/v1/skills?limit=x"),
                bad(
                    Some("invalid_request"),
                    None,
                    "limit must be an integer between 0 and 100.",
                ),
            ),
        ),
        (
            "E400-49",
            Proof::Sent(vec![
                (
                    get("/v1/files?limit=1&limit=2"),
                    bad(
                        Some("unsupported_parameter"),
                        None,
                        "'limit' must be given once.",
                    ),
                ),
                (
                    Sent {
                        body: Some("{}".to_owned()),
                        ..send("DELETE", format!("/v1/files/{}", ids.file))
                    },
                    bad(
                        Some("unsupported_parameter"),
                        None,
                        "This operation takes no body.",
                    ),
                ),
            ]),
        ),
        (
            "E400-50",
            Proof::Sent(vec![
                (
                    get("/v1/files?order=x"),
                    bad(None, None, "order must be asc or desc."),
                ),
                (
                    get("/v1/files?limit=0"),
                    bad(None, None, "limit must be between 1 and 10000."),
                ),
                (
                    get("/v1/files?limit=x"),
                    bad(
                        Some("invalid_request"),
                        None,
                        "limit must be between 1 and 10000.",
                    ),
                ),
            ]),
        ),
        (
            "E400-51",
            Proof::Sent(vec![
                (
                    get("/v1/files?purpose=x"),
                    bad(
                        None,
                        Some("purpose"),
                        "purpose is not one of the supported purposes.",
                    ),
                ),
                (
                    get(format!("/v1/files/{}/content", ids.file)),
                    bad(
                        None,
                        None,
                        "Not allowed to download files of purpose: user_data",
                    ),
                ),
            ]),
        ),
    ]
}

/// Rows that every route has, and those of a service that lacks something.
fn common() -> Vec<(&'static str, Proof)> {
    let key = "A valid Agents API bearer key is required.";
    let stored = |code: &'static str| {
        (
            ApiError::from(ContentError::Storage(code)),
            unavailable(code, "Stored content is not available."),
        )
    };
    vec![
        (
            "E401-01",
            Proof::Sent(vec![
                (get(AGENTS).keyless(), answer(401, INV, None, None, key)),
                (
                    get("/v1/files").keyless().with("authorization", "Bearer x"),
                    answer(401, INV, Some("invalid_api_key"), None, key),
                ),
            ]),
        ),
        (
            "E404-01",
            one(
                get(format!("/v1/agents/{NEVER}")),
                answer(
                    404,
                    "not_found_error",
                    Some("not_found_error"),
                    None,
                    "Resource not found.",
                ),
            ),
        ),
        (
            "E404-02",
            Proof::Sent(vec![
                (
                    get("/v1/files?after=x"),
                    answer(404, INV, None, Some("after"), "Resource not found."),
                ),
                (
                    get(format!("/v1/skills/{NEVER}")),
                    answer(404, INV, None, None, "Resource not found."),
                ),
            ]),
        ),
        (
            "E404-03",
            one(
                get("/v1/agents/"),
                answer(
                    404,
                    INV,
                    Some("unsupported_operation"),
                    None,
                    "This API operation is not supported.",
                ),
            ),
        ),
        (
            "E405-01",
            one(
                send("FOO", AGENTS),
                answer(
                    405,
                    INV,
                    Some("unsupported_operation"),
                    None,
                    "This API method is not supported.",
                ),
            ),
        ),
        (
            "E413-01",
            Proof::Sent(vec![
                (
                    post(AGENTS, "{}").with("content-length", "1048577"),
                    answer(
                        413,
                        INV,
                        Some("request_too_large"),
                        None,
                        "Request body exceeds the limit of 1048576 bytes.",
                    ),
                ),
                (
                    send("POST", "/v1/files")
                        .with("content-type", "multipart/form-data; boundary=x")
                        .with("content-length", "999999999999"),
                    answer(
                        413,
                        INV,
                        Some("request_too_large"),
                        None,
                        "File exceeds this operation's content limit.",
                    ),
                ),
            ]),
        ),
        (
            "E500-01",
            Proof::Decided(vec![(
                ApiError::Internal {
                    effect_unknown: true,
                },
                answer(
                    500,
                    "server_error",
                    Some("internal_error"),
                    None,
                    "The operation could not be completed.",
                ),
            )]),
        ),
        (
            "E503-01",
            Proof::Decided(vec![(
                ApiError::AuthenticationUnavailable,
                unavailable(
                    "authentication_unavailable",
                    "Authentication is temporarily unavailable.",
                ),
            )]),
        ),
        (
            "E503-02",
            Proof::Decided(vec![(
                ApiError::EXECUTION_UNAVAILABLE,
                unavailable(
                    "execution_unavailable",
                    "Execution is not available on this service.",
                ),
            )]),
        ),
        (
            "E503-03",
            Proof::Decided(vec![(
                ApiError::StreamUnavailable,
                unavailable(
                    "stream_unavailable",
                    "Live events are not available on this service.",
                ),
            )]),
        ),
        (
            "E503-04",
            Proof::Decided(vec![(
                ApiError::CredentialStorageUnavailable,
                unavailable(
                    "credential_storage_unavailable",
                    "Credential encryption is not configured on this service.",
                ),
            )]),
        ),
        (
            // `file_transfer_unavailable` and `subagent_storage_unavailable` have no cause here: there is no transfer whose
            // deadline could not be set, and Subagents are rows of the one database.
            "E503-05",
            Proof::Decided(vec![
                stored("file_storage_unavailable"),
                stored("skill_storage_unavailable"),
                stored("artifact_storage_unavailable"),
            ]),
        ),
        (
            "E503-06",
            Proof::Later("nodes and the reset of a provider (remote providers)"),
        ),
    ]
}

fn table(ids: &Ids) -> Vec<(&'static str, Proof)> {
    let mut table = shapes();
    table.extend(sessions(ids));
    table.extend(selections(ids));
    table.extend(lists(ids));
    table.extend(common());
    table
}

async fn decided_bytes(error: ApiError) -> Answered {
    let response: Response<_> = error.into_response();
    read(response).await
}

async fn answered(fixture: &Fixture, sent: &Sent) -> Answered {
    let headers: Vec<_> = sent
        .headers
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let key = sent.key.then_some(fixture.key.as_str());
    let answer = fixture.open(sent.method, &sent.path, key, sent.body.as_deref(), &headers);
    read(answer.await).await
}

async fn made(fixture: &Fixture, key: &str, path: &str, body: &str) -> String {
    let made = fixture.send("POST", path, Some(key), Some(body)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.json()["id"].as_str().unwrap().to_owned()
}

async fn vault(fixture: &Fixture, key: &str) -> String {
    made(fixture, key, "/v1/vaults", "{}").await
}

async fn credential(fixture: &Fixture, key: &str, vault: &str, url: &str) -> String {
    let body = format!(
        r#"{{"name":"n","auth":{{"type":"static_bearer","mcp_server_url":"{url}","token":"t"}}}}"#
    );
    made(
        fixture,
        key,
        &format!("/v1/vaults/{vault}/credentials"),
        &body,
    )
    .await
}

both!(every_row_of_the_table_has_its_bytes);
async fn every_row_of_the_table_has_its_bytes(database: TestDatabase) {
    let fixture = Fixture::on(database).await;
    fixture.default_model().await;
    let skill = fixture.skill("---\nname: a\ndescription: b\n---").await;
    let another = [Part::file(
        "files[]",
        "a/SKILL.md",
        b"---\nname: a\ndescription: c\n---",
    )];
    let path = format!("/v1/skills/{skill}/versions");
    let uploaded = fixture.form(&path, Some(&fixture.key), &another).await;
    assert_eq!(uploaded.status, 200, "{}", uploaded.body);
    let attached = vault(&fixture, &fixture.key).await;
    for _ in 0..2 {
        credential(&fixture, &fixture.key, &attached, "https://twice").await;
    }
    let ids = Ids {
        session: fixture
            .session(r#"{"environment":{"type":"none"},"input":"hi"}"#)
            .await,
        pending: fixture.session(r#"{"input":"hi"}"#).await,
        file: fixture.file("f", b"x").await,
        skill,
        credential: credential(&fixture, &fixture.key, &attached, "https://one").await,
        unattached: credential(
            &fixture,
            &fixture.key,
            &vault(&fixture, &fixture.key).await,
            "https://one",
        )
        .await,
        foreign: credential(
            &fixture,
            &fixture.other,
            &vault(&fixture, &fixture.other).await,
            "https://one",
        )
        .await,
        vault: attached,
    };
    let first = post(AGENTS, r#"{"model":"one"}"#).with("idempotency-key", "k");
    assert_eq!(answered(&fixture, &first).await.status, 201);
    let before = fixture.dump().await;
    for (id, proof) in table(&ids) {
        match proof {
            Proof::Sent(list) => {
                assert!(!list.is_empty(), "{id}");
                for (sent, expected) in list {
                    expected.check(id, &answered(&fixture, &sent).await);
                }
            }
            Proof::Decided(list) => {
                assert!(!list.is_empty(), "{id}");
                for (error, expected) in list {
                    expected.check(id, &decided_bytes(error).await);
                }
            }
            Proof::Later(work) => assert!(!work.is_empty(), "{id}"),
        }
    }
    assert_eq!(
        fixture.dump().await,
        before,
        "a refused request writes nothing"
    );
    // An echo that is no printable text is left out (W-BODY-10).
    let unfit = ApiError::Refused(Refusal::UnknownCall(CallId("\u{7}".into())));
    shape(None, "Unknown pending tool call").check("E400-21", &decided_bytes(unfit).await);
}

#[test]
fn no_row_of_the_table_is_missing() {
    let id = String::new;
    let ids = Ids {
        session: id(),
        pending: id(),
        skill: id(),
        file: id(),
        vault: id(),
        credential: id(),
        unattached: id(),
        foreign: id(),
    };
    let mut there: Vec<_> = table(&ids).iter().map(|row| row.0.to_owned()).collect();
    there.sort_unstable();
    let mut expected: Vec<_> = IDS
        .iter()
        .flat_map(|(status, rows)| (1..=*rows).map(move |row| format!("{status}-{row:02}")))
        .filter(|id| id != UNUSED)
        .collect();
    expected.sort_unstable();
    assert_eq!(there, expected);
}
