//! Query strings of lists: which keys, which values, which first error (`wire.md` 9).

use domain::invalid::is_echoable;
use percent_encoding::percent_decode_str;

/// Which family of lists a list belongs to: each has its own bounds and its own words (`wire.md` 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limits {
    /// 0 counts as 1, more than 100 as 100.
    Clamped,
    /// Anything but 1 to 100 is refused (E400-38).
    Strict,
    /// Every integer counts as the nearest of 1 to 100 (Vaults, Credentials).
    Nearest,
    /// 0 to 100 (E400-47, E400-48).
    Skills,
    /// 1 to 10000 (E400-50).
    Files,
}

/// What a list takes besides `after`, `limit` and `order`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListRule {
    /// Its limits.
    pub limits: Limits,
    /// Further keys that may be given once.
    pub filters: &'static [&'static str],
    /// A key whose values are some of these words, given once, or with brackets as often as wanted (W-LIST-10).
    pub choice: Option<(&'static str, &'static [&'static str])>,
}

impl ListRule {
    /// A list without filters.
    pub(crate) const fn new(limits: Limits) -> Self {
        Self {
            limits,
            filters: &[],
            choice: None,
        }
    }
}

/// Why a query is refused. The text is exact (E400-34 to E400-39, E400-45 to E400-50).
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
    /// E400-39.
    #[error(
        "Failed to deserialize query string: status: data did not match any variant of untagged enum VaultStatusFilterParam"
    )]
    Status,
    /// E400-45, with the value if it may be repeated.
    #[error("Invalid value{0}. Supported values are: 'asc' and 'desc'.")]
    SkillsOrder(String),
    /// E400-46.
    #[error("Duplicate parameter: '{0}'. This parameter must be given once.")]
    SkillsRepeated(&'static str),
    /// E400-47.
    #[error(
        "Invalid 'limit': integer below minimum value. Expected a value >= 0, but got {0} instead."
    )]
    SkillsLimitBelow(i64),
    /// E400-47.
    #[error(
        "Invalid 'limit': integer above maximum value. Expected a value <= 100, but got {0} instead."
    )]
    SkillsLimitAbove(i64),
    /// E400-48.
    #[error("limit must be an integer between 0 and 100.")]
    SkillsLimit,
    /// E400-49.
    #[error("'{0}' must be given once.")]
    FilesRepeated(&'static str),
    /// E400-50.
    #[error("order must be asc or desc.")]
    FilesOrder,
    /// E400-50; false = no integer at all.
    #[error("limit must be between 1 and 10000.")]
    FilesLimit(bool),
}

impl QueryError {
    /// The stable code.
    pub(crate) fn code(&self) -> Option<&'static str> {
        match self {
            Self::Repeated(_)
            | Self::Order(_)
            | Self::LimitDigit
            | Self::LimitTooLarge
            | Self::LimitRange
            | Self::Status => Some("invalid_request_error"),
            Self::SkillsOrder(_) => Some("invalid_value"),
            Self::SkillsRepeated(_) => Some("duplicate_parameter"),
            Self::SkillsLimitBelow(_) => Some("integer_below_min_value"),
            Self::SkillsLimitAbove(_) => Some("integer_above_max_value"),
            Self::SkillsLimit | Self::FilesLimit(false) => Some("invalid_request"),
            Self::FilesRepeated(_) => Some("unsupported_parameter"),
            Self::FilesOrder | Self::FilesLimit(true) => None,
        }
    }

    /// The key, where the answer names it.
    pub(crate) fn param(&self) -> Option<&'static str> {
        match self {
            Self::SkillsOrder(_) => Some("order"),
            Self::SkillsRepeated(key) => Some(key),
            Self::SkillsLimitBelow(_) | Self::SkillsLimitAbove(_) => Some("limit"),
            _ => None,
        }
    }
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
    /// Within the bounds of its list.
    pub limit: u32,
    /// Direction.
    pub order: Order,
    filters: Vec<(&'static str, Vec<u8>)>,
    /// Chosen words of the rule's `choice`; empty = all of them.
    pub chosen: Vec<&'static str>,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            after: None,
            limit: 20,
            order: Order::default(),
            filters: Vec::new(),
            chosen: Vec::new(),
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

/// Reads the query of a list: the words of a choice, repeated keys, then `limit`, then `order` (W-ORDER-2). Unknown keys are
/// ignored (W-LIST-3).
pub(crate) fn parse(query: &str, rule: &ListRule) -> Result<Page, QueryError> {
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decode(key), decode(value)))
        .collect();
    let mut page = Page::default();
    if rule.limits == Limits::Files {
        page.limit = 10_000;
    }
    if let Some((name, words)) = rule.choice {
        page.chosen = choice(&pairs, name, words)?;
    }
    let mut values: Vec<(&'static str, Vec<u8>)> = Vec::new();
    let scalar = rule.choice.map(|(name, _)| name);
    let known = ["after", "limit", "order"]
        .iter()
        .chain(rule.filters)
        .chain(&scalar);
    for (key, value) in pairs {
        if let Some(name) = known.clone().find(|name| name.as_bytes() == key) {
            if values.iter().any(|(seen, _)| seen == name) {
                return Err(repeated(name, rule.limits));
            }
            values.push((name, value));
        }
    }
    let text = |name: &str| {
        let value = values
            .iter()
            .find_map(|(key, value)| (*key == name).then_some(value));
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    };
    if let Some(limit) = text("limit") {
        page.limit = parse_limit(&limit, rule.limits)?;
    }
    if let Some(order) = text("order") {
        page.order = parse_order(&order, rule.limits)?;
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

/// The union of `name` and `name[]`; an empty scalar is an absent one (api-surface 1.2).
fn choice(
    pairs: &[(Vec<u8>, Vec<u8>)],
    name: &str,
    words: &'static [&'static str],
) -> Result<Vec<&'static str>, QueryError> {
    let mut chosen = Vec::new();
    for (key, value) in pairs {
        let listed = key.strip_suffix(b"[]") == Some(name.as_bytes());
        if !listed && (key != name.as_bytes() || value.is_empty()) {
            continue;
        }
        let word = words.iter().find(|word| word.as_bytes() == value);
        chosen.push(*word.ok_or(QueryError::Status)?);
    }
    Ok(chosen)
}

