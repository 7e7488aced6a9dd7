//! The other side of an OAuth grant: one request to its token endpoint, once (OAU-003).

use std::time::Duration;

use axum::http::{HeaderValue, Method, StatusCode, header};
use domain::Secret;
use domain::vault::{EXCHANGE_WITHIN, Exchange, Grant};
use net::{Authorities, ClientError, Guarded, Timeouts, TrustedOrigin};
use tokio::time::timeout;

/// A connection stands within this time, or nothing was sent.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Longest answer of an issuer in bytes; tokens are short.
const LONGEST_ANSWER: usize = 64 * 1024;

/// Which issuers may be asked beyond the public ones.
#[derive(Debug, Clone, Default)]
pub struct IssuerSettings {
    /// Origins that may be on a private network (OAU-011).
    pub trusted: Vec<TrustedOrigin>,
    /// Authorities beyond the system's.
    pub authorities: Authorities,
}

/// How an exchange ended without a grant. What the issuer said is in none of it (OAU-008).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExchangeFault {
    /// Nothing was sent: the address is refused, or nobody answers there.
    #[error("the issuer could not be reached")]
    NotSent,
    /// The issuer refused: nothing changed there.
    #[error("the issuer refused, with status {0}")]
    Refused(u16),
    /// It may have given new tokens (OAU-007).
    #[error("how the exchange ended is unknown")]
    Unknown,
}

impl ExchangeFault {
    /// Whether the stored tokens are still the issuer's newest.
    pub(crate) fn is_certain(self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

/// Asks issuers.
#[derive(Debug, Clone)]
pub(crate) struct Issuers(Guarded);

impl Issuers {
    pub(crate) fn new(settings: &IssuerSettings) -> Result<Self, ClientError> {
        let timeouts = Timeouts {
            connect: CONNECT_WITHIN,
            silence: EXCHANGE_WITHIN,
        };
        let client = Guarded::new(settings.trusted.clone(), &settings.authorities, timeouts)?;
        Ok(Self(client))
    }

    /// Makes one exchange. No redirect is followed, no other method tried, nothing repeated.
    pub(crate) async fn ask(&self, exchange: &Exchange) -> Result<Grant, ExchangeFault> {
        let asked = timeout(EXCHANGE_WITHIN, self.exchange(exchange)).await;
        asked.unwrap_or(Err(ExchangeFault::Unknown))
    }

    async fn exchange(&self, exchange: &Exchange) -> Result<Grant, ExchangeFault> {
        let url = exchange.endpoint.parse();
        let url = url.map_err(|_| ExchangeFault::NotSent)?;
        let request = self.0.request(Method::POST, url);
        let mut request = request.map_err(|_| ExchangeFault::NotSent)?;
        if let Some(authorization) = &exchange.authorization {
            let value = HeaderValue::from_bytes(authorization.expose());
            let mut value = value.map_err(|_| ExchangeFault::NotSent)?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        let answer = request
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(exchange.form.expose().to_vec())
            .send()
            .await;
        let mut answer = answer.map_err(|error| match error.is_connect() {
            true => ExchangeFault::NotSent,
            false => ExchangeFault::Unknown,
        })?;
        crash::crash_point!("token_exchange.sent");
        let status = answer.status();
        if !status.is_success() {
            return Err(match undone(status) {
                true => ExchangeFault::Refused(status.as_u16()),
                false => ExchangeFault::Unknown,
            });
        }
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|_| ExchangeFault::Unknown)? {
            if body.len() + piece.len() > LONGEST_ANSWER {
                return Err(ExchangeFault::Unknown);
            }
            body.extend_from_slice(&piece);
        }
        // It holds tokens: wiped when dropped.
        let body = Secret::new(body);
        Grant::parse(body.expose()).map_err(|_| ExchangeFault::Unknown)
    }
}

/// Statuses of an issuer, or of what stands before it, that did nothing. A failure inside it may have come after a rotation.
fn undone(status: StatusCode) -> bool {
    !status.is_server_error() || status == StatusCode::SERVICE_UNAVAILABLE
}
