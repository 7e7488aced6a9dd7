//! A way to a server on which it can fall silent.

#![allow(clippy::expect_used)]

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Passes connections on to a server, until it falls silent: then nothing is carried in either direction, nothing is closed, and
/// new connections are taken and carry nothing either, as behind a firewall that drops what it does not know.
pub struct Proxy {
    port: u16,
    silent: watch::Sender<bool>,
    _all: DropGuard,
}

impl Proxy {
    /// In front of the server at an address.
    ///
    /// # Panics
    /// If there is no port.
    pub async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let silent = watch::Sender::new(false);
        let (all, told) = (CancellationToken::new(), silent.clone());
        let until = all.clone();
        tokio::spawn(async move {
            loop {
                let client = tokio::select! {
                    () = until.cancelled() => return,
                    client = listener.accept() => client,
                };
                if let Ok((client, _)) = client {
                    let carried = carry(client, server.clone(), told.subscribe());
                    tokio::spawn(until.clone().run_until_cancelled_owned(carried));
                }
            }
        });
        Self {
            port,
            silent,
            _all: all.drop_guard(),
        }
    }

    /// Where it listens, on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing is heard.
    pub fn fall_silent(&self) {
        self.silent.send_replace(true);
    }

    /// New connections are carried again; those that were open stay silent for ever.
    pub fn speak_again(&self) {
        self.silent.send_replace(false);
    }
}

async fn carry(mut client: TcpStream, server: String, mut silent: watch::Receiver<bool>) {
    let carried = async {
        if let Ok(mut server) = TcpStream::connect(server).await {
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
    };
    tokio::select! {
        biased;
        _ = silent.wait_for(|silent| *silent) => {}
        () = carried => return,
    }
    std::future::pending().await
}
