//! The load client: one HTTP/1.1 connection, kept open, and the events of a stream.

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};
use tokio::net::TcpStream;

/// Nothing that is measured takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// An open connection with the credential of its requests.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    key: String,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens.
    pub async fn open(address: SocketAddr, key: &str) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await?;
        tokio::spawn(connection);
        Ok(Self {
            sender,
            host: address.to_string(),
            key: key.to_owned(),
        })
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("authorization", format!("Bearer {}", self.key))
            .header("openai-beta", "agents=v1")
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and reads the whole answer, which must be a success.
    ///
    /// # Errors
    /// The connection broke, or the answer is no success.
    pub async fn ask(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let answer = self.send(method, path, body).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        ensure!(
            status.is_success(),
            "{path}: {status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }

    /// Sends a request that must be refused with this status, and reads the whole answer.
    ///
    /// # Errors
    /// The connection broke, or the answer is another one.
    pub async fn refused(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        with: StatusCode,
    ) -> Result<()> {
        let answer = self.send(method, path, body).await?;
        let status = answer.status();
        answer.into_body().collect().await?;
        ensure!(status == with, "{path}: {status}");
        Ok(())
    }

    /// Opens a stream; the connection is used up by it.
    ///
    /// # Errors
    /// The answer is no stream.
    pub async fn stream(mut self, method: Method, path: &str, body: &Value) -> Result<Events> {
        let body = match body {
            Value::Null => Bytes::new(),
            body => serde_json::to_vec(body)?.into(),
        };
        let answer = self.send(method, path, body).await?;
        let status = answer.status();
        if !matches!(status, StatusCode::OK | StatusCode::CREATED) {
            let body = answer.into_body().collect().await?.to_bytes();
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(Events {
            body: answer.into_body(),
            text: Vec::new(),
            arrived: SystemTime::now(),
            _connection: self,
        })
    }
}

/// One event of a stream.
pub struct Event {
    /// Its `type`.
    pub kind: String,
    /// The whole payload.
    pub data: Value,
    /// When its last byte was read.
    pub arrived: SystemTime,
}

/// The events of one stream.
pub struct Events {
    body: Incoming,
    text: Vec<u8>,
    arrived: SystemTime,
    _connection: Connection,
}

impl Events {
    /// The next event.
    ///
    /// # Errors
    /// The stream ended, or was silent for a minute.
    pub async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.take()? {
                return Ok(event);
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame())
                .await
                .context("a stream is silent")?
                .context("a stream ended")??;
            self.arrived = SystemTime::now();
            if let Ok(bytes) = frame.into_data() {
                self.text.extend_from_slice(&bytes);
            }
        }
    }

    /// The first event whose type ends with one of these; a failed Turn or Session is an error.
    ///
    /// # Errors
    /// As [`Events::next`].
    pub async fn until(&mut self, kinds: &[&str]) -> Result<Event> {
        loop {
            let event = self.next().await?;
            if kinds.iter().any(|kind| event.kind.ends_with(kind)) {
                return Ok(event);
            }
            ensure!(
                !event.kind.ends_with(".failed"),
                "{}: {}",
                event.kind,
                event.data
            );
        }
    }

    /// The first whole event of what was read; comments are skipped.
    fn take(&mut self) -> Result<Option<Event>> {
        while let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.text.drain(..end + 2).collect();
            let data = block
                .split(|byte| *byte == b'\n')
                .find_map(|line| line.strip_prefix(b"data: "));
            if let Some(data) = data {
                let data: Value = serde_json::from_slice(data).context("an event is no JSON")?;
                return Ok(Some(Event {
                    kind: data["type"].as_str().unwrap_or_default().to_owned(),
                    data,
                    arrived: self.arrived,
                }));
            }
        }
        Ok(None)
    }
}
