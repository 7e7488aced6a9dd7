//! Network policies (ENV-437, ENV-453, ENV-470 to ENV-474).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, Path};
use crate::json::{Field, Json, Object};

/// Most hosts of a restricted policy (ENV-470).
const MAX_DOMAINS: usize = 100;
/// Longest host name and label, in bytes.
const MAX_HOST: usize = 253;
const MAX_LABEL: usize = 63;

/// What a workspace may reach, from widest to narrowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Everything.
    #[default]
    Enabled,
    /// The named hosts.
    Restricted,
    /// Nothing.
    Disabled,
}

/// A policy, with the hosts in the caller's spelling, order and number (ENV-472).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the members of api-surface 3.2")]
pub struct Network {
    pub access: Access,
    pub allowed_domains: Vec<String>,
}

impl Network {
    /// Reads a policy.
    ///
    /// # Errors
    /// E400-03 to E400-06, or E400-30.
    pub(super) fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        const WORDS: &[&str] = &["enabled", "disabled", "restricted"];
        let object = Object::open(json, path, &["access", "allowed_domains"])?;
        let (mut access, mut domains) = (None, Vec::new());
        for (member, value, path) in object.iter() {
            match member {
                "access" => {
                    let word = value.to_text(&path)?;
                    access = Some(match word.as_str() {
                        "enabled" => Access::Enabled,
                        "disabled" => Access::Disabled,
                        "restricted" => Access::Restricted,
                        _ => return Err(Invalid::not_one_of(&path, &word, WORDS)),
                    });
                }
                _ => {
                    let texts = Field::read(value, |value| value.to_texts(&path))?;
                    domains = texts.value().unwrap_or_default();
                }
            }
        }
        let policy = Self {
            access: object.required(access, "access")?,
            allowed_domains: domains,
        };
        policy.check()?;
        Ok(policy)
    }

    fn check(&self) -> Result<(), Invalid> {
        let refused = |message: &str| Err(Invalid::other(None, message));
        match (self.access, self.allowed_domains.len()) {
            (Access::Enabled | Access::Disabled, 0) => Ok(()),
            (Access::Enabled | Access::Disabled, _) => {
                refused("allowed_domains requires network access 'restricted'.")
            }
            (Access::Restricted, 1..=MAX_DOMAINS) => {
                match self.allowed_domains.iter().all(|host| is_host(host)) {
                    true => Ok(()),
                    false => refused(
                        "allowed_domains must hold exact ASCII host names: no wildcards, schemes, ports, paths or IP \
                         addresses.",
                    ),
                }
            }
            (Access::Restricted, _) => {
                refused("Network access 'restricted' requires 1 to 100 allowed_domains.")
            }
        }
    }

    /// Does it allow nothing that `other` does not? (ENV-453)
    pub fn is_within(&self, other: &Self) -> bool {
        match (self.access, other.access) {
            (Access::Disabled, _) | (_, Access::Enabled) => true,
            (Access::Restricted, Access::Restricted) => self.hosts().is_subset(&other.hosts()),
            _ => false,
        }
    }

    /// The hosts as they are compared (ENV-472).
    fn hosts(&self) -> BTreeSet<String> {
        self.allowed_domains
            .iter()
            .map(|host| host.to_ascii_lowercase())
            .collect()
    }
}

/// ENV-471.
fn is_host(host: &str) -> bool {
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A last label of digits makes it an IPv4 address to every parser.
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_address = last.bytes().all(|byte| byte.is_ascii_digit())
        || (last.len() > 2
            && last
                .get(..2)
                .is_some_and(|begin| begin.eq_ignore_ascii_case("0x")));
    host.len() <= MAX_HOST && host.split('.').all(label) && !is_address
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // ENV-471: every text is a host or is none; a cut inside of a character once ended the request without an answer.
        #[test]
        fn every_text_has_an_answer(text in "\\PC{0,4}|[0x.\u{ac}\u{20ac}\u{1f600}-]{0,6}") {
            prop_assert!(!is_host(&text) || text.is_ascii());
        }
    }

    fn parse(text: &str) -> Result<Network, Invalid> {
        Network::parse(Json::new(text), &Path::root().member("network"))
    }

    #[test]
    fn policies() {
        // ENV-437, ENV-470 to ENV-472, E400-30
        let kept = parse(
            r#"{"access":"restricted","allowed_domains":["B.example","a.example","B.example"]}"#,
        )
        .unwrap();
        assert_eq!(
            kept.allowed_domains,
            ["B.example", "a.example", "B.example"]
        );
        for good in [
            r#"{"access":"enabled"}"#,
            r#"{"access":"disabled","allowed_domains":null}"#,
            r#"{"access":"enabled","allowed_domains":[]}"#,
        ] {
            parse(good).unwrap();
        }
        for host in [
            "*.a.example",
            "a.example.",
            "https://a",
            "a:443",
            "a/b",
            "1.2.3.4",
            "[::1]",
            "::1",
            "b\u{fc}cher.example",
            "v\u{ac}",
            "a.0\u{ac}",
            "",
            "a..b",
            "-a",
            "a-",
            "0x7f",
            "1.0x7f",
            "a b",
        ] {
            let text =
                serde_json::json!({"access": "restricted", "allowed_domains": [host]}).to_string();
            let error = parse(&text).unwrap_err();
            assert_eq!(error.param, None, "{host}: {error}");
        }
        let many =
            serde_json::json!({"access": "restricted", "allowed_domains": vec!["a.example"; 101]})
                .to_string();
        for bad in [
            many.as_str(),
            r#"{"access":"restricted"}"#,
            r#"{"access":"restricted","allowed_domains":[]}"#,
            r#"{"access":"enabled","allowed_domains":["a.example"]}"#,
        ] {
            assert_eq!(parse(bad).unwrap_err().param, None, "{bad}");
        }
        for (bad, param) in [
            ("{}", "network.access"),
            (r#"{"access":"open"}"#, "network.access"),
            (r#"{"access":"enabled","x":1}"#, "network.x"),
        ] {
            assert_eq!(
                parse(bad).unwrap_err().param.as_deref(),
                Some(param),
                "{bad}"
            );
        }
    }
}
