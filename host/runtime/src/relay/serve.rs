//! The relay's listener.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use net::{AddressRule, Client, ClientError, Strangers, Timeouts};
use tokio::{net::TcpListener, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    forward::Forwarder,
    routes::{Grant, Route, Routes},
    strangers::Visitor,
};

/// How long a harness may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a new connection may take to show its token: it was opened for a request.
const FIRST_HEAD: Duration = Duration::from_secs(3);
const UPSTREAM: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    // A model may think for minutes before its first byte; a harness has its own, shorter limit.
    silence: Duration::from_secs(600),
};

/// Why the relay cannot work.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// No port on loopback.
    #[error("the model relay could not listen on loopback")]
    Listen(#[source] std::io::Error),
    /// The outbound client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system gave no random bytes for a token.
    #[error("no random bytes for a relay token")]
    NoRandomness,
}

/// The relay of one daemon: one listener on 127.0.0.1 for all its Sessions. Dropping it ends every connection.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    routes: Routes,
    stop: CancellationToken,
}

impl Relay {
    /// Listens on a free loopback port.
    ///
    /// # Errors
    /// [`RelayError::Listen`], [`RelayError::Client`].
    pub async fn start() -> Result<Self, RelayError> {
        let client = Client::new(AddressRule::NETWORK, UPSTREAM)?;
        let loopback_client = Client::new(AddressRule::ANYWHERE, UPSTREAM)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(RelayError::Listen)?;
        let address = listener.local_addr().map_err(RelayError::Listen)?;
        let (routes, stop) = (Routes::default(), CancellationToken::new());
        let forwarder = Arc::new(Forwarder {
            routes: routes.clone(),
            client,
            loopback_client,
        });
        tokio::spawn(accept(listener, forwarder, stop.clone()));
        Ok(Self {
            address,
            routes,
            stop,
        })
    }

    /// The address for harnesses: no trailing slash, no version.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Opens `route` until the grant is dropped.
    ///
    /// # Errors
    /// [`RelayError::NoRandomness`].
    pub fn open(&self, route: Route) -> Result<Grant, RelayError> {
        self.routes.open(route)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, forwarder: Arc<Forwarder>, stop: CancellationToken) {
    let strangers = Strangers::default();
    let connections = TaskTracker::new();
    loop {
        let socket = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => socket,
                Err(error) => {
                    tracing::warn!(%error, "the model relay could not accept a connection");
                    // Out of descriptors, most likely: wait for others to end.
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        // Small deltas must not wait for each other.
        let _ = socket.set_nodelay(true);
        let visitor = Arc::new(Visitor::enter(&strangers));
        let (forwarder, stop) = (Arc::clone(&forwarder), stop.clone());
        connections.spawn(async move {
            let guest = Arc::clone(&visitor);
            let service = service_fn(move |request| {
                let (forwarder, guest) = (Arc::clone(&forwarder), Arc::clone(&guest));
                async move { forwarder.answer(request, &guest).await }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(socket), service);
            let too_late = async {
                sleep(FIRST_HEAD).await;
                if visitor.is_known() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = visitor.must_leave() => tracing::debug!("a silent relay connection made room"),
                () = too_late => tracing::debug!("a relay connection showed no token in time"),
                ended = connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a relay connection ended early");
                    }
                }
            }
        });
    }
}
