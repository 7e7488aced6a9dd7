//! The capability `http`: one request to an endpoint of the manifest, sent at most once. Everything is judged before the
//! first byte leaves, so a refusal has no effect; what happens later is unknown (SP-3.6).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use contract::common::{Effect, Failure, Pair};
use contract::host_types::{Body, Capture, Header, ReadMode, Request, Response, TarEntry, TarKind};
use contract::manifest::Endpoint;
use domain::Secret;
use net::{AddressRule, Client, Timeouts, keeps_secrets};
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use url::{Host, Url};

use super::fill::{Fill, captured_key};
use super::host::{CallHost, Scope, failure};

/// Bounds of the contract.
const HEADERS: usize = 64;
const ANSWER_BYTES: u32 = 8 << 20;
const LONGEST_MS: u32 = 120_000;
/// Bound of a request's body: it is in memory once.
const BODY_BYTES: usize = 64 << 20;
const PATH_BYTES: usize = 8 << 10;
const TAR_PATH_BYTES: usize = 255;
/// Until a connection stands.
const CONNECT: Duration = Duration::from_secs(10);
/// Headers that belong to the host.
const OURS: [&str; 4] = ["host", "content-length", "connection", "transfer-encoding"];
/// What stands where a secret was taken out of an answer.
const CAPTURED: &str = "<captured>";

fn refused(code: &str) -> Failure {
    failure(code, Effect::None)
}

fn unknown(code: &str) -> Failure {
    failure(code, Effect::Unknown)
}

/// The clients of one provider: one for each way out.
#[derive(Default)]
pub(super) struct Clients(Mutex<HashMap<Way, Client>>);

/// How an address is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Way {
    Socket(String),
    /// `loopback`: the address itself names this machine. A name that only points here is refused when it is resolved.
    Network {
        loopback: bool,
    },
}

impl Clients {
    fn of(&self, way: &Way) -> Result<Client, Failure> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(way) {
            return Ok(client.clone());
        }
        let timeouts = Timeouts {
            connect: CONNECT,
            silence: Duration::from_millis(LONGEST_MS.into()),
        };
        let made = match way {
            Way::Socket(path) => Client::through_socket(path.as_ref(), timeouts),
            Way::Network { loopback: true } => Client::new(AddressRule::ANYWHERE, timeouts),
            Way::Network { loopback: false } => Client::new(AddressRule::NETWORK, timeouts),
        };
        let client = made.map_err(|_| refused("client_unavailable"))?;
        clients.insert(way.clone(), client.clone());
        Ok(client)
    }
}

/// Sends it.
pub(super) fn send(host: &CallHost, request: &Request) -> Result<Response, Failure> {
    let prepared = prepare(host, request)?;
    let most = request.max_body_bytes.min(ANSWER_BYTES) as usize;
    let asked = Duration::from_millis(request.timeout_ms.clamp(1, LONGEST_MS).into());
    let exchange = exchange(prepared, &request.read, most);
    let limit = asked.min(host.left());
    let answer = host
        .runtime
        .block_on(async { tokio::time::timeout(limit, exchange).await });
    let answer = answer.unwrap_or_else(|_| Err(unknown("request_timed_out")))?;
    captured(host, &request.captures, answer)
}

/// Everything but sending.
fn prepare(host: &CallHost, request: &Request) -> Result<RequestBuilder, Failure> {
    let endpoints = &host.shared.provider.manifest.endpoints;
    let endpoint = endpoints.iter().find(|it| it.name == request.endpoint);
    let endpoint = endpoint.ok_or_else(|| refused("endpoint_unknown"))?;
    if !endpoint.methods.contains(&request.method) {
        return Err(refused("method_not_granted"));
    }
    let method =
        Method::from_bytes(request.method.as_bytes()).map_err(|_| refused("method_not_granted"))?;
    let (way, url) = address(endpoint, &host.settings, &request.labels, &request.path)?;
    for capture in &request.captures {
        captured_key(&capture.name)?;
        if host.allocation.is_none() {
            return Err(refused("no_allocation"));
        }
    }
    let fill = Fill {
        host,
        allowed: Some(&endpoint.secrets),
    };
    if request.headers.len() > HEADERS {
        return Err(refused("too_many_headers"));
    }
    let client = host.shared.clients.of(&way)?;
    let mut builder = client
        .request(method, url)
        .map_err(|_| refused("address_refused"))?;
    for given in &request.headers {
        let (name, value) = header(given, &fill)?;
        builder = builder.header(name, value);
    }
    Ok(match &request.body {
        Body::Empty => builder,
        Body::Pieces(pieces) => builder.body(fill.body(pieces, BODY_BYTES)?),
        Body::Tar(entries) => builder.body(archive(entries, &fill)?),
        Body::Other(_) => return Err(refused("body_unknown")),
    })
}

