//! F02: everything that the pinned Codex says it may send is classified. The fixtures are its own words
//! (`codex app-server generate-json-schema --experimental`); adopting a version means writing them again.

#![allow(clippy::unwrap_used)]

use harness_codex::{knows_item, notification, question};
use serde_json::Value;

const REQUESTS: &str = include_str!("fixtures/codex-0.171.0/ServerRequest.json");
const NOTIFICATIONS: &str = include_str!("fixtures/codex-0.171.0/ServerNotification.json");

/// Values of a member that tells the alternatives of a union apart.
fn tags(union: &Value, member: &str) -> Vec<String> {
    let alternatives = union["oneOf"].as_array().unwrap();
    let tag = |x: &Value| {
        x["properties"][member]["enum"][0]
            .as_str()
            .unwrap()
            .to_owned()
    };
    alternatives.iter().map(tag).collect()
}

fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn every_request_of_the_server_is_classified() {
    let methods = tags(&schema(REQUESTS), "method");
    assert!(methods.len() >= 10);
    let unknown: Vec<_> = methods
        .iter()
        .filter(|method| question(method).is_none())
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_notification_of_the_server_is_classified() {
    let methods = tags(&schema(NOTIFICATIONS), "method");
    assert!(methods.len() >= 70);
    let unknown: Vec<_> = methods
        .iter()
        .filter(|method| notification(method).is_none())
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_type_of_item_is_known() {
    let types = tags(&schema(NOTIFICATIONS)["definitions"]["ThreadItem"], "type");
    assert!(types.len() >= 15);
    let unknown: Vec<_> = types.iter().filter(|name| !knows_item(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn what_was_never_seen_stays_unknown() {
    assert!(question("item/somethingNew").is_none());
    assert!(notification("item/somethingNew").is_none());
    assert!(!knows_item("somethingNew"));
}
