//! Opens one socket to Core: the bootstrap request, then the WebSocket that it names (RP-3.2).
//!
//! A Runtime of Core's own machine comes through Core's Unix socket, where nobody else can wait for its credential; it never
//! falls back to an address that anybody may listen on.

use std::{sync::Arc, time::Duration};

use domain::{DeviceId, Secret};
use futures_util::{Sink, Stream};
use machine::socket::Way;
use net::{AddressRule, Client, ClientError, Timeouts, keeps_secrets};
use protocol::{
    bootstrap::{BOOTSTRAP_PATH, BootstrapAnswer, BootstrapRequest, socket_of},
    wire::{CloseReason, limits},
};
use reqwest::Method;
use tokio::{net::UnixStream, time::timeout};
use tokio_tungstenite::{
    client_async_with_config, connect_async_tls_with_config,
    tungstenite::{
        self, Message as Frame,
        client::IntoClientRequest as _,
        http::{HeaderValue, header},
        protocol::WebSocketConfig,
    },
};
use url::Url;

/// For the bootstrap request and for the handshake, each.
const WITHIN: Duration = Duration::from_secs(15);
/// Longest answer of the bootstrap request.
const ANSWER: usize = 16 * 1024;

/// Host in the requests over a Unix socket, where it means nothing.
const NOWHERE: &str = "http://localhost";

/// A WebSocket over whatever transport.
pub(super) trait Frames:
    Stream<Item = Result<Frame, tungstenite::Error>>
    + Sink<Frame, Error = tungstenite::Error>
    + Send
    + Unpin
{
}

impl<T> Frames for T where
    T: Stream<Item = Result<Frame, tungstenite::Error>>
        + Sink<Frame, Error = tungstenite::Error>
        + Send
        + Unpin
{
}

pub(super) type Socket = Box<dyn Frames>;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Core refuses for good (RP-3.15).
    #[error("Core refuses this daemon: {}", .0.as_str())]
    Refused(CloseReason),
    /// Core cannot be reached or is not ready.
    #[error("Core cannot be reached: {0}")]
    Unreachable(String),
    /// Core answered something that it never says.
    #[error("Core gave an unusable answer: {0}")]
    Unusable(&'static str),
}

/// Everything that a dial needs.
#[derive(Debug, Clone)]
pub struct Dialer {
    client: Client,
    /// Core's socket on this machine; none where Core is reached by its URL.
    way: Option<Arc<Way>>,
    bootstrap: Url,
    device_id: DeviceId,
    /// Only ever in the Authorization header (RP-3.3).
    credential: Secret,
}

impl Dialer {
    /// For Core at `core_url`.
    ///
    /// # Errors
    /// The address is no URL, would send the credential in clear over a network, its socket's folder is missing, or the client
    /// cannot be set up.
    pub fn new(core_url: &str, device_id: DeviceId, credential: Secret) -> Result<Self, DialError> {
        let socket = socket_of(core_url);
        let origin = socket.map_or(core_url, |_| NOWHERE);
        let bootstrap = Url::parse(&format!("{origin}{BOOTSTRAP_PATH}"))
            .map_err(|_| DialError::Unusable("address"))?;
        if !keeps_secrets(&bootstrap) {
            return Err(DialError::Unusable("address: http is for loopback only"));
        }
        let timeouts = Timeouts {
            connect: WITHIN,
            silence: WITHIN,
        };
        let way = match socket {
            Some(path) => Some(Arc::new(
                Way::to(path).map_err(|error| unreachable(&error))?,
            )),
            None => None,
        };
        let client = match &way {
            Some(way) => Client::through_socket(way.path(), timeouts),
            None => Client::new(AddressRule::ANYWHERE, timeouts),
        };
        Ok(Self {
            client: client.map_err(|error| unreachable(&error))?,
            way,
            bootstrap,
            device_id,
            credential,
        })
    }

    pub(super) async fn dial(&self) -> Result<Socket, DialError> {
        let answer = self.bootstrap().await?;
        if answer.device_id != self.device_id {
            return Err(DialError::Unusable("another device"));
        }
        if answer.protocol_version != limits::WIRE_VERSION {
            return Err(DialError::Refused(CloseReason::IncompatibleVersion));
        }
        self.open(&answer.ws_url).await
    }

