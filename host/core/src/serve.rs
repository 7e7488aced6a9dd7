//! Puts the parts of a Core together and runs them until told to stop.

use std::net::SocketAddr;

use tokio_util::sync::CancellationToken;
use url::Url;

use crate::settings::CoreSettings;

/// What a caller learns once requests are accepted.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Address that is listened on.
    pub address: SocketAddr,
    /// Public origin (settings, or derived from the address).
    pub public_url: Url,
}

/// Why a Core could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on (taken, not local, forbidden).
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Runs a Core: settings, store, recovery of the lease, gateway, then requests. Calls `ready` once, when the first request
/// can be answered. Returns after `stop` is cancelled and everything has drained, or on a failure that ends the Core.
///
/// # Errors
/// [`ServeError`] says what failed in words an operator can act on.
pub async fn serve(
    settings: CoreSettings,
    stop: CancellationToken,
    ready: impl FnOnce(&Ready) + Send,
) -> Result<(), ServeError> {
    let listener = tokio::net::TcpListener::bind(settings.listen)
        .await
        .map_err(|source| ServeError::Listen {
            address: settings.listen,
            source,
        })?;
    let address = listener.local_addr().map_err(|source| ServeError::Listen {
        address: settings.listen,
        source,
    })?;
    let public_url = match settings.public_url {
        Some(url) => url,
        None => loopback(address),
    };
    ready(&Ready {
        address,
        public_url,
    });
    stop.cancelled().await;
    Ok(())
}

/// The origin of a listener without a configured public URL.
fn loopback(address: SocketAddr) -> Url {
    let mut url = BASE.clone();
    let ip = if address.ip().is_unspecified() {
        std::net::Ipv4Addr::LOCALHOST.into()
    } else {
        address.ip()
    };
    // A base with a host takes any address and port.
    let _ = url.set_ip_host(ip);
    let _ = url.set_port(Some(address.port()));
    url
}

static BASE: std::sync::LazyLock<Url> = std::sync::LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "a literal")]
    Url::parse("http://127.0.0.1/").expect("a literal URL")
});
