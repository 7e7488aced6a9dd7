//! The capabilities `http` and `program`: only what the manifest names, the operator granted and the call may.

use std::sync::mpsc;

use contract::common::{Encoding, Extra, Pair};
use contract::host_types::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

use super::*;
use crate::load::GrantedProgram;
use crate::providers::{Chosen, SecretSettings};

const KEY: &str = "s3cr\u{e9}t\"key";

fn manifest(base: &str) -> String {
    format!(
        r#"
id = "reaching"
version = "1.0.0"
name = "Reaching"
license = "Apache-2.0"
kind = "sandbox-provider"
contract = "0.2.0"
[permissions]
http = "to ask its service"
program = "to ask its helper"
[[endpoint]]
name = "service"
base = "{base}"
methods = ["GET", "POST"]
secrets = ["api-key"]
[[endpoint]]
name = "far"
base = "https://{{id}}.example.com/v1"
methods = ["GET"]
[[endpoint]]
name = "clear"
base = "{{setting.place}}"
methods = ["GET"]
[[program]]
name = "helper"
args = [["--version"], ["run", "*"]]
[[setting]]
key = "api-key"
type = "secret"
description = "Key of the service."
[[setting]]
key = "other-key"
type = "secret"
description = "Key of nobody."
[[setting]]
key = "place"
type = "string"
description = "Where the service is."
"#
    )
}

/// A provider with a handle that may reach what its manifest names.
fn reaching(base: &str, settings: &[(&str, &str)]) -> (Arc<Odd>, ProviderHandle, Arc<Remembered>) {
    let odd = Arc::new(Odd::default());
    let mut provider = Provider::new(odd.clone(), &manifest(base)).unwrap();
    let helper = GrantedProgram::at(std::path::Path::new("/bin/true")).unwrap();
    provider.programs.insert("helper".into(), helper);
    let granted = provider.wanted();
    let memory = Arc::new(Remembered::default());
    let secrets = [("api-key", KEY), ("other-key", "other")];
    let secrets = secrets.map(|(key, value)| (key.to_owned(), Secret::new(value)));
    let chosen = Chosen {
        settings: settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        secrets: SecretSettings::Given(Arc::new(secrets.into())),
        resources: Resources::default(),
    };
    let handle = ProviderHandle::new(provider, &granted, memory.clone(), None);
    (odd, handle.with_selection(chosen), memory)
}

/// Does something with the host inside of one call.
async fn within<T: Send + 'static>(
    (odd, handle): (&Odd, &ProviderHandle),
    settings: &[(String, String)],
    act: impl FnOnce(&dyn Host) -> T + Send + 'static,
) -> T {
    let (told, heard) = mpsc::channel();
    *odd.act.lock().unwrap() = Some(Box::new(move |host| {
        told.send(act(host)).unwrap();
    }));
    let mut on = target(10_000);
    on.settings = settings.to_vec();
    assert_eq!(code(handle.inspect(on).await), "acted");
    heard.recv().unwrap()
}

fn get(path: &str) -> Request {
    Request {
        endpoint: "service".into(),
        labels: Vec::new(),
        method: "GET".into(),
        path: path.into(),
        headers: Vec::new(),
        body: Body::Empty,
        read: ReadMode::Whole,
        captures: Vec::new(),
        max_body_bytes: 1 << 20,
        timeout_ms: 5_000,
    }
}

fn secret(secret: SecretRef, encoding: Encoding) -> SecretPiece {
    SecretPiece { secret, encoding }
}

fn api_key(encoding: Encoding) -> SecretPiece {
    secret(SecretRef::Setting("api-key".into()), encoding)
}

/// Answers one connection after another with these bytes and tells what it was asked.
async fn service(answers: Vec<&'static str>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            asked.push(talk(&mut socket, answer).await);
        }
        asked
    });
    (base, task)
}

/// Reads one request whole and answers it; the connection ends with that.
async fn talk(socket: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin), answer: &str) -> String {
    let (mut asked, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = socket.read(&mut piece).await.unwrap();
        asked.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&asked).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if read == 0 || body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            socket.write_all(answer.as_bytes()).await.unwrap();
            return text;
        }
    }
}