    async fn bootstrap(&self) -> Result<BootstrapAnswer, DialError> {
        let request = self
            .client
            .request(Method::POST, self.bootstrap.clone())
            .map_err(|error: ClientError| unreachable(&error))?;
        let body = serde_json::to_vec(&BootstrapRequest {
            device_id: self.device_id,
        });
        let request = request
            .header(header::AUTHORIZATION, self.bearer()?)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.map_err(|_| DialError::Unusable("request"))?);
        let exchange = async {
            let mut response = request
                .send()
                .await
                .map_err(|error| unreachable(&error.without_url()))?;
            refusal(response.status().as_u16())?;
            let mut body = Vec::new();
            while let Some(piece) = response
                .chunk()
                .await
                .map_err(|error| unreachable(&error.without_url()))?
            {
                body.extend_from_slice(&piece);
                if body.len() > ANSWER {
                    return Err(DialError::Unusable("bootstrap answer too long"));
                }
            }
            serde_json::from_slice(&body).map_err(|_| DialError::Unusable("bootstrap answer"))
        };
        timeout(WITHIN, exchange)
            .await
            .map_err(|_| DialError::Unreachable("no answer in time".to_owned()))?
    }

    async fn open(&self, url: &str) -> Result<Socket, DialError> {
        let mut parsed = Url::parse(url).map_err(|_| DialError::Unusable("socket address"))?;
        if self.way.is_some() {
            // Core names the address of its port; the path below it is the same.
            let path = parsed.path().to_owned();
            parsed =
                Url::parse("ws://localhost").map_err(|_| DialError::Unusable("socket address"))?;
            parsed.set_path(&path);
        }
        if !keeps_secrets(&parsed) {
            return Err(DialError::Unusable(
                "socket address: ws is for loopback only",
            ));
        }
        parsed.set_query(Some(&format!(
            "device_id={}&wire={}",
            self.device_id,
            limits::WIRE_VERSION
        )));
        let mut request = parsed
            .as_str()
            .into_client_request()
            .map_err(|_| DialError::Unusable("socket address"))?;
        request
            .headers_mut()
            .insert(header::AUTHORIZATION, self.bearer()?);
        let config = WebSocketConfig::default()
            .max_message_size(Some(limits::TEXT_FRAME))
            .max_frame_size(Some(limits::TEXT_FRAME));
        let connected = async {
            let socket: Socket = match &self.way {
                Some(way) => {
                    let stream = UnixStream::connect(way.path()).await?;
                    Box::new(
                        client_async_with_config(request, stream, Some(config))
                            .await?
                            .0,
                    )
                }
                None => {
                    let connected =
                        connect_async_tls_with_config(request, Some(config), true, None);
                    Box::new(connected.await?.0)
                }
            };
            Ok(socket)
        };
        match timeout(WITHIN, connected).await {
            Ok(Ok(socket)) => Ok(socket),
            Ok(Err(tungstenite::Error::Http(response))) => {
                refusal(response.status().as_u16())?;
                Err(DialError::Unusable("no upgrade"))
            }
            Ok(Err(error)) => Err(unreachable(&error)),
            Err(_) => Err(DialError::Unreachable("no handshake in time".to_owned())),
        }
    }

    fn bearer(&self) -> Result<HeaderValue, DialError> {
        let bytes = [b"Bearer ", self.credential.expose()].concat();
        let mut value =
            HeaderValue::from_bytes(&bytes).map_err(|_| DialError::Unusable("credential"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// What a status means before the upgrade (RP-3.4, RP-3.12, RP-3.15).
fn refusal(status: u16) -> Result<(), DialError> {
    match status {
        200 | 101 => Ok(()),
        401 => Err(DialError::Refused(CloseReason::Unauthorized)),
        403 => Err(DialError::Refused(CloseReason::Revoked)),
        409 => Err(DialError::Refused(CloseReason::BindingConflict)),
        426 => Err(DialError::Refused(CloseReason::IncompatibleVersion)),
        other => Err(DialError::Unreachable(format!("status {other}"))),
    }
}

fn unreachable(error: &dyn std::error::Error) -> DialError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    DialError::Unreachable(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    // RP-3.3
    #[test]
    fn a_credential_goes_over_tls_or_stays_on_this_machine() {
        let dialer = |url: &str| {
            Dialer::new(
                url,
                DeviceId::new(uuid::Uuid::nil()),
                Secret::from("canary".to_owned()),
            )
        };
        for good in [
            "https://core.test",
            "http://127.0.0.1:8091",
            "http://localhost:1",
            "http://[::1]:1",
        ] {
            let dialer = dialer(good).unwrap();
            assert!(!format!("{dialer:?}").contains("canary"));
        }
        for bad in [
            "http://core.test",
            "http://10.0.0.1",
            "ftp://127.0.0.1",
            "core",
        ] {
            assert!(dialer(bad).is_err(), "{bad}");
        }
    }

    // RP-3.15
    #[test]
    fn refusals_are_told_from_outages() {
        for (status, permanent) in [
            (401, true),
            (403, true),
            (409, true),
            (426, true),
            (500, false),
            (503, false),
            (404, false),
        ] {
            let refused = matches!(refusal(status), Err(DialError::Refused(_)));
            assert_eq!(refused, permanent, "{status}");
        }
        assert!(refusal(101).is_ok() && refusal(200).is_ok());
    }
}
