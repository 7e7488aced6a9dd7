//! Requests to servers that a caller of the API chose: OAuth issuers, and later MCP servers (OAU-010, OAU-011).

use std::str::FromStr;

use reqwest::{Certificate, Method, RequestBuilder};
use url::Url;

use crate::{AddressRule, Client, ClientError, Timeouts};

/// An HTTPS origin that an operator trusts: it may be on a private network or on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedOrigin(url::Origin);

/// The text is no such origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a trusted origin is https:// with a host and, if needed, a port, and nothing else")]
pub struct NoOrigin;

impl FromStr for TrustedOrigin {
    type Err = NoOrigin;

    fn from_str(text: &str) -> Result<Self, NoOrigin> {
        let url = Url::parse(text).map_err(|_| NoOrigin)?;
        let bare = text.strip_prefix("https://").ok_or(NoOrigin)?;
        let exact = url.has_host() && !bare.contains(['/', '\\', '@', '?', '#']);
        let exact = exact && bare.bytes().all(|byte| byte.is_ascii_graphic());
        exact.then(|| Self(url.origin())).ok_or(NoOrigin)
    }
}

/// The certificates in a PEM file of further authorities.
#[derive(Debug, Clone, Default)]
pub struct Authorities(Vec<Certificate>);

/// The text holds no usable certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no certificate in PEM form")]
pub struct NoCertificate;

impl Authorities {
    /// Reads every certificate of a PEM text.
    ///
    /// # Errors
    /// [`NoCertificate`] if there is none, or one that cannot be read.
    pub fn parse(pem: &[u8]) -> Result<Self, NoCertificate> {
        let found = Certificate::from_pem_bundle(pem).map_err(|_| NoCertificate)?;
        match found.is_empty() {
            true => Err(NoCertificate),
            false => Ok(Self(found)),
        }
    }

    pub(crate) fn certificates(&self) -> &[Certificate] {
        &self.0
    }
}

/// A client for addresses that somebody else chose: HTTPS with a valid certificate, no redirect, no proxy, public addresses
/// only; [`TrustedOrigin`]s may have others. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Guarded {
    public: Client,
    trusted: Client,
    origins: Vec<TrustedOrigin>,
}

impl Guarded {
    /// A client that trusts the system's authorities and `authorities`.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn new(
        origins: Vec<TrustedOrigin>,
        authorities: &Authorities,
        timeouts: Timeouts,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            public: Client::over_tls(AddressRule::PUBLIC, timeouts, authorities)?,
            trusted: Client::over_tls(AddressRule::ANYWHERE, timeouts, authorities)?,
            origins,
        })
    }

    /// Begins a request.
    ///
    /// # Errors
    /// [`ClientError::NotHttps`], [`ClientError::Address`] for a literal address outside the rule; nothing was sent.
    pub fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, ClientError> {
        if url.scheme() != "https" {
            return Err(ClientError::NotHttps);
        }
        let trusted = self.origins.iter().any(|known| known.0 == url.origin());
        let client = if trusted { &self.trusted } else { &self.public };
        client.request(method, url)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn guarded(origins: &[&str]) -> Guarded {
        let short = Duration::from_secs(2);
        let timeouts = Timeouts {
            connect: short,
            silence: short,
        };
        let origins = origins.iter().map(|text| text.parse().unwrap()).collect();
        Guarded::new(origins, &Authorities::default(), timeouts).unwrap()
    }

    // OAU-011
    #[test]
    fn only_an_exact_https_origin_is_one() {
        for good in [
            "https://idp.internal",
            "https://10.0.0.1:8443",
            "https://[fd00::1]",
        ] {
            assert!(good.parse::<TrustedOrigin>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "idp.internal",
            "http://idp.internal",
            "https://",
            "https://a/",
            "https://a/b",
            "https://a?b",
            "https://a#b",
            "https://u@a",
            "https://*.a b",
            "https://a\\b",
        ] {
            assert!(bad.parse::<TrustedOrigin>().is_err(), "{bad}");
        }
    }

    // OAU-010, OAU-011
    #[test]
    fn another_port_scheme_or_host_of_a_trusted_origin_is_not_trusted() {
        let client = guarded(&["https://10.0.0.1:8443", "https://169.254.169.254"]);
        let begins = |url: &str| client.request(Method::POST, url.parse().unwrap()).is_ok();
        assert!(begins("https://10.0.0.1:8443/token"));
        assert!(begins("https://issuer.example/token"));
        for refused in [
            "https://10.0.0.1/token",
            "https://10.0.0.1:8444/token",
            "http://10.0.0.1:8443/token",
            "https://10.0.0.2:8443/token",
            "https://127.0.0.1/token",
            "https://100.64.0.1/token",
            "https://[::1]/token",
            // No trust reaches the metadata service of a cloud.
            "https://169.254.169.254/token",
            "http://issuer.example/token",
        ] {
            assert!(!begins(refused), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_public_name_that_points_inside_is_not_dialled() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("https://localhost:{port}/token").parse().unwrap();
        let request = guarded(&[]).request(Method::POST, url).unwrap();
        assert!(request.send().await.unwrap_err().is_connect());
        let dialled = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(dialled.is_err(), "somebody dialled");
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        for text in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAA==\n"] {
            assert!(Authorities::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
