//! The relay against a real upstream on loopback.

use std::{sync::Arc, time::Duration};

use net::{LoopbackHttp, ModelUrl};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Mutex,
};

use super::*;

const KEY: &str = "sk-real-key-canary";

/// An upstream that takes one request per connection and answers with what the test wrote, piece by piece.
struct Upstream {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

async fn upstream(answer: &'static [&'static str]) -> Upstream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/api/v1", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.ends_with(b"}") {
                    let n = socket.read(&mut buffer).await.unwrap();
                    if n == 0 {
                        return;
                    }
                    request.extend_from_slice(&buffer[..n]);
                }
                log.lock().await.push(String::from_utf8(request).unwrap());
                for piece in answer {
                    socket.write_all(piece.as_bytes()).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(30)).await;
                }
            });
        }
    });
    Upstream { url, seen }
}

async fn relay_to(url: &str, protocol: ModelProtocol) -> (Relay, Grant) {
    let relay = Relay::start().await.unwrap();
    let upstream = ModelUrl::parse(url, LoopbackHttp::Allowed).unwrap();
    let grant = relay
        .open(Route {
            protocol,
            upstream,
            loopback: LoopbackHttp::Allowed,
            key: domain::Secret::from(KEY.to_owned()),
        })
        .unwrap();
    (relay, grant)
}

