//! Query strings of lists: which keys, which values, which first error (`wire.md` 9).

use domain::invalid::is_echoable;
use percent_encoding::percent_decode_str;

/// How a list treats its `limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limits {
    /// 0 counts as 1, more than 100 as 100.
    Clamped,
    /// Anything but 1 to 100 is refused (E400-38).
    Strict,
}

/// What a list takes besides `after`, `limit` and `order`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListRule {
    /// Its limits.
    pub limits: Limits,
    /// Further keys that may be given once.
    pub filters: &'static [&'static str],
}

/// Why a query is refused. The text is exact (E400-34 to E400-38).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryError {
    /// E400-34.
    #[error("Failed to deserialize query string: duplicate field `{0}`")]
    Repeated(&'static str),
    /// E400-35, with the value if it may be repeated.
    #[error(
        "Failed to deserialize query string: order: unknown variant{0}, expected `asc` or `desc`"
    )]
    Order(String),
    /// E400-36.
    #[error("Failed to deserialize query string: limit: invalid digit found in string")]
    LimitDigit,
    /// E400-37.
    #[error("Failed to deserialize query string: limit: number too large to fit in target type")]
    LimitTooLarge,
    /// E400-38.
    #[error("limit must be between 1 and 100")]
    LimitRange,
}

/// Direction of a list; newest first unless asked otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Order {
    /// Oldest first.
    Ascending,
    /// Newest first.
    #[default]
    Descending,
}

/// The page that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// Exclusive start, as text: it may name nothing (W-LIST-5).
    pub after: Option<String>,
    /// 1 to 100.
    pub limit: u32,
    /// Direction.
    pub order: Order,
    filters: Vec<(&'static str, Vec<u8>)>,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            after: None,
            limit: 20,
            order: Order::default(),
            filters: Vec::new(),
        }
    }
}

impl Page {
    /// The value of a filter as the client's bytes; an empty value is a value (W-LIST-8).
    pub(crate) fn filter(&self, name: &str) -> Option<&[u8]> {
        self.filters
            .iter()
            .find_map(|(key, value)| (*key == name).then_some(value.as_slice()))
    }
}

/// Reads the query of a list: repeated keys, then `limit`, then `order` (W-ORDER-2). Unknown keys are ignored (W-LIST-3).
pub(crate) fn parse(query: &str, rule: &ListRule) -> Result<Page, QueryError> {
    let mut values: Vec<(&'static str, Vec<u8>)> = Vec::new();
    let known = ["after", "limit", "order"].iter().chain(rule.filters);
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let key = decode(key);
        if let Some(name) = known.clone().find(|name| name.as_bytes() == key) {
            if values.iter().any(|(seen, _)| seen == name) {
                return Err(QueryError::Repeated(name));
            }
            values.push((name, decode(value)));
        }
    }
    let text = |name: &str| {
        let value = values
            .iter()
            .find_map(|(key, value)| (*key == name).then_some(value));
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let mut page = Page::default();
    if let Some(limit) = text("limit") {
        page.limit = parse_limit(&limit, rule.limits)?;
    }
    if let Some(order) = text("order") {
        page.order = parse_order(&order)?;
    }
    page.after = text("after")
        .map(|after| after.trim().to_owned())
        .filter(|after| !after.is_empty());
    page.filters = values
        .into_iter()
        .filter(|(name, _)| rule.filters.contains(name))
        .collect();
    Ok(page)
}

fn parse_limit(text: &str, limits: Limits) -> Result<u32, QueryError> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QueryError::LimitDigit);
    }
    let value: i64 = digits.parse().map_err(|_| QueryError::LimitTooLarge)?;
    match (limits, u32::try_from(value)) {
        (Limits::Strict, Ok(limit @ 1..=100)) => Ok(limit),
        (Limits::Strict, _) => Err(QueryError::LimitRange),
        (Limits::Clamped, limit) => Ok(limit.unwrap_or(100).clamp(1, 100)),
    }
}

fn parse_order(text: &str) -> Result<Order, QueryError> {
    match text {
        "asc" => Ok(Order::Ascending),
        "desc" => Ok(Order::Descending),
        other if is_echoable(other) => Err(QueryError::Order(format!(" `{other}`"))),
        _ => Err(QueryError::Order(String::new())),
    }
}

/// Form decoding: `+` is a space, escapes are bytes.
fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(&text.replace('+', " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAMPED: ListRule = ListRule {
        limits: Limits::Clamped,
        filters: &["agent_id"],
    };
    const STRICT: ListRule = ListRule {
        limits: Limits::Strict,
        filters: &[],
    };

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
}
