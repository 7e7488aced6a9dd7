//! The accept loop. Our own, because limits belong to the socket: a slow header, a stuck reader and one client too many are
//! ended here, and a drain lets requests finish while it refuses new ones.
//!
//! Everything on the machine can connect, sandboxes too. When every place is taken, a connection that nobody has authenticated
//! makes room, the oldest first: those that say nothing never keep out those that ask.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Extensions, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use net::{Stranger, Strangers};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::socket::Socket;

/// What one socket may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Open connections at the same time; more wait, or take the place of a stranger.
    pub connections: usize,
    /// A client has this long for the headers of a request.
    pub header: Duration,
    /// A write of HTTP that makes no progress for so long ends the connection (S-LS-4). Whoever takes over an upgraded
    /// connection has a limit of its own (RP-4.8).
    pub write: Duration,
    /// Open connections have this long to end once nothing more happens that they could wait for.
    pub last: Duration,
}

impl Limits {
    /// The limits of a Core with its operator's figures.
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            connections,
            header: Duration::from_secs(15),
            write: Duration::from_secs(5),
            last: Duration::from_secs(5),
        }
    }
}

/// Pause after an accept that failed for want of a resource (file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where connections come from.
pub(crate) trait Listener: Send + Sync {
    /// One connection.
    type Socket: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next one. Cancel safe.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Socket>> + Send;
}

impl Listener for TcpListener {
    type Socket = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (socket, _) = Self::accept(self).await?;
        // Small frames of a stream must not wait for each other.
        let _ = socket.set_nodelay(true);
        Ok(socket)
    }
}

impl Listener for UnixListener {
    type Socket = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Ok(Self::accept(self).await?.0)
    }
}

/// A request of this connection is authenticated: the connection keeps its place.
pub(crate) fn known(request: &Extensions) {
    if let Some(stranger) = request.get::<Arc<Stranger>>() {
        stranger.becomes_known();
    }
}