const FINE: &str = "HTTP/1.1 200 OK\r\nset-cookie: a=b\r\nx-kind: fine\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfine";

// Architecture 5: the host fills secrets in at the last moment; the plugin never has them.
#[tokio::test]
async fn a_request_reaches_its_endpoint_with_secrets_that_the_plugin_never_saw() {
    let (base, asked) = service(vec![FINE]).await;
    let (odd, handle, _) = reaching("{setting.place}/api", &[("place", &base)]);
    let settings = [("place".to_owned(), base)];
    let request = Request {
        method: "POST".into(),
        headers: vec![Header {
            name: "x-key".into(),
            value: vec![
                TextPiece::Text("Key ".into()),
                TextPiece::Secret(api_key(Encoding::Base64)),
            ],
        }],
        body: Body::Pieces(vec![
            BodyPiece::Text("{\"key\":\"".into()),
            BodyPiece::Secret(api_key(Encoding::JsonString)),
            BodyPiece::Bytes(b"\"}".to_vec()),
        ]),
        ..get("/boxes?all=1")
    };
    let answer = within((&odd, &handle), &settings, move |host| {
        host.http().send(&request)
    })
    .await;
    let answer = answer.unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"fine"[..]));
    assert!(answer.complete);
    assert!(answer.headers.contains(&Pair {
        name: "x-kind".into(),
        value: "fine".into()
    }));
    assert!(answer.headers.iter().all(|pair| pair.name != "set-cookie"));
    let asked = asked.await.unwrap().remove(0);
    assert!(
        asked.starts_with("POST /api/boxes?all=1 HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(asked.contains("x-key: Key czNjcsOpdCJrZXk="), "{asked}");
    assert!(
        asked.ends_with("{\"key\":\"s3cr\u{e9}t\\\"key\"}"),
        "{asked}"
    );
}

// Nothing is sent, and the plugin is told so: effect `none`.
#[tokio::test]
async fn what_is_not_granted_is_refused_before_a_byte_is_sent() {
    let (base, asked) = service(vec![FINE]).await;
    let (odd, handle, _) = reaching(&base, &[]);
    let with_header = |name: &str, value: TextPiece| Request {
        headers: vec![Header {
            name: name.into(),
            value: vec![value],
        }],
        ..get("/")
    };
    let text = |text: &str| TextPiece::Text(text.into());
    let with_body = |piece| Request {
        body: Body::Pieces(vec![piece]),
        ..get("/")
    };
    let to = |endpoint: &str, labels: &[(&str, &str)]| Request {
        endpoint: endpoint.into(),
        labels: labels
            .iter()
            .map(|(name, value)| Pair {
                name: (*name).into(),
                value: (*value).into(),
            })
            .collect(),
        ..get("/")
    };
    let other = SecretRef::Setting("other-key".into());
    let artifact = ArtifactRef {
        name: "berth-runtime".into(),
        os: "linux".into(),
        arch: "x86_64".into(),
    };
    let entry = |path: &str, kind, content| {
        let entry = TarEntry {
            path: path.into(),
            kind,
            mode: 0o600,
            uid: 0,
            gid: 0,
            content,
        };
        Request {
            body: Body::Tar(vec![entry]),
            ..get("/")
        }
    };
    let cases = [
        (to("nowhere", &[]), "endpoint_unknown"),
        (to("clear", &[]), "setting_missing"),
        (to("far", &[]), "label_missing"),
        (to("far", &[("id", "a.b")]), "label_invalid"),
        (to("far", &[("id", "a/b")]), "label_invalid"),
        (to("far", &[("id", "-a")]), "label_invalid"),
        (to("far", &[("id", "")]), "label_invalid"),
        (
            Request {
                method: "DELETE".into(),
                ..get("/")
            },
            "method_not_granted",
        ),
        (get("boxes"), "path_refused"),
        (get("/../admin"), "path_refused"),
        (get("/a/%2E./admin"), "path_refused"),
        (get("/a b"), "path_refused"),
        (get("/a#b"), "path_refused"),
        (get("/\u{e9}"), "path_refused"),
        (with_header("host", text("other")), "header_refused"),
        (with_header("Host", text("other")), "header_refused"),
        (with_header("content-length", text("0")), "header_refused"),
        (
            with_header("transfer-encoding", text("chunked")),
            "header_refused",
        ),
        (with_header("x a", text("b")), "header_refused"),
        (with_header("x", text("a\r\nb: c")), "header_refused"),
        (
            with_header("x", TextPiece::Secret(secret(other, Encoding::Raw))),
            "secret_not_granted",
        ),
        (
            with_body(BodyPiece::Secret(secret(
                SecretRef::Setting("place".into()),
                Encoding::Raw,
            ))),
            "secret_not_granted",
        ),
        (
            with_body(BodyPiece::Secret(secret(
                SecretRef::BootstrapFile,
                Encoding::Raw,
            ))),
            "no_bootstrap",
        ),
        (
            with_body(BodyPiece::Secret(secret(
                SecretRef::Captured("token".into()),
                Encoding::Raw,
            ))),
            "secret_missing",
        ),
        (
            with_body(BodyPiece::Artifact(artifact)),
            "artifact_unavailable",
        ),
        (
            Request {
                body: Body::Other(Extra {
                    kind: "later".into(),
                    json: "{}".into(),
                }),
                ..get("/")
            },
            "body_unknown",
        ),
        (entry("../a", TarKind::File, Vec::new()), "archive_invalid"),
        (entry("/a", TarKind::File, Vec::new()), "archive_invalid"),
        (
            entry("a", TarKind::Folder, vec![BodyPiece::Text("x".into())]),
            "archive_invalid",
        ),
        (
            Request {
                captures: vec![Capture {
                    pointer: "/a".into(),
                    name: "a.b".into(),
                }],
                ..get("/")
            },
            "capture_name_invalid",
        ),
    ];
    for (request, expected) in cases {
        let told = format!("{request:?}");
        let answer = within((&odd, &handle), &[], move |host| host.http().send(&request)).await;
        let failure = answer.unwrap_err();
        assert_eq!(
            (failure.code.as_str(), failure.effect),
            (expected, Effect::None),
            "{told}"
        );
    }
    asked.abort();
    // Nobody listens there any more.
    assert!(asked.await.unwrap_err().is_cancelled());
    let answer = within((&odd, &handle), &[], |host| host.http().send(&get("/"))).await;
    let failure = answer.unwrap_err();
    assert_eq!(
        (failure.code.as_str(), failure.effect),
        ("no_route", Effect::None)
    );
}

// SP-3.6: once something was sent, a failure tells nothing about the effect; and a redirect is an answer like others.
#[tokio::test]
async fn what_goes_wrong_after_sending_is_unknown() {
    let (base, _asked) = service(vec![
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        "",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\ncut",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nlarge",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nno json..",
    ])
    .await;
    let (odd, handle, _) = reaching(&base, &[]);
    let answer = within((&odd, &handle), &[], |host| host.http().send(&get("/"))).await;
    assert_eq!(answer.unwrap().status, 302);
    let capture = Capture {
        pointer: "/a".into(),
        name: "a".into(),
    };
    for (captures, expected) in [
        (Vec::new(), "no_answer"),
        (Vec::new(), "answer_broke_off"),
        (Vec::new(), "answer_too_large"),
        (vec![capture], "answer_is_no_json"),
    ] {
        let request = Request {
            max_body_bytes: if expected == "answer_too_large" {
                4
            } else {
                100
            },
            captures,
            ..get("/")
        };
        let answer = within((&odd, &handle), &[], move |host| host.http().send(&request)).await;
        let failure = answer.unwrap_err();
        assert_eq!(
            (failure.code.as_str(), failure.effect),
            (expected, Effect::Unknown)
        );
    }
}

// SP-14.2: a token of an answer is kept before the plugin sees the answer, and can be sent again without being seen.
#[tokio::test]
async fn a_captured_secret_is_kept_out_of_the_plugin_and_used_by_name() {
    let (base, asked) = service(vec![
        "HTTP/1.1 201 Created\r\ncontent-length: 36\r\nconnection: close\r\n\r\n{\"id\":\"box\",\"access\":{\"token\":\"t0\"}}",
        FINE,
    ])
    .await;
    let (odd, handle, memory) = reaching(&base, &[]);
    let capture = |pointer: &str, name: &str| Capture {
        pointer: pointer.into(),
        name: name.into(),
    };
    let request = Request {
        captures: vec![
            capture("/access/token", "token"),
            capture("/missing", "none"),
        ],
        ..get("/")
    };
    let answer = within((&odd, &handle), &[], move |host| {
        let answer = host.http().send(&request);
        // Its own records know nothing of it.
        let own = host
            .state()
            .get(contract::state::Scope::Allocation, "captured.token");
        assert_eq!(own.unwrap_err().effect, Effect::None);
        answer
    })
    .await;
    let body = String::from_utf8(answer.unwrap().body).unwrap();
    assert_eq!(body, r#"{"id":"box","access":{"token":"<captured>"}}"#);
    assert!(
        memory
            .0
            .lock()
            .unwrap()
            .values()
            .any(|value| value == b"t0")
    );
    let request = Request {
        headers: vec![Header {
            name: "x-token".into(),
            value: vec![TextPiece::Secret(secret(
                SecretRef::Captured("token".into()),
                Encoding::Raw,
            ))],
        }],
        ..get("/")
    };
    within((&odd, &handle), &[], move |host| host.http().send(&request))
        .await
        .unwrap();
    assert!(asked.await.unwrap()[1].contains("x-token: t0\r\n"));
}

#[tokio::test]
async fn a_unix_socket_is_an_endpoint_and_a_stream_is_read_until_it_is_quiet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let serving = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nready\r\n";
        let asked = talk(&mut socket, answer).await;
        // It does not end.
        std::future::pending::<()>().await;
        asked
    });
    let (odd, handle, _) = reaching(&format!("unix:{}", path.display()), &[]);
    let request = Request {
        read: ReadMode::Partial(PartialRead {
            at_least_bytes: 3,
            quiet_ms: 50,
        }),
        ..get("/v1/events")
    };
    let answer = within((&odd, &handle), &[], move |host| host.http().send(&request)).await;
    let answer = answer.unwrap();
    assert_eq!(
        (answer.body.as_slice(), answer.complete),
        (&b"ready"[..], false)
    );
    serving.abort();
}