fn repeated(name: &'static str, limits: Limits) -> QueryError {
    match limits {
        Limits::Clamped | Limits::Strict | Limits::Nearest => QueryError::Repeated(name),
        Limits::Skills => QueryError::SkillsRepeated(name),
        Limits::Files => QueryError::FilesRepeated(name),
    }
}

fn parse_limit(text: &str, limits: Limits) -> Result<u32, QueryError> {
    let (sign, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // Only the family of the Agents API has a type that a number may not fit; the others compare with their bounds.
    let parsed: Result<i64, _> = text.parse();
    let value = parsed
        .clone()
        .unwrap_or(if sign { i64::MIN } else { i64::MAX });
    match limits {
        Limits::Clamped | Limits::Strict if !is_integer || sign => Err(QueryError::LimitDigit),
        Limits::Clamped | Limits::Strict if parsed.is_err() => Err(QueryError::LimitTooLarge),
        Limits::Strict if !(1..=100).contains(&value) => Err(QueryError::LimitRange),
        Limits::Nearest if !is_integer => Err(QueryError::LimitDigit),
        Limits::Clamped | Limits::Strict | Limits::Nearest => Ok(bounded(value, 1, 100)),
        Limits::Skills if !is_integer => Err(QueryError::SkillsLimit),
        Limits::Skills if value < 0 => Err(QueryError::SkillsLimitBelow(value)),
        Limits::Skills if value > 100 => Err(QueryError::SkillsLimitAbove(value)),
        Limits::Skills => Ok(bounded(value, 0, 100)),
        Limits::Files if !is_integer => Err(QueryError::FilesLimit(false)),
        Limits::Files if !(1..=10_000).contains(&value) => Err(QueryError::FilesLimit(true)),
        Limits::Files => Ok(bounded(value, 1, 10_000)),
    }
}

fn bounded(value: i64, least: u32, most: u32) -> u32 {
    let most_on_top = u32::try_from(value.max(0)).unwrap_or(most);
    most_on_top.clamp(least, most)
}

fn parse_order(text: &str, limits: Limits) -> Result<Order, QueryError> {
    let echo = |quote: char| match is_echoable(text) {
        true => format!("{quote}{text}{quote}"),
        false => String::new(),
    };
    match (text, limits) {
        ("asc", _) => Ok(Order::Ascending),
        ("desc", _) => Ok(Order::Descending),
        (_, Limits::Clamped | Limits::Strict | Limits::Nearest) => {
            let value = echo('`');
            let space = if value.is_empty() { "" } else { " " };
            Err(QueryError::Order(format!("{space}{value}")))
        }
        (_, Limits::Skills) => {
            let value = echo('\'');
            let colon = if value.is_empty() { "" } else { ": " };
            Err(QueryError::SkillsOrder(format!("{colon}{value}")))
        }
        (_, Limits::Files) => Err(QueryError::FilesOrder),
    }
}

/// Form decoding: `+` is a space, escapes are bytes.
fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(&text.replace('+', " ")).collect()
}

#[cfg(test)]
mod tests;
