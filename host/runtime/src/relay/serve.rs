//! The relay's listener.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use net::{AddressRule, Client, ClientError, Timeouts};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    forward::Forwarder,
    routes::{Grant, Route, Routes},
};

/// Connections at a time, over all Sessions.
const CONNECTIONS: usize = 1024;
/// How long a harness may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
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
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let socket = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => socket,
                Err(error) => {
                    tracing::warn!(%error, "the model relay could not accept a connection");
                    // Out of descriptors, most likely: wait for others to end.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        // Small deltas must not wait for each other.
        let _ = socket.set_nodelay(true);
        let (forwarder, stop) = (Arc::clone(&forwarder), stop.clone());
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let forwarder = Arc::clone(&forwarder);
                async move { forwarder.answer(request).await }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(socket), service);
            tokio::select! {
                () = stop.cancelled() => {}
                ended = connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a relay connection ended early");
                    }
                }
            }
            drop(slot);
        });
    }
}
