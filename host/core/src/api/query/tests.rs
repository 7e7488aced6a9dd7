//! Query strings of every family of lists.

use super::*;

const CLAMPED: ListRule = ListRule {
    filters: &["agent_id"],
    ..ListRule::new(Limits::Clamped)
};
const STRICT: ListRule = ListRule::new(Limits::Strict);

fn refused(query: &str, rule: &ListRule) -> String {
    parse(query, rule).expect_err(query).to_string()
}

#[test]
fn limits() {
    // wire.md 9, W-LIST-6
    for (query, limit) in [
        ("", 20),
        ("limit=0", 1),
        ("limit=1", 1),
        ("limit=%2B5", 5),
        ("limit=101", 100),
        ("limit=9223372036854775807", 100),
    ] {
        assert_eq!(parse(query, &CLAMPED).unwrap().limit, limit, "{query}");
    }
    for query in [
        "limit=",
        "limit=-1",
        "limit=x",
        "limit=1.0",
        "limit=+5",
        "limit=%2B",
        "limit=%ff",
        "limit",
    ] {
        let text = "Failed to deserialize query string: limit: invalid digit found in string";
        assert_eq!(refused(query, &CLAMPED), text, "{query}");
        assert_eq!(refused(query, &STRICT), text, "{query}");
    }
    assert_eq!(
        refused("limit=9223372036854775808", &CLAMPED),
        "Failed to deserialize query string: limit: number too large to fit in target type"
    );
    for query in ["limit=0", "limit=101"] {
        assert_eq!(refused(query, &STRICT), "limit must be between 1 and 100");
    }
    assert_eq!(parse("limit=100", &STRICT).unwrap().limit, 100);
}

#[test]
fn order_of_checks() {
    // W-ORDER-2
    assert_eq!(
        refused("order=x&limit=x&after=1&after=2", &CLAMPED),
        "Failed to deserialize query string: duplicate field `after`"
    );
    assert!(refused("order=x&limit=x", &CLAMPED).contains("limit"));
    assert_eq!(
        refused("order=x", &CLAMPED),
        "Failed to deserialize query string: order: unknown variant `x`, expected `asc` or `desc`"
    );
    assert_eq!(
        refused("order=", &CLAMPED),
        "Failed to deserialize query string: order: unknown variant ``, expected `asc` or `desc`"
    );
    assert_eq!(
        parse("order=asc", &CLAMPED).unwrap().order,
        Order::Ascending
    );
}

#[test]
fn unknown_keys_are_ignored_and_cursors_trimmed() {
    // W-LIST-3, W-LIST-4, W-LIST-8
    let page = parse("tenant_id=1&tenant_id=2&after=+a%20&x&agent_id=", &CLAMPED).unwrap();
    assert_eq!(page.after.as_deref(), Some("a"));
    assert_eq!(page.filter("agent_id"), Some(&b""[..]));
    assert_eq!(parse("after=%20", &CLAMPED).unwrap().after, None);
    assert_eq!(
        parse("agent_id=%ff", &CLAMPED).unwrap().filter("agent_id"),
        Some(&b"\xff"[..])
    );
    assert!(parse("agent_id=1&agent_id=2", &STRICT).is_ok());
}

#[test]
fn vault_lists_take_every_integer_and_choose_by_status() {
    // W-LIST-10, W-ORDER-2, E400-39
    const VAULTS: ListRule = ListRule {
        choice: Some(("status", &["active", "archived"])),
        ..ListRule::new(Limits::Nearest)
    };
    for (query, limit) in [
        ("limit=0", 1),
        ("limit=-5", 1),
        ("limit=-99999999999999999999", 1),
        ("limit=99999999999999999999", 100),
        ("limit=7", 7),
    ] {
        assert_eq!(parse(query, &VAULTS).unwrap().limit, limit, "{query}");
    }
    assert!(refused("limit=x", &VAULTS).contains("invalid digit"));
    let chosen = |query: &str| parse(query, &VAULTS).unwrap().chosen;
    assert!(chosen("").is_empty() && chosen("status=").is_empty());
    assert_eq!(chosen("status=active"), ["active"]);
    assert_eq!(
        chosen("status%5B%5D=archived&status=active&status[]=active"),
        ["archived", "active", "active"]
    );
    for query in [
        "status=x",
        "status[]=",
        "limit=x&status[]=x",
        "status=a&status=b",
    ] {
        assert!(
            refused(query, &VAULTS).contains("VaultStatusFilterParam"),
            "{query}"
        );
    }
    assert!(refused("status=active&status=active", &VAULTS).contains("duplicate field `status`"));
}

#[test]
fn skills_and_files_have_their_own_words() {
    // E400-45 to E400-50
    const SKILLS: ListRule = ListRule::new(Limits::Skills);
    const FILES: ListRule = ListRule::new(Limits::Files);
    assert_eq!(parse("limit=0", &SKILLS).unwrap().limit, 0);
    assert_eq!(
        (
            parse("", &FILES).unwrap().limit,
            parse("limit=1", &FILES).unwrap().limit
        ),
        (10_000, 1)
    );
    for (query, rule, code, param, text) in [
        (
            "limit=-1",
            SKILLS,
            Some("integer_below_min_value"),
            Some("limit"),
            "Invalid 'limit': integer below minimum value. Expected a value >= 0, but got -1 instead.",
        ),
        (
            "limit=101",
            SKILLS,
            Some("integer_above_max_value"),
            Some("limit"),
            "Invalid 'limit': integer above maximum value. Expected a value <= 100, but got 101 instead.",
        ),
        (
            "limit=1.5",
            SKILLS,
            Some("invalid_request"),
            None,
            "limit must be an integer between 0 and 100.",
        ),
        (
            "limit=",
            SKILLS,
            Some("invalid_request"),
            None,
            "limit must be an integer between 0 and 100.",
        ),
        (
            "order=x",
            SKILLS,
            Some("invalid_value"),
            Some("order"),
            "Invalid value: 'x'. Supported values are: 'asc' and 'desc'.",
        ),
        (
            "after=a&after=b",
            SKILLS,
            Some("duplicate_parameter"),
            Some("after"),
            "Duplicate parameter: 'after'. This parameter must be given once.",
        ),
        (
            "limit=1&limit=1",
            FILES,
            Some("unsupported_parameter"),
            None,
            "'limit' must be given once.",
        ),
        (
            "limit=0",
            FILES,
            None,
            None,
            "limit must be between 1 and 10000.",
        ),
        (
            "limit=10001",
            FILES,
            None,
            None,
            "limit must be between 1 and 10000.",
        ),
        (
            "limit=x",
            FILES,
            Some("invalid_request"),
            None,
            "limit must be between 1 and 10000.",
        ),
        ("order=x", FILES, None, None, "order must be asc or desc."),
    ] {
        let error = parse(query, &rule).expect_err(query);
        assert_eq!(
            (error.code(), error.param(), error.to_string().as_str()),
            (code, param, text),
            "{query}"
        );
    }
}
