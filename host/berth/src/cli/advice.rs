//! What the codes of `berth session` and of a failed Turn mean and what to do about them. The tables of operating.md say it;
//! this program carries them, so that page and command cannot differ.

const PAGE: &str = include_str!("../../../docs/operating.md");

/// A row of one of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// What it means.
    pub means: &'static str,
    /// What to do, if anything can be done.
    pub act: Option<&'static str>,
}

/// The row of a code.
pub fn of(code: &str) -> Option<Advice> {
    let name = format!("`{code}`");
    let mut rows = PAGE
        .lines()
        .skip_while(|line| !line.starts_with("## Why a Turn or a Session failed"))
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.find_map(|row| {
        let mut cells = row.splitn(3, " | ");
        let (codes, means, act) = (cells.next()?, cells.next()?, cells.next()?);
        let this = codes.split(", ").any(|code| code == name);
        this.then_some(Advice {
            means,
            act: Some(act).filter(|act| *act != "–"),
        })
    })
}

/// The row of a failure as lines under its code. A provider that was reached and refused is told by its status.
pub fn lines(code: &str, http_status: Option<u64>) -> Vec<String> {
    let row = match http_status {
        Some(401 | 403) => "authentication_error",
        Some(404) => "resource_not_found",
        Some(400 | 422) => "invalid_request",
        Some(429) => "rate_limit_exceeded",
        _ => code,
    };
    let Some(Advice { means, act }) = of(row) else {
        return Vec::new();
    };
    let mut lines = vec![means.to_owned()];
    lines.extend(act.map(|act| format!("what to do: {act}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_row() {
        let advice = of("authentication_error").unwrap();
        assert_eq!(advice.means, "the model provider refuses the key");
        assert!(advice.act.unwrap().starts_with("`berth model set`"));
        assert_eq!(of("usage_limit_exceeded"), of("rate_limit_exceeded"));
        assert_eq!(of("cyber_policy").unwrap().act, None);
        for waiting in domain::waiting::Waiting::ALL {
            assert!(of(waiting.as_str()).is_some(), "{waiting:?}");
        }
        assert_eq!(of("nothing_of_the_kind"), None);
        assert!(lines("nothing_of_the_kind", None).is_empty());
        assert!(lines("connection_failed", Some(502))[0].starts_with("the provider failed"));
        let refused = lines("connection_failed", Some(401));
        assert_eq!(refused, lines("authentication_error", None));
    }
}
