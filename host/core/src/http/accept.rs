//! The accept loop. Our own, because limits belong to the socket: a slow header, a stuck reader and one client too many are
//! ended here, and a drain lets requests finish while it refuses new ones.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A client has this long for the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// A write that makes no progress for so long ends the connection (S-LS-4).
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after an accept that failed for want of a resource (file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers one request.
pub(crate) trait Answer: Send + Sync + 'static {
    /// Every request gets an answer; failures are answers.
    fn answer(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// Accepts connections until `stop`, then waits at most `drain` for open ones.
pub(crate) async fn accept<A: Answer>(
    listener: TcpListener,
    max_connections: usize,
    answer: Arc<A>,
    stop: CancellationToken,
    drain: Duration,
) {
    let permits = Arc::new(Semaphore::new(max_connections));
    let connections = TaskTracker::new();
    while let Some(permit) = until(&stop, permits.clone().acquire_owned()).await {
        match until(&stop, listener.accept()).await {
            None => break,
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Some(Ok((socket, _))) => {
                let (answer, stop) = (answer.clone(), stop.clone());
                connections.spawn(async move {
                    let _permit = permit;
                    connection(socket, answer, stop).await;
                });
            }
        }
    }
    connections.close();
    if tokio::time::timeout(drain, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            open = connections.len(),
            "connections are still open at the end of the drain"
        );
    }
}

async fn until<T>(stop: &CancellationToken, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = stop.cancelled() => None,
        value = future => Some(value),
    }
}

async fn connection<A: Answer>(socket: TcpStream, answer: Arc<A>, stop: CancellationToken) {
    // Small frames of a stream must not wait for each other.
    let _ = socket.set_nodelay(true);
    let mut socket = TimeoutStream::new(socket);
    socket.set_write_timeout(Some(WRITE_TIMEOUT));
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer.clone();
        async move { Ok::<_, Infallible>(answer.answer(request.map(Body::new)).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(Box::pin(socket)), service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}
