//! A token endpoint on this machine, over TLS with a certificate of its own, whose answers a test writes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::issuers::IssuerSettings;

/// One answer.
pub(crate) struct Reply {
    status: u16,
    location: Option<String>,
    /// None = the connection ends without an answer.
    body: Option<String>,
    held: Option<oneshot::Receiver<()>>,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &str) -> Self {
        Self {
            status,
            location: None,
            body: Some(body.to_owned()),
            held: None,
        }
    }

    pub(crate) fn hang_up() -> Self {
        Self {
            body: None,
            ..Self::json(200, "")
        }
    }

    pub(crate) fn to(mut self, location: &str) -> Self {
        self.location = Some(location.to_owned());
        self
    }
}

/// An answer that waits.
pub(crate) struct Held(oneshot::Sender<()>);

impl Held {
    pub(crate) fn release(self) {
        let _ = self.0.send(());
    }
}

/// What somebody asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) body: String,
    pub(crate) kind: String,
    pub(crate) authorization: Option<String>,
}

#[derive(Default)]
struct Script {
    asked: Mutex<Vec<Asked>>,
    replies: Mutex<VecDeque<Reply>>,
}

pub(crate) struct Issuer {
    port: u16,
    certificate: String,
    script: Arc<Script>,
}

impl Issuer {
    pub(crate) async fn start() -> Self {
        net::install_tls_provider();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        // The name may resolve to either loopback address; the client tries both.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = Arc::new(Script::default());
        let serving = script.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(acceptor.clone(), socket, serving.clone()));
            }
        });
        Self {
            port,
            certificate: made.cert.pem(),
            script,
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("https://localhost:{}/token", self.port)
    }

    /// Settings that trust it.
    pub(crate) fn settings(&self) -> IssuerSettings {
        let origin = format!("https://localhost:{}", self.port);
        IssuerSettings {
            trusted: vec![origin.parse().unwrap()],
            authorities: net::Authorities::parse(self.certificate.as_bytes()).unwrap(),
        }
    }

    /// Answers the next request that has no answer yet.
    pub(crate) fn answer(&self, reply: Reply) {
        self.script.replies.lock().unwrap().push_back(reply);
    }

    /// The same, but not before it is released.
    pub(crate) fn hold(&self, mut reply: Reply) -> Held {
        let (release, held) = oneshot::channel();
        reply.held = Some(held);
        self.answer(reply);
        Held(release)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.script.asked.lock().unwrap().clone()
    }

    pub(crate) async fn wait_for(&self, count: usize) {
        let came = async {
            while self.asked().len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let came = tokio::time::timeout(Duration::from_secs(20), came).await;
        came.expect("the issuer is asked");
    }
}

async fn serve(acceptor: TlsAcceptor, socket: TcpStream, script: Arc<Script>) {
    let Ok(stream) = acceptor.accept(socket).await else {
        return;
    };
    let service = service_fn(move |request| answer(request, script.clone()));
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// An error ends the connection without an answer.
async fn answer(
    request: Request<Incoming>,
    script: Arc<Script>,
) -> Result<Response<Body>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let text = |name| {
        let value = parts.headers.get(name);
        value.map(|value: &header::HeaderValue| value.to_str().unwrap().to_owned())
    };
    let body = body.collect().await.map(|body| body.to_bytes());
    let body = body.map_err(std::io::Error::other)?;
    script.asked.lock().unwrap().push(Asked {
        body: String::from_utf8(body.to_vec()).unwrap(),
        kind: text(header::CONTENT_TYPE).unwrap_or_default(),
        authorization: text(header::AUTHORIZATION),
    });
    let reply = script.replies.lock().unwrap().pop_front();
    let reply = reply.ok_or_else(|| std::io::Error::other("no answer is written"))?;
    if let Some(held) = reply.held {
        let _ = held.await;
    }
    let body = reply.body.ok_or_else(|| std::io::Error::other("hung up"))?;
    let mut answer = Response::builder().status(reply.status);
    if let Some(location) = reply.location {
        answer = answer.header(header::LOCATION, location);
    }
    let answer = answer.body(Body::from(body));
    answer.map_err(std::io::Error::other)
}
