//! The checked client.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use reqwest::{ClientBuilder, Method, RequestBuilder, dns, redirect::Policy};
use url::Url;

use crate::{AddressRule, Authorities, host_refusal};

/// Deadlines of one client.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Until a connection, TLS included, stands.
    pub connect: Duration,
    /// Between two reads of an answer, its head included; a stream that goes on is never cut.
    pub silence: Duration,
}

/// Why a request could not even begin.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The TLS library or the certificate store could not be set up.
    #[error("the HTTP client could not be set up")]
    Setup(#[source] reqwest::Error),
    /// The URL names an address that the rule refuses.
    #[error("the address {0} must not be reached")]
    Address(std::net::IpAddr),
    /// The URL has no host.
    #[error("the URL has no host")]
    NoHost,
    /// The URL is not `https`.
    #[error("the URL is not https")]
    NotHttps,
}

/// A pooled HTTP client with one address rule. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    inner: reqwest::Client,
    rule: AddressRule,
}

impl Client {
    /// A client without redirects, proxies and cookies.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when the certificate store is unusable.
    pub fn new(rule: AddressRule, timeouts: Timeouts) -> Result<Self, ClientError> {
        Self::build(rule, Self::builder(rule, timeouts))
    }

    /// The same over a Unix socket, whatever host a URL names.
    ///
    /// # Errors
    /// [`ClientError::Setup`].
    pub fn through_socket(path: &Path, timeouts: Timeouts) -> Result<Self, ClientError> {
        let rule = AddressRule::ANYWHERE;
        Self::build(rule, Self::builder(rule, timeouts).unix_socket(path))
    }

    /// The same for HTTPS alone; certificates of further authorities count too.
    pub(crate) fn over_tls(
        rule: AddressRule,
        timeouts: Timeouts,
        authorities: &Authorities,
    ) -> Result<Self, ClientError> {
        let builder = Self::builder(rule, timeouts).https_only(true);
        let further = authorities.certificates().iter().cloned();
        Self::build(rule, builder.tls_certs_merge(further))
    }

    fn builder(rule: AddressRule, timeouts: Timeouts) -> ClientBuilder {
        install_tls_provider();
        reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(timeouts.connect)
            .read_timeout(timeouts.silence)
            .tcp_nodelay(true)
            .dns_resolver(Arc::new(Resolver(rule)))
    }

    fn build(rule: AddressRule, builder: ClientBuilder) -> Result<Self, ClientError> {
        let inner = builder.build().map_err(ClientError::Setup)?;
        Ok(Self { inner, rule })
    }

    /// Begins a request. The answer of a redirect is handed back as it is.
    ///
    /// # Errors
    /// [`ClientError::Address`] for a literal address outside the rule; nothing was sent.
    pub fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, ClientError> {
        let host = url.host().ok_or(ClientError::NoHost)?;
        match host_refusal(&host, self.rule) {
            Some(address) => Err(ClientError::Address(address)),
            None => Ok(self.inner.request(method, url)),
        }
    }
}

/// Makes `ring` the TLS provider of this process. Repeating it is harmless.
pub fn install_tls_provider() {
    // An error only says that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Resolves by the system and keeps what the rule allows.
#[derive(Debug)]
struct Resolver(AddressRule);

impl dns::Resolve for Resolver {
    fn resolve(&self, name: dns::Name) -> dns::Resolving {
        let rule = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found.filter(|a| rule.allows(a.ip())).collect();
            if allowed.is_empty() {
                return Err("the name has no address that may be reached".into());
            }
            Ok(Box::new(allowed.into_iter()) as dns::Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(rule: AddressRule) -> Client {
        let short = Duration::from_secs(2);
        Client::new(
            rule,
            Timeouts {
                connect: short,
                silence: short,
            },
        )
        .unwrap()
    }

    #[test]
    fn literal_addresses_are_judged_before_anything_is_sent() {
        let url = Url::parse("http://169.254.169.254/latest").unwrap();
        let refused = client(AddressRule::ANYWHERE).request(Method::GET, url);
        assert!(matches!(refused, Err(ClientError::Address(_))));
    }

    #[tokio::test]
    async fn a_name_that_points_inside_is_refused_when_it_is_resolved() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!(
            "http://localhost:{}/",
            listener.local_addr().unwrap().port()
        ))
        .unwrap();
        let request = client(AddressRule::NETWORK)
            .request(Method::GET, url)
            .unwrap();
        let error = request.send().await.unwrap_err();
        assert!(error.is_connect(), "{error:?}");
    }
}