/// Sends one request and hands the open socket back.
async fn ask(relay: &Relay, path: &str, header: &str) -> TcpStream {
    let mut socket = TcpStream::connect(relay.url().trim_start_matches("http://"))
        .await
        .unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: relay\r\n{header}\r\naccept-encoding: gzip\r\nx-kept: yes\r\n\
         connection: x-hop, close\r\nx-hop: 1\r\ncontent-length: 7\r\n\r\n{{\"a\":1}}"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

async fn whole(mut socket: TcpStream) -> String {
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    text
}

fn bearer(grant: &Grant) -> String {
    format!("authorization: Bearer {}", grant.token().as_str().unwrap())
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nset-cookie: a=b\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn the_token_becomes_the_key_and_hop_headers_end_here() {
    let upstream = upstream(&[
        OK,
        "data: {\"response\":{\"usage\":{\"input_tokens\":4,\"output_tokens\":2}}}\n\n",
    ])
    .await;
    let (relay, grant) = relay_to(&upstream.url, ModelProtocol::Responses).await;
    let answer = whole(ask(&relay, "/v1/responses?x=1", &bearer(&grant)).await).await;

    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(!answer.contains("set-cookie"), "{answer}");
    let seen = upstream.seen.lock().await.concat().to_lowercase();
    assert!(
        seen.starts_with("post /api/v1/responses?x=1 http/1.1"),
        "{seen}"
    );
    assert!(
        seen.contains(&format!("authorization: bearer {KEY}")),
        "{seen}"
    );
    assert!(
        seen.contains("x-kept: yes") && seen.ends_with("{\"a\":1}"),
        "{seen}"
    );
    for gone in ["x-hop", "accept-encoding", "berth-relay", "host: relay"] {
        assert!(!seen.contains(gone), "{gone} in {seen}");
    }
    assert_eq!(
        grant.tokens(),
        Tokens {
            answers: 1,
            input: 4,
            output: 2
        }
    );
}

#[tokio::test]
async fn anthropic_has_its_own_header_and_base_path() {
    let upstream = upstream(&[OK]).await;
    let (relay, grant) = relay_to(&upstream.url, ModelProtocol::Anthropic).await;
    let header = format!("x-api-key: {}", grant.token().as_str().unwrap());
    whole(ask(&relay, "/v1/messages", &header).await).await;
    let seen = upstream.seen.lock().await.concat().to_lowercase();
    assert!(seen.starts_with("post /api/v1/messages http/1.1"), "{seen}");
    assert!(
        seen.contains(&format!("x-api-key: {KEY}")) && !seen.contains("authorization"),
        "{seen}"
    );
}

#[tokio::test]
async fn pieces_pass_as_they_come() {
    let upstream = upstream(&[OK, "data: 1\n\n", "data: 2\n\n"]).await;
    let (relay, grant) = relay_to(&upstream.url, ModelProtocol::Responses).await;
    let mut socket = ask(&relay, "/v1/responses", &bearer(&grant)).await;
    let mut text = String::new();
    while !text.contains("data: 1") {
        let mut buffer = [0; 1024];
        let n = socket.read(&mut buffer).await.unwrap();
        assert_ne!(n, 0, "{text}");
        text.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
    }
    assert!(!text.contains("data: 2"), "held back: {text}");
}

#[tokio::test]
async fn an_error_of_the_provider_passes_and_a_redirect_does_not() {
    let error = upstream(&[
        "HTTP/1.1 429 Slow\r\nretry-after: 3\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno",
    ])
    .await;
    let (relay, grant) = relay_to(&error.url, ModelProtocol::Responses).await;
    let answer = whole(ask(&relay, "/v1/responses", &bearer(&grant)).await).await;
    assert!(
        answer.starts_with("HTTP/1.1 429")
            && answer.contains("retry-after: 3")
            && answer.contains("\r\n\r\nno")
    );

    // The relay keeps the key out of everything a harness can read, the provider's answers included.
    let telling = upstream(&[
        "HTTP/1.1 401 No\r\nx-your-key: sk-real-key-canary\r\nx-kept: yes\r\ncontent-length: 25\r\nconnection: close\r\n\r\nbad: sk-real-k",
        "ey-canary!!",
    ])
    .await;
    let (relay, grant) = relay_to(&telling.url, ModelProtocol::Responses).await;
    let answer = whole(ask(&relay, "/v1/responses", &bearer(&grant)).await).await;
    assert!(!answer.contains(KEY), "{answer}");
    assert!(answer.contains("x-kept: yes"), "{answer}");
    assert!(
        answer.ends_with("\r\n\r\nbad: ******************!!"),
        "{answer}"
    );

    let away = upstream(&["HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"]).await;
    let (relay, grant) = relay_to(&away.url, ModelProtocol::Responses).await;
    let answer = whole(ask(&relay, "/v1/responses", &bearer(&grant)).await).await;
    assert!(
        answer.starts_with("HTTP/1.1 502") && answer.contains("redirect_refused"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_token_opens_its_own_route_and_nothing_after_its_end() {
    let upstream = upstream(&[OK]).await;
    let (relay, grant) = relay_to(&upstream.url, ModelProtocol::Responses).await;
    let header = bearer(&grant);
    for (path, header, status) in [
        ("/v1/responses", "x-none: 1", "401"),
        (
            "/v1/responses",
            "authorization: Bearer berth-relay-guess",
            "401",
        ),
        (
            "/v1/responses",
            &*format!("authorization: Bearer {KEY}"),
            "401",
        ),
        ("/v1/messages", &*header, "404"),
        ("/v1/../v1/responses", &*header, "404"),
    ] {
        let answer = whole(ask(&relay, path, header).await).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{path} {answer}"
        );
    }
    drop(grant);
    assert!(
        whole(ask(&relay, "/v1/responses", &header).await)
            .await
            .starts_with("HTTP/1.1 401")
    );
    assert!(upstream.seen.lock().await.is_empty());
}

#[tokio::test]
async fn an_unreachable_provider_is_said_in_fixed_words() {
    let (relay, grant) = relay_to("http://127.0.0.1:1/v1", ModelProtocol::Responses).await;
    let answer = whole(ask(&relay, "/v1/responses", &bearer(&grant)).await).await;
    assert!(
        answer.starts_with("HTTP/1.1 502") && answer.contains("connection_failed"),
        "{answer}"
    );
    assert!(!format!("{relay:?} {grant:?}").contains("canary"));
}

/// Whether the relay has closed this connection within a second.
async fn is_closed(socket: &mut TcpStream) -> bool {
    let mut buffer = [0; 1024];
    let end = async { while socket.read(&mut buffer).await.is_ok_and(|n| n > 0) {} };
    tokio::time::timeout(Duration::from_secs(1), end)
        .await
        .is_ok()
}

// A Session cannot keep another one from its model by opening connections.
#[tokio::test]
async fn silent_connections_make_room_for_one_with_a_token() {
    let upstream = upstream(&[OK, "data: 1\n\n"]).await;
    let (relay, grant) = relay_to(&upstream.url, ModelProtocol::Responses).await;
    let address = relay.url().trim_start_matches("http://").to_owned();
    let mut silent = Vec::new();
    for _ in 0..strangers::STRANGERS + 40 {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }
    let answer = whole(ask(&relay, "/v1/responses", &bearer(&grant)).await).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(is_closed(&mut silent[0]).await, "the oldest made room");
}

#[tokio::test]
async fn a_connection_without_a_token_does_not_stay() {
    let upstream = upstream(&[OK]).await;
    let (relay, grant) = relay_to(&upstream.url, ModelProtocol::Responses).await;
    let address = relay.url().trim_start_matches("http://").to_owned();
    let head = "POST /v1/responses HTTP/1.1\r\nhost: relay\r\ncontent-length: 0\r\n\r\n";
    let mut socket = TcpStream::connect(&address).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    assert!(is_closed(&mut socket).await);
    // One that has shown its token may be used again.
    let bearer = bearer(&grant);
    let head =
        format!("POST /v1/none HTTP/1.1\r\nhost: relay\r\n{bearer}\r\ncontent-length: 0\r\n\r\n");
    let mut socket = TcpStream::connect(&address).await.unwrap();
    for _ in 0..2 {
        socket.write_all(head.as_bytes()).await.unwrap();
        assert!(!is_closed(&mut socket).await);
    }
}