fn header(given: &Header, fill: &Fill<'_>) -> Result<(HeaderName, HeaderValue), Failure> {
    let lower = given.name.bytes().all(|byte| !byte.is_ascii_uppercase());
    if !lower || OURS.contains(&given.name.as_str()) {
        return Err(refused("header_refused"));
    }
    let name =
        HeaderName::from_bytes(given.name.as_bytes()).map_err(|_| refused("header_refused"))?;
    let value = fill.text(&given.value)?;
    let value = HeaderValue::from_bytes(&value).map_err(|_| refused("header_refused"));
    let mut value = value?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Where it goes: the endpoint's address with its placeholders, and a path that stays below it.
fn address(
    endpoint: &Endpoint,
    settings: &[(String, String)],
    labels: &[Pair],
    path: &str,
) -> Result<(Way, Url), Failure> {
    let base = expanded(&endpoint.base, settings, labels)?;
    let graphic = path.bytes().all(|byte| byte.is_ascii_graphic());
    let well_formed = path.starts_with('/') && graphic && !path.contains(['#', '\\']);
    if !well_formed || path.len() > PATH_BYTES || leaves(path) {
        return Err(refused("path_refused"));
    }
    if let Some(socket) = base.strip_prefix("unix:") {
        if !socket.starts_with('/') || socket.contains('\0') {
            return Err(refused("endpoint_invalid"));
        }
        let url = Url::parse(&format!("http://localhost{path}"));
        let url = url.map_err(|_| refused("path_refused"))?;
        return Ok((Way::Socket(socket.to_owned()), url));
    }
    let base = Url::parse(&base).map_err(|_| refused("endpoint_invalid"))?;
    let bare = base.username().is_empty() && base.password().is_none() && base.query().is_none();
    if !bare || !matches!(base.scheme(), "https" | "http") || !keeps_secrets(&base) {
        return Err(refused("endpoint_invalid"));
    }
    let prefix = base.as_str().trim_end_matches('/');
    let url = Url::parse(&format!("{prefix}{path}")).map_err(|_| refused("path_refused"))?;
    if url.origin() != base.origin() {
        return Err(refused("path_refused"));
    }
    let loopback = match base.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    Ok((Way::Network { loopback }, url))
}

/// A segment of the path leads upwards, in any spelling.
fn leaves(path: &str) -> bool {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    path.split('/').any(|segment| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        matches!(plain.as_str(), "." | "..")
    })
}

/// Replaces `{setting.key}` by the operator's setting and `{name}` by a DNS label of the request.
fn expanded(base: &str, settings: &[(String, String)], labels: &[Pair]) -> Result<String, Failure> {
    let (mut all, mut rest) = (String::new(), base);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after
            .split_once('}')
            .ok_or_else(|| refused("endpoint_invalid"))?;
        all.push_str(before);
        match name.strip_prefix("setting.") {
            Some(key) => {
                let found = settings.iter().find(|(known, _)| known == key);
                let (_, value) = found.ok_or_else(|| refused("setting_missing"))?;
                all.push_str(value);
            }
            None => {
                let found = labels.iter().find(|label| label.name == name);
                let label = found.ok_or_else(|| refused("label_missing"))?;
                if !is_label(&label.value) {
                    return Err(refused("label_invalid"));
                }
                all.push_str(&label.value);
            }
        }
        rest = after;
    }
    all.push_str(rest);
    Ok(all)
}