// The program itself runs under the supervisor of the whole binary; here, what is refused before that.
#[tokio::test]
async fn a_program_that_was_not_granted_is_never_started() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("helper");
    std::fs::write(&path, "#!/bin/sh\n").unwrap();
    let odd = Arc::new(Odd::default());
    let mut provider = Provider::new(odd.clone(), &manifest("https://a.test")).unwrap();
    let granted = provider.wanted();
    let command = |program: &str, args: &[&str]| Command {
        program: program.into(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: Vec::new(),
        stdin: Vec::new(),
        timeout_ms: 1_000,
        max_output_bytes: 100,
    };
    let run = async |provider: &Provider, command: Command| {
        let handle = ProviderHandle::new(
            provider.clone(),
            &granted,
            Arc::new(Remembered::default()),
            None,
        );
        let ran = within((&odd, &handle), &[], move |host| {
            host.program().run(&command)
        })
        .await;
        let failure = ran.unwrap_err();
        assert_eq!(failure.effect, Effect::None);
        failure.code
    };
    assert_eq!(
        run(&provider, command("other", &[])).await,
        "program_unknown"
    );
    assert_eq!(
        run(&provider, command("helper", &["rm"])).await,
        "arguments_not_granted"
    );
    assert_eq!(
        run(&provider, command("helper", &["run"])).await,
        "arguments_not_granted"
    );
    assert_eq!(
        run(&provider, command("helper", &["run", "a"])).await,
        "program_not_granted"
    );
    let helper = GrantedProgram::at(&path).unwrap();
    provider.programs.insert("helper".into(), helper);
    assert_eq!(
        run(&provider, command("helper", &["--version"])).await,
        "program_unavailable"
    );
    std::fs::write(&path, "#!/bin/sh\nrm -rf /\n").unwrap();
    assert_eq!(
        run(&provider, command("helper", &["--version"])).await,
        "program_changed"
    );
    assert!(GrantedProgram::at(std::path::Path::new("bin/true")).is_err());
}
