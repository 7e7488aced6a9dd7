//! Which configurations are taken, what the probe reads, how the process is launched.

use harness_codex::Codex;
use kit::harness::Bench;
use sdk::HarnessAdapter;
use sdk::common::Effect;
use sdk::harness_declaration::ProbeReport;
use sdk::harness_io::*;
use sdk::harness_launch::{Directory, HomeContent, Piece};
use sdk::harness_session::{Configuration, Function, Workspace};

use crate::support::configuration;

#[test]
fn a_configuration_that_needs_more_is_refused_before_a_process_exists() {
    type Change = fn(&mut Configuration);
    let function = Function {
        name: "f".into(),
        description: String::new(),
        parameters: "{}".into(),
        deferred: false,
    };
    let with_function = move |c: &mut Configuration| c.functions = vec![function.clone()];
    let mut changed = configuration();
    with_function(&mut changed);
    assert_eq!(
        Codex.open(changed).err().unwrap().code,
        "unsupported_configuration"
    );
    let cases: [(Change, &str); 12] = [
        (|c| c.harness = "other".into(), "invalid_configuration"),
        (|c| c.home = "relative".into(), "invalid_configuration"),
        (
            |c| c.workspace = Workspace::Here("relative".into()),
            "invalid_configuration",
        ),
        (|c| c.parameters = "[]".into(), "invalid_configuration"),
        (
            |c| c.parameters = r#"{"effort":"low"}"#.into(),
            "invalid_configuration",
        ),
        (
            |c| c.parameters = r#"{"model_reasoning_effort":"huge"}"#.into(),
            "invalid_configuration",
        ),
        (
            |c| c.workspace = Workspace::Remote,
            "unsupported_configuration",
        ),
        (|c| c.model = None, "unsupported_configuration"),
        (
            |c| c.output_schema = Some("{}".into()),
            "unsupported_configuration",
        ),
        (|c| c.subagents = Some(1), "unsupported_configuration"),
        (
            |c| c.controls.web_search = Some("live".into()),
            "unsupported_configuration",
        ),
        (
            |c| c.options.verbosity = Some("medium".into()),
            "unsupported_configuration",
        ),
    ];
    for (change, code) in cases {
        let mut changed = configuration();
        change(&mut changed);
        let failure = Codex.open(changed).err().unwrap();
        assert_eq!(
            (failure.code.as_str(), failure.effect),
            (code, Effect::None),
            "{}",
            failure.detail
        );
    }
}

#[test]
fn explicit_off_switches_are_taken() {
    let mut configuration = configuration();
    configuration.controls.web_search = Some("disabled".into());
    configuration.controls.programmatic_calling = Some(false);
    assert!(Codex.open(configuration).is_ok());
}

#[test]
fn the_probe_reads_only_what_it_understands() {
    let report = |exit_code, stdout: &str| ProbeReport {
        args: vec!["--version".into()],
        exit_code,
        stdout: stdout.into(),
    };
    let verdict = |report| Codex.interpret_probe("codex", &[report]);
    assert_eq!(
        verdict(report(Some(0), "codex-cli 0.171.0\n"))
            .version
            .as_deref(),
        Some("0.171.0")
    );
    for bad in [
        report(Some(1), "codex-cli 0.171.0\n"),
        report(None, "codex-cli 0.171.0\n"),
        report(Some(0), "something 0.171.0\n"),
        report(Some(0), "codex-cli \n"),
        report(Some(0), "codex-cli 0.171.0 and more\n"),
    ] {
        assert_eq!(verdict(bad).problem.as_deref(), Some("program_unusable"));
    }
}

#[test]
fn the_launch_gives_the_process_its_home_and_nothing_secret() {
    let mut bench = Bench::open(&Codex, &configuration()).unwrap();
    let outputs = bench
        .step(vec![Input::Command(Command::Prepare("p".into()))])
        .unwrap();
    let [Output::Launch(plan)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(plan.args, ["app-server", "--strict-config"]);
    assert_eq!(plan.directory, Directory::Workspace);
    let HomeContent::File(pieces) = &plan.home[0].content else {
        panic!("no file")
    };
    let [Piece::Text(before), Piece::Fill(_), Piece::Text(after)] = pieces.as_slice() else {
        panic!("{pieces:?}")
    };
    assert!(before.contains("[projects.\"/home/agent/work\"]\ntrust_level = \"untrusted\""));
    assert_eq!(after, "/v1\"\n");
    assert!(plan.home.iter().all(|entry| entry.mode == 0o600));
}