/// Answers one request.
pub(crate) trait Answer: Send + Sync + 'static {
    /// Every request gets an answer; failures are answers.
    fn answer(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// Accepts connections until `stop`. Open ones may then go on until `drained`, and end shortly after it.
pub(crate) async fn accept<L: Listener, A: Answer>(
    listener: L,
    limits: Limits,
    answer: Arc<A>,
    stop: CancellationToken,
    drained: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    let strangers = Strangers::default();
    while let Some(accepted) = until(&stop, listener.accept()).await {
        let socket = match accepted {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(permit) = until(&stop, place(&permits, &strangers)).await else {
            break;
        };
        let (stranger, answer, stop) = (strangers.enter(), answer.clone(), stop.clone());
        connections.spawn(async move {
            let _permit = permit;
            connection(socket, Arc::new(stranger), limits, answer, stop).await;
        });
    }
    connections.close();
    let last = async {
        drained.cancelled().await;
        tokio::time::sleep(limits.last).await;
    };
    tokio::select! {
        () = connections.wait() => {}
        () = last => tracing::warn!(
            open = connections.len(),
            "connections are still open at the end of the drain"
        ),
    }
}

/// A place for one more connection.
async fn place(
    permits: &Arc<Semaphore>,
    strangers: &Strangers,
) -> Result<OwnedSemaphorePermit, AcquireError> {
    if permits.available_permits() == 0 {
        strangers.oldest_leaves();
    }
    permits.clone().acquire_owned().await
}

async fn until<T>(stop: &CancellationToken, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = stop.cancelled() => None,
        value = future => Some(value),
    }
}

async fn connection<S, A>(
    socket: S,
    stranger: Arc<Stranger>,
    limits: Limits,
    answer: Arc<A>,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    A: Answer,
{
    let guest = stranger.clone();
    let upgraded = Arc::new(AtomicBool::new(false));
    let socket = Socket::new(socket, limits.write, upgraded.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (answer, upgraded) = (answer.clone(), upgraded.clone());
        request.extensions_mut().insert(guest.clone());
        // The parser hides a length beside it, which others may have believed: nothing is read after such a request (RFC 9112, 6.1).
        let chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
        async move {
            let mut response = answer.answer(request.map(Body::new)).await;
            if chunked {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                upgraded.store(true, Ordering::Relaxed);
            }
            Ok::<_, Infallible>(response)
        }
    });
    // HTTP/1 only: a builder that guesses the version first waits for ever for the bytes to guess from, and knows no limit of HTTP/2.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stranger.must_leave() => {
            tracing::debug!("a connection that nobody authenticated made room");
            return;
        }
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Notify;

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Of an upgraded connection: more than the system buffers.
    const FLOOD: usize = 32 << 20;

    /// `/` answers at once; `/wait` when told to, `/flood` without end, both to a client that is known; `/upgrade` with a flood of
    /// another protocol.
    struct Script {
        go: Notify,
        waiting: Notify,
    }

    impl Answer for Script {
        async fn answer(self: Arc<Self>, mut request: Request<Body>) -> Response<Body> {
            match request.uri().path() {
                "/upgrade" => {
                    let upgrade = hyper::upgrade::on(&mut request);
                    tokio::spawn(async move {
                        let mut io = TokioIo::new(upgrade.await.unwrap());
                        let _ = io.write_all(&vec![b'x'; FLOOD]).await;
                        let _ = io.shutdown().await;
                    });
                    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
                    return response.body(Body::empty()).unwrap();
                }
                "/wait" => {
                    known(request.extensions());
                    self.waiting.notify_one();
                    self.go.notified().await;
                }
                "/flood" => {
                    known(request.extensions());
                    let chunk = Bytes::from(vec![b'x'; 1 << 20]);
                    let endless = stream::repeat_with(move || Ok::<_, Infallible>(chunk.clone()));
                    return Response::new(Body::from_stream(endless));
                }
                _ => {}
            }
            Response::new(Body::from("done"))
        }
    }

    struct Server {
        address: std::net::SocketAddr,
        script: Arc<Script>,
        stop: CancellationToken,
        drained: CancellationToken,
        task: tokio::task::JoinHandle<()>,
    }

    async fn server(connections: usize) -> Server {
        server_with(connections, SHORT).await
    }

    async fn server_with(connections: usize, header: Duration) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Script {
            go: Notify::new(),
            waiting: Notify::new(),
        });
        let (stop, drained) = (CancellationToken::new(), CancellationToken::new());
        let limits = Limits {
            connections,
            header,
            write: SHORT,
            last: SHORT,
        };
        let accepting = accept(
            listener,
            limits,
            script.clone(),
            stop.clone(),
            drained.clone(),
        );
        Server {
            address,
            script,
            stop,
            drained,
            task: tokio::spawn(accepting),
        }
    }

    async fn ask(server: &Server, path: &str) -> TcpStream {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket
            .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
            .await
            .unwrap();
        socket
    }

    async fn answered(socket: &mut TcpStream) -> bool {
        let mut bytes = vec![0; 4096];
        let read = tokio::time::timeout(PATIENCE, socket.read(&mut bytes))
            .await
            .expect("an answer");
        String::from_utf8_lossy(&bytes[..read.unwrap_or(0)]).ends_with("done")
    }

    /// Reads until the other end closes.
    async fn closes(socket: &mut TcpStream) {
        let mut bytes = vec![0; 1 << 16];
        let end = async { while socket.read(&mut bytes).await.is_ok_and(|read| read > 0) {} };
        tokio::time::timeout(PATIENCE, end)
            .await
            .expect("the connection ends");
    }

    // Two lengths of one request: whoever is in between may have taken the other one, and what follows would be its own.
    #[tokio::test]
    async fn nothing_is_read_after_a_request_with_a_transfer_encoding() {
        let server = server(4).await;
        for lengths in [
            "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
            "content-length: 5\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\n",
        ] {
            let mut socket = TcpStream::connect(server.address).await.unwrap();
            let smuggled = "GET /two HTTP/1.1\r\nhost: x\r\n\r\n";
            let text = format!("POST /one HTTP/1.1\r\nhost: x\r\n{lengths}\r\n0\r\n\r\n{smuggled}");
            socket.write_all(text.as_bytes()).await.unwrap();
            let mut answers = String::new();
            let all = socket.read_to_string(&mut answers);
            let read = tokio::time::timeout(PATIENCE, all).await;
            read.expect("the connection ends").unwrap();
            assert_eq!(
                answers.matches("HTTP/1.1 ").count(),
                1,
                "{lengths}{answers}"
            );
            assert!(answers.contains("connection: close"), "{answers}");
        }
        server.stop.cancel();
    }

    #[tokio::test]
    async fn a_client_that_never_ends_its_headers_is_closed() {
        let server = server(1).await;
        // Nothing at all, the first byte of two protocols, another protocol, half a header: none may keep the only place.
        let beginnings = [
            "",
            "P",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            "GET / HTTP/1.1\r\nhost:",
        ];
        for beginning in beginnings {
            let mut slow = TcpStream::connect(server.address).await.unwrap();
            slow.write_all(beginning.as_bytes()).await.unwrap();
            closes(&mut slow).await;
            assert!(
                answered(&mut ask(&server, "/").await).await,
                "{beginning:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_client_that_stops_reading_is_closed() {
        // S-LS-4
        let server = server(1).await;
        let stuck = ask(&server, "/flood").await;
        // The only place becomes free although the stuck client keeps its end open.
        assert!(answered(&mut ask(&server, "/").await).await);
        drop(stuck);
    }

    #[tokio::test]
    async fn an_upgraded_connection_may_pause_longer_than_http() {
        // RP-4.8: the link waits for a frame twice as long as S-LS-4 for a stream.
        let server = server(1).await;
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        let request =
            b"GET /upgrade HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n";
        socket.write_all(request).await.unwrap();
        tokio::time::sleep(3 * SHORT).await;
        let mut bytes = Vec::new();
        let all = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut bytes)).await;
        all.expect("the flood ends").unwrap();
        let flood = bytes.iter().rev().take_while(|byte| **byte == b'x');
        assert_eq!(flood.count(), FLOOD);
    }

    #[tokio::test]
    async fn one_connection_too_many_waits_for_a_place() {
        let server = server(1).await;
        let mut first = ask(&server, "/wait").await;
        server.script.waiting.notified().await;
        let mut second = ask(&server, "/").await;
        server.script.go.notify_one();
        assert!(answered(&mut first).await);
        drop(first);
        assert!(answered(&mut second).await);
    }

    // One sandbox can open thousands, and need not send a byte.
    #[tokio::test]
    async fn a_crowd_that_says_nothing_keeps_nobody_out() {
        let server = server_with(4, Duration::from_secs(600)).await;
        let mut known = ask(&server, "/wait").await;
        server.script.waiting.notified().await;
        let mut crowd = Vec::new();
        for beginning in ["", "GET / HTTP/1.1\r\n"] {
            for _ in 0..20 {
                let mut silent = TcpStream::connect(server.address).await.unwrap();
                silent.write_all(beginning.as_bytes()).await.unwrap();
                crowd.push(silent);
            }
            for _ in 0..3 {
                assert!(answered(&mut ask(&server, "/").await).await);
            }
        }
        server.script.go.notify_one();
        assert!(answered(&mut known).await, "who is known stays");
        closes(&mut crowd[0]).await;
    }

    #[tokio::test]
    async fn a_drain_lets_requests_finish_and_closes_idle_connections() {
        let server = server(4).await;
        let mut idle = ask(&server, "/").await;
        assert!(answered(&mut idle).await);
        let mut busy = ask(&server, "/wait").await;
        server.script.waiting.notified().await;
        server.stop.cancel();
        closes(&mut idle).await;
        assert!(!server.task.is_finished());
        server.script.go.notify_one();
        assert!(answered(&mut busy).await);
        tokio::time::timeout(PATIENCE, server.task)
            .await
            .expect("the drain ends")
            .unwrap();
    }

    #[tokio::test]
    async fn a_request_without_end_does_not_hold_the_drain() {
        let server = server(4).await;
        let _hung = ask(&server, "/wait").await;
        server.script.waiting.notified().await;
        server.stop.cancel();
        server.drained.cancel();
        tokio::time::timeout(PATIENCE, server.task)
            .await
            .expect("the drain ends")
            .unwrap();
    }
}
