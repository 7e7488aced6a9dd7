//! What a plugin can do wrong while it runs. Each fault is the answer of that one call; the plugin's other sessions and
//! the host go on.

use std::time::{Duration, Instant};

use plugin_host::Plugin;
use plugin_host::contract::common::{Effect, Extra, Failure, Pair};
use plugin_host::contract::harness_io::{Input, Output};
use plugin_host::contract::harness_session::Configuration;
use plugin_host::contract::{HarnessAdapter, HarnessSession};

pub fn configuration(fault: &str) -> Configuration {
    Configuration {
        home: fault.into(),
        ..kit::harness::configuration("faulty")
    }
}

pub fn said(step: u32) -> Output {
    Output::Retire(format!("step_{step}"))
}

fn fault(kind: &str) -> Vec<Input> {
    vec![Input::Other(Extra {
        kind: kind.into(),
        json: "{}".into(),
    })]
}

fn open(adapter: &dyn HarnessAdapter) -> Box<dyn HarnessSession> {
    adapter.open(configuration("none")).unwrap()
}

/// A step breaks; its session is over, another one of the plugin is not.
fn breaks(plugin: &Plugin, kind: &str) -> Failure {
    let adapter = crate::harness(plugin);
    let mut other = open(adapter);
    other.step(Vec::new()).unwrap();
    let mut session = open(adapter);
    let failure = session.step(fault(kind)).unwrap_err();
    assert_eq!(failure.effect, Effect::Unknown, "{failure:?}");
    let after = session.step(Vec::new()).unwrap_err();
    assert_eq!(
        (after.code.as_str(), after.effect),
        ("plugin_ended", Effect::None)
    );
    assert_eq!(other.step(Vec::new()).unwrap(), [said(2)]);
    assert_eq!(open(adapter).step(Vec::new()).unwrap(), [said(1)]);
    failure
}

#[test]
fn a_component_that_breaks_breaks_one_call() {
    let [component, _] = crate::files("faulty");
    for (kind, code) in [
        ("panic", "plugin_crashed"),
        ("recursion", "plugin_crashed"),
        ("memory", "plugin_memory"),
        // Within its own memory it cannot even make the answer.
        ("output", "plugin_memory"),
    ] {
        let failure = breaks(&crate::load(&component), kind);
        assert_eq!(failure.code, code, "{kind}: {failure:?}");
    }
}

#[test]
fn an_endless_component_is_interrupted() {
    let [component, _] = crate::files("faulty");
    let plugin = crate::load(&component);
    let start = Instant::now();
    assert_eq!(breaks(&plugin, "loop").code, "plugin_deadline");
    // Far from endless, whatever the machine does besides.
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_library_that_panics_or_says_too_much_breaks_one_call() {
    let [_, library] = crate::files("faulty");
    for (kind, code) in [("panic", "plugin_crashed"), ("output", "plugin_output")] {
        let failure = breaks(&crate::load(&library), kind);
        assert_eq!(failure.code, code, "{kind}: {failure:?}");
    }
}

#[test]
fn every_operation_may_crash() {
    let loaded = crate::both("faulty");
    for plugin in &loaded {
        let adapter = crate::harness(plugin);
        let setting = Pair {
            name: "fault".into(),
            value: "panic".into(),
        };
        let failure = adapter.describe(&[setting]).unwrap_err();
        assert_eq!(
            (failure.code.as_str(), failure.effect),
            ("plugin_crashed", Effect::None)
        );
        let verdict = adapter.interpret_probe("panic", &[]);
        assert_eq!(verdict.problem.as_deref(), Some("plugin_crashed"));
        let opened = adapter.open(configuration("panic"));
        let failure = opened.err().unwrap();
        assert_eq!(
            (failure.code.as_str(), failure.effect),
            ("plugin_crashed", Effect::None)
        );
        // A refusal of its own is no fault.
        let refused = adapter.open(configuration("refused")).err().unwrap();
        assert_eq!(refused.code, "invalid_configuration");
        assert_eq!(plugin.health.faults(), 3);
        assert!(adapter.describe(&[]).is_ok());
    }
}

#[test]
fn a_plugin_that_keeps_breaking_is_not_called_any_more() {
    let loaded = crate::both("faulty");
    for plugin in &loaded {
        let adapter = crate::harness(plugin);
        let mut running = open(adapter);
        for _ in 0..5 {
            assert_eq!(plugin.health.quarantine(), None);
            assert!(open(adapter).step(fault("panic")).is_err());
        }
        let reason = plugin.health.quarantine().unwrap();
        assert!(reason.contains("step"), "{reason}");
        let refused = adapter.open(configuration("none")).err().unwrap();
        assert_eq!(
            (refused.code.as_str(), refused.effect),
            ("plugin_quarantined", Effect::None)
        );
        assert_eq!(running.step(Vec::new()).unwrap_err().effect, Effect::None);
    }
}

#[test]
fn a_flood_of_log_lines_does_not_hold_anybody() {
    let loaded = crate::both("faulty");
    for plugin in &loaded {
        let mut session = open(crate::harness(plugin));
        // Done within the deadline or ended by it; never a crash of the host.
        match session.step(fault("log")) {
            Ok(outputs) => assert_eq!(outputs, [said(1)]),
            Err(failure) => assert_eq!(failure.code, "plugin_deadline"),
        }
    }
}

#[test]
fn a_plugin_takes_calls_from_many_threads() {
    let loaded = crate::both("faulty");
    for plugin in &loaded {
        let adapter = crate::harness(plugin);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let mut session = open(adapter);
                    for step in 1..20 {
                        assert_eq!(session.step(Vec::new()).unwrap(), [said(step)]);
                    }
                });
            }
        });
        assert_eq!(plugin.health.faults(), 0);
    }
}