fn is_label(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn archive(entries: &[TarEntry], fill: &Fill<'_>) -> Result<Vec<u8>, Failure> {
    let invalid = |_| refused("archive_invalid");
    let mut archive = tar::Builder::new(Vec::new());
    for entry in entries {
        let segments = || entry.path.split('/');
        let clean = segments().all(|segment| !matches!(segment, "" | "." | ".."))
            && !entry.path.contains(['\\', '\0']);
        if !clean || entry.path.len() > TAR_PATH_BYTES {
            return Err(refused("archive_invalid"));
        }
        let used = archive.get_ref().len();
        let content = fill.body(&entry.content, BODY_BYTES.saturating_sub(used))?;
        let mut head = tar::Header::new_gnu();
        match entry.kind {
            TarKind::File => head.set_entry_type(tar::EntryType::Regular),
            TarKind::Folder if !content.is_empty() => return Err(refused("archive_invalid")),
            TarKind::Folder => head.set_entry_type(tar::EntryType::Directory),
        }
        head.set_mode(entry.mode & 0o7777);
        head.set_uid(entry.uid.into());
        head.set_gid(entry.gid.into());
        head.set_size(content.len() as u64);
        let added = archive.append_data(&mut head, &entry.path, content.as_slice());
        added.map_err(invalid)?;
    }
    archive.into_inner().map_err(invalid)
}

async fn exchange(
    prepared: RequestBuilder,
    read: &ReadMode,
    most: usize,
) -> Result<Response, Failure> {
    let sent = prepared.send().await;
    let mut answer = sent.map_err(|error| {
        if error.is_connect() {
            refused("no_route")
        } else {
            unknown("no_answer")
        }
    })?;
    let shown = |(name, value): (&HeaderName, &HeaderValue)| {
        let value = value.to_str().ok()?.to_owned();
        let name = name.as_str().to_owned();
        (name != "set-cookie").then_some(Pair { name, value })
    };
    let mut response = Response {
        status: answer.status().as_u16(),
        headers: answer.headers().iter().filter_map(shown).collect(),
        body: Vec::new(),
        complete: true,
    };
    loop {
        let next = match read {
            ReadMode::Partial(partial)
                if response.body.len() >= partial.at_least_bytes as usize =>
            {
                let quiet = Duration::from_millis(partial.quiet_ms.into());
                match tokio::time::timeout(quiet, answer.chunk()).await {
                    Ok(next) => next,
                    Err(_) => {
                        response.complete = false;
                        return Ok(response);
                    }
                }
            }
            _ => answer.chunk().await,
        };
        match next.map_err(|_| unknown("answer_broke_off"))? {
            None => return Ok(response),
            Some(bytes) if response.body.len() + bytes.len() > most => {
                return Err(unknown("answer_too_large"));
            }
            Some(bytes) => response.body.extend_from_slice(&bytes),
        }
    }
}

/// Takes secrets out of the answer and keeps them before the plugin sees it.
fn captured(
    host: &CallHost,
    captures: &[Capture],
    mut answer: Response,
) -> Result<Response, Failure> {
    let Some(allocation) = host.allocation.as_ref().filter(|_| !captures.is_empty()) else {
        return Ok(answer);
    };
    let Ok(mut json) = serde_json::from_slice::<Value>(&answer.body) else {
        // A secret of an answer that cannot be read cannot be taken out of it either.
        return match answer.body.is_empty() {
            true => Ok(answer),
            false => Err(unknown("answer_is_no_json")),
        };
    };
    for capture in captures {
        let Some(found) = json.pointer_mut(&capture.pointer) else {
            continue;
        };
        let Value::String(secret) = found else {
            return Err(unknown("captured_is_no_text"));
        };
        let secret = Secret::new(std::mem::replace(secret, CAPTURED.to_owned()));
        let key = captured_key(&capture.name)?;
        let scope = Scope::Allocation(allocation.id);
        let memory = &host.shared.memory;
        let kept = memory.put(host.provider(), scope, &key, Some(secret));
        kept.map_err(|_| unknown("capture_not_kept"))?;
    }
    answer.body = serde_json::to_vec(&json).map_err(|_| unknown("answer_is_no_json"))?;
    Ok(answer)
}
