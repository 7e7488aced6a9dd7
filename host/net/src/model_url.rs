//! The address of a model provider (MDL-002).

use std::fmt;

use url::{Host, Url};

/// Whether `http://` to this machine is taken: the one exception to MDL-002, for development and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopbackHttp {
    /// `https` only; loopback addresses are refused altogether.
    Refused,
    /// `http` and `https` to 127.0.0.0/8, `::1` and `localhost` too.
    Allowed,
}

/// Why an address was refused. The text never repeats the address: it could hold credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefusal {
    /// Not an absolute URL with a host, or with characters that parsers read differently.
    #[error("is not a valid absolute URL")]
    Malformed,
    /// Another scheme than `https`.
    #[error("must use https")]
    NotHttps,
    /// User name or password inside.
    #[error("must not contain credentials")]
    Credentials,
    /// A query or a fragment inside.
    #[error("must not contain a query or fragment")]
    QueryOrFragment,
    /// A literal address that must not be reached.
    #[error("must not name an address of this machine or a reserved network")]
    Address,
}

/// A checked base address of a model provider; keeps the caller's spelling.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelUrl {
    text: String,
    url: Url,
}

/// Longest accepted address in bytes.
const MAX_BYTES: usize = 2048;

impl ModelUrl {
    /// Checks `text`: https, valid host, no credentials, query or fragment (MDL-002).
    ///
    /// # Errors
    /// The first [`UrlRefusal`] that applies.
    pub fn parse(text: &str, loopback: LoopbackHttp) -> Result<Self, UrlRefusal> {
        // The parser drops tabs and turns back-slashes around; what it would mend is refused instead.
        let clean =
            text.len() <= MAX_BYTES && text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
        if !clean {
            return Err(UrlRefusal::Malformed);
        }
        if text.contains(['?', '#']) {
            return Err(UrlRefusal::QueryOrFragment);
        }
        let url = Url::parse(text).map_err(|_| UrlRefusal::Malformed)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlRefusal::Credentials);
        }
        let host = url.host().ok_or(UrlRefusal::Malformed)?;
        let local = is_loopback(&host);
        match url.scheme() {
            "https" => {}
            "http" if local && loopback == LoopbackHttp::Allowed => {}
            _ => return Err(UrlRefusal::NotHttps),
        }
        let rule = match loopback {
            LoopbackHttp::Allowed => crate::AddressRule::ANYWHERE,
            LoopbackHttp::Refused => crate::AddressRule::NETWORK,
        };
        let named_local = local && loopback == LoopbackHttp::Refused;
        if named_local || crate::host_refusal(&host, rule).is_some() {
            return Err(UrlRefusal::Address);
        }
        Ok(Self {
            text: text.to_owned(),
            url,
        })
    }

    /// As the caller wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// This address with `path` (which begins with `/`) appended; a version segment both have is written once.
    #[must_use]
    pub fn join(&self, path: &str) -> Url {
        let base = self.url.path().trim_end_matches('/');
        let repeated = base.ends_with("/v1") && (path == "/v1" || path.starts_with("/v1/"));
        let path = if repeated { &path["/v1".len()..] } else { path };
        let mut url = self.url.clone();
        url.set_path(&format!("{base}{path}"));
        url
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost")
                || name.to_ascii_lowercase().ends_with(".localhost")
        }
        Host::Ipv4(a) => a.is_loopback(),
        Host::Ipv6(a) => a.is_loopback() || a.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}

impl fmt::Debug for ModelUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for ModelUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // MDL-002
    #[test]
    fn only_clean_https_addresses_are_taken() {
        let parse =
            |text| ModelUrl::parse(text, LoopbackHttp::Refused).map(|u| u.as_str().to_owned());
        for good in [
            "https://api.example.com/v1",
            "https://API.Example.com",
            "https://10.0.0.7:8443/openai/",
        ] {
            assert_eq!(parse(good), Ok(good.to_owned()));
        }
        for (bad, why) in [
            ("", UrlRefusal::Malformed),
            ("api.example.com", UrlRefusal::Malformed),
            ("https://", UrlRefusal::Malformed),
            ("https:\\\\host", UrlRefusal::Malformed),
            ("https://ho\tst", UrlRefusal::Malformed),
            ("http://api.example.com", UrlRefusal::NotHttps),
            ("http://127.0.0.1:1", UrlRefusal::NotHttps),
            ("ftp://api.example.com", UrlRefusal::NotHttps),
            ("https://u@h/", UrlRefusal::Credentials),
            ("https://u:p@h/", UrlRefusal::Credentials),
            ("https://h/?a=1", UrlRefusal::QueryOrFragment),
            ("https://h/#a", UrlRefusal::QueryOrFragment),
            ("https://169.254.169.254/", UrlRefusal::Address),
            ("https://localhost/", UrlRefusal::Address),
            ("https://[::1]/", UrlRefusal::Address),
            ("https://2130706433/", UrlRefusal::Address),
        ] {
            assert_eq!(parse(bad), Err(why), "{bad}");
        }
    }

    #[test]
    fn the_switch_opens_loopback_and_nothing_else() {
        let parse = |text| ModelUrl::parse(text, LoopbackHttp::Allowed).map(drop);
        assert_eq!(parse("http://127.0.0.1:4000/v1"), Ok(()));
        assert_eq!(parse("http://localhost:4000"), Ok(()));
        assert_eq!(parse("http://10.0.0.1/"), Err(UrlRefusal::NotHttps));
        assert_eq!(parse("http://example.com/"), Err(UrlRefusal::NotHttps));
        assert_eq!(parse("https://169.254.169.254/"), Err(UrlRefusal::Address));
    }

    #[test]
    fn joining_never_doubles_or_drops_a_segment() {
        let join = |base: &str, path| {
            ModelUrl::parse(base, LoopbackHttp::Refused)
                .unwrap()
                .join(path)
                .to_string()
        };
        assert_eq!(join("https://h/v1", "/responses"), "https://h/v1/responses");
        assert_eq!(
            join("https://h/v1/", "/responses"),
            "https://h/v1/responses"
        );
        assert_eq!(join("https://h", "/v1/messages"), "https://h/v1/messages");
        assert_eq!(
            join("https://h/v1", "/v1/messages"),
            "https://h/v1/messages"
        );
        assert_eq!(
            join("https://h/a/v1/", "/v1/messages/count_tokens"),
            "https://h/a/v1/messages/count_tokens"
        );
    }
}
