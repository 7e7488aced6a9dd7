//! Creations: their order of errors, what is one request, and the portable part.

use super::*;

fn parse(text: &str) -> Result<SessionCreation, Invalid> {
    SessionCreation::parse(Json::new(text))
}

fn refused(text: &str) -> (String, Option<String>) {
    let invalid = parse(text).expect_err(text);
    (invalid.message, invalid.param)
}

/// The canonical form.
fn identity(text: &str) -> String {
    serde_json::to_string(&parse(text).unwrap().identity()).unwrap()
}

#[test]
fn a_creation_that_names_nothing_is_compared_by_what_it_comes_to() {
    // W-IDEM-6, S-ADM-2
    let with = |agent: &str, more: &str| {
        identity(&format!(
            r#"{{"environment":{{"type":"none"}},"input":"hi","agent":{{"model":"m"{agent}}}{more}}}"#
        ))
    };
    let plain = with("", "");
    for same in [
        r#","text":null"#,
        r#","text":{}"#,
        r#","text":{"verbosity":null}"#,
        r#","text":{"verbosity":"medium"}"#,
        r#","text":{"format":{"type":"text"}}"#,
        r#","tools":null"#,
        r#","tools":[]"#,
        r#","service_tier":null"#,
        r#","service_tier":"auto""#,
        r#","instructions":null"#,
        r#","reasoning":null"#,
        r#","reasoning":{"effort":null}"#,
        r#","multi_agent":null"#,
    ] {
        assert_eq!(with(same, ""), plain, "{same}");
    }
    let empty = r#","metadata":{},"vault_ids":[],"x_agents_core":null"#;
    assert_eq!(with("", empty), plain);
    for other in [
        r#","text":{"verbosity":"low"}"#,
        r#","instructions":"x""#,
        r#","tools":[{"type":"tool_search"}]"#,
    ] {
        assert_ne!(with(other, ""), plain, "{other}");
    }
    // What names something that may change is compared as sent.
    let server = |credential: &str| {
        format!(
            r#","tools":[{{"type":"mcp","server_label":"l","transport":{{"type":"http","server_url":"https://h/"}}{credential}}}]"#
        )
    };
    let verbosities = [r#","text":null"#, ""];
    for (agent, more) in [
        (String::new(), r#","agent_id":"a""#),
        (String::new(), r#","vault_ids":["v"]"#),
        (String::new(), r#","x_agents_core":{"harness_config":{}}"#),
        (r#","x_agents_core":{"harness":"h"}"#.to_owned(), ""),
        (server(r#","credential_id":"c""#), ""),
    ] {
        let [one, other] = verbosities.map(|text| with(&format!("{agent}{text}"), more));
        assert_ne!(one, other, "{agent}{more}");
    }
    let [one, other] = verbosities.map(|text| with(&format!("{}{text}", server("")), ""));
    assert_eq!(one, other);
    let [one, other] = verbosities.map(|text| {
        identity(&format!(
            r#"{{"input":"hi","agent":{{"model":"m"{text}}}}}"#
        ))
    });
    assert_ne!(one, other, "hosted");
}

#[test]
fn the_omitted_environment_and_the_alias_are_one_request() {
    // wire.md WC1, W-IDEM-4, S-ADM-2
    let plain = identity(r#"{"agent":{"model":"m"},"input":"hi"}"#);
    for same in [
        r#"{"environment":{"type":"openai_hosted"},"agent":{"model":"m"},"input":"hi"}"#,
        r#"{"environment":{"type":"hosted"},"input":"hi","agent":{"model":"m"},"stream":true}"#,
        r#"{"environment":{"type":"hosted","files":null,"skills":[],"env":{},"network":{"access":"enabled"}},"agent":{"model":"m"},"input":"hi"}"#,
        r#"{"agent":{"model":"m"},"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"metadata":null,"vault_ids":[]}"#,
    ] {
        assert_eq!(identity(same), plain, "{same}");
    }
    for other in [
        r#"{"environment":{"type":"none"},"agent":{"model":"m"},"input":"hi"}"#,
        r#"{"agent":{"model":"m"},"input":"hi "}"#,
        r#"{"agent":{"model":"m"},"input":"hi","metadata":{"a":"b"}}"#,
        r#"{"agent":{"model":"m","tools":null},"input":"hi"}"#,
        r#"{"environment":{"type":"hosted","env":{"A":"b"}},"agent":{"model":"m"},"input":"hi"}"#,
        r#"{"environment":{"type":"hosted","environment_template_id":"t"},"agent":{"model":"m"},"input":"hi"}"#,
        r#"{"agent":{"model":"m"},"input":"hi","vault_ids":["v"]}"#,
    ] {
        assert_ne!(identity(other), plain, "{other}");
    }
    assert_eq!(
        identity(r#"{"agent":{"model":"m","text":{"verbosity":"medium"}}}"#),
        identity(r#"{"agent":{"model":"m","text":{"verbosity":null}}}"#)
    );
}

#[test]
fn errors_come_in_the_order_of_the_rule() {
    // S-SES-7, S-SES-8, W-META-2
    assert_eq!(
        refused(r#"{"environment":5,"metadata":{"a":1}}"#)
            .1
            .as_deref(),
        Some("metadata.a")
    );
    assert_eq!(
        refused(r#"{"environment":{"type":"none"},"agent":{"model":5}}"#)
            .1
            .as_deref(),
        Some("agent.model")
    );
    assert_eq!(
        refused(r#"{"environment":{"type":"none"},"agent":{"model":"m"}}"#),
        (
            "conversation-only sessions currently require initial input".into(),
            None
        )
    );
    assert_eq!(
        refused(r#"{"input":"","environment":{"type":"x"}}"#).0,
        "Invalid value: 'x'. Supported values are: 'none', 'openai_hosted', and 'self_hosted'."
    );
    assert_eq!(
        refused(r#"{"environment":null}"#).0,
        "Invalid type for 'environment': expected an object, but got null instead."
    );
    assert_eq!(
        refused(r#"{"stream":null}"#).0,
        "Invalid type for 'stream': expected a boolean, but got null instead."
    );
}

#[test]
fn members_are_refused_by_their_path() {
    for (text, param) in [
        (r#"{"vault_ids":[null]}"#, "vault_ids[0]"),
        (
            r#"{"environment":{"type":"openai_hosted","files":[1]}}"#,
            "environment.files[0]",
        ),
        (
            r#"{"environment":{"type":"openai_hosted","env":{"PATH":"b"}}}"#,
            "environment.env.PATH",
        ),
        (
            r#"{"environment":{"type":"openai_hosted","packages":{"system":[]}}}"#,
            "packages.system",
        ),
        (
            r#"{"x_agents_core":{"environment":{"packages":{"system":null}}}}"#,
            "packages.system",
        ),
        (
            r#"{"environment":{"type":"openai_hosted","environment_template_id":null}}"#,
            "environment.environment_template_id",
        ),
        (
            r#"{"environment":{"type":"self_hosted","workspace_directory":"/w"}}"#,
            "environment.type",
        ),
        (
            r#"{"x_agents_core":{"environment":{"network":{"access":"enabled"}}}}"#,
            "x_agents_core.environment.network",
        ),
        (
            r#"{"environment":{"type":"none"},"input":"x","x_agents_core":{"environment":{}}}"#,
            "x_agents_core.environment",
        ),
        (
            r#"{"environment":{"type":"openai_hosted","sandbox_size":"XL"}}"#,
            "environment.sandbox_size",
        ),
    ] {
        assert_eq!(refused(text).1.as_deref(), Some(param), "{text}");
    }
    assert_eq!(
        refused(r#"{"environment":{"type":"none","packages":{}},"input":"x"}"#).0,
        "Unknown parameter: 'environment.packages'."
    );
    parse(r#"{"environment":{"type":"none","network":{"access":"disabled"}},"input":"x"}"#)
        .unwrap();
    let many = vec!["\"v\""; 101].join(",");
    let invalid = parse(&format!(r#"{{"vault_ids":[{many}]}}"#)).unwrap_err();
    assert_eq!(invalid, Invalid::request());
}

#[test]
fn the_portable_part_is_one_request_with_the_environment() {
    // ENV-291 to ENV-293, ENV-297, S-SES-13, ENV-452
    let own = r#"{"environment":{"type":"openai_hosted","environment_template_id":"t","env":{"A":"b"},"files":[]}}"#;
    for same in [
        r#"{"x_agents_core":{"environment":{"environment_template_id":"t","env":{"A":"b"},"files":[]}}}"#,
        r#"{"x_agents_core":{"environment":{"env":{"A":"b"}}},"environment":{"type":"hosted","environment_template_id":"t","files":[]}}"#,
    ] {
        assert_eq!(identity(same), identity(own), "{same}");
    }
    // With a Template, leaving out, null and empty differ.
    let with = |member: &str| {
        identity(&format!(
            r#"{{"environment":{{"type":"hosted","environment_template_id":"t"{member}}}}}"#
        ))
    };
    let forms = ["", r#","files":null"#, r#","files":[]"#].map(with);
    assert!(forms[0] != forms[1] && forms[1] != forms[2]);
    for value in ["null", "[]"] {
        let text = format!(
            r#"{{"environment":{{"type":"openai_hosted","files":{value}}},"x_agents_core":{{"environment":{{"files":null}}}}}}"#
        );
        assert_eq!(
            refused(&text),
            (
                "'files' is given in 'environment' and in 'x_agents_core.environment.files'."
                    .into(),
                Some("x_agents_core.environment.files".into())
            )
        );
    }
}

#[test]
fn what_nothing_prepares_is_refused_by_its_place() {
    // E400-23, ENV-066, S-ADM-6
    use crate::blob::BlobRef;
    use crate::preparation::{Content, Preparation, PreparationPatch};
    let check = |environment: &str, template: &str| {
        let text = format!(r#"{{"environment":{{"type":"openai_hosted"{environment}}}}}"#);
        let EnvironmentRequest::OpenaiHosted(request) = parse(&text).unwrap().environment else {
            panic!("hosted")
        };
        let named = |patch: PreparationPatch<Content>| -> PreparationPatch<BlobRef> {
            patch.with(|_| unreachable!("no content here"))
        };
        let template = crate::template::TemplatePatch::parse(Json::new(template)).unwrap();
        let base = Preparation::inherit(None, named(template.preparation)).unwrap();
        let (whole, confidential) =
            Preparation::inherit(Some(base), named(request.preparation.clone())).unwrap();
        let checked = request.check_runnable(&whole, &confidential);
        checked.map_err(|invalid| {
            assert_eq!(invalid.code, crate::invalid::InvalidCode::Configuration);
            invalid.param.unwrap_or_default()
        })
    };
    const TEMPLATE: &str = r#","environment_template_id":"t""#;
    for (member, value, empty) in [
        ("capability_directories", r#"["/workspace/a"]"#, "[]"),
        ("env", r#"{"A":"b"}"#, "{}"),
        (
            "files",
            r#"[{"type":"file_id","file_id":"f","path":"/workspace/f"}]"#,
            "[]",
        ),
        (
            "network",
            r#"{"access":"disabled"}"#,
            r#"{"access":"enabled"}"#,
        ),
        ("packages", r#"{"npm":["x"]}"#, r#"{"npm":[]}"#),
        ("setup_commands", r#"[{"command":"x"}]"#, "[]"),
        (
            "skills",
            r#"[{"type":"skill_reference","skill_id":"s"}]"#,
            "[]",
        ),
    ] {
        let given = format!(r#","{member}":{value}"#);
        let place = match member {
            "network" => "environment.network.access".to_owned(),
            _ => format!("environment.{member}"),
        };
        assert_eq!(check(&given, "{}"), Err(place));
        let template = format!(r#"{{"{member}":{value}}}"#);
        let inherited = Err("environment.environment_template_id".to_owned());
        assert_eq!(check(TEMPLATE, &template), inherited, "{member}");
        let emptied = format!(r#","{member}":{empty}{TEMPLATE}"#);
        assert_eq!(check(&emptied, "{}"), Ok(()), "{member}");
        // An empty list replaces the Template's; variables and policies only narrow or add.
        if !matches!(member, "env" | "network") {
            assert_eq!(check(&emptied, &template), Ok(()), "{member}");
        }
    }
}

#[test]
fn the_extension_is_strict() {
    // MDL-023, MDL-025, MDL-026
    parse(r#"{"x_agents_core":null}"#).unwrap();
    parse(r#"{"x_agents_core":{"model_provider":null}}"#).unwrap();
    assert_eq!(
        refused(r#"{"x_agents_core":{}}"#).0,
        "'x_agents_core' must not be empty."
    );
    assert_eq!(
        refused(r#"{"x_agents_core":{"node":"x"}}"#).0,
        "Unknown parameter: 'x_agents_core.node'."
    );
}
