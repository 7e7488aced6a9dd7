//! A Core on a fresh database with one harness, two Projects and their keys.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use blobs::Blobs;
use domain::run::{
    Abilities, Cancellation, Capability, FunctionLimits, HarnessDeclaration, HistoryRecovery,
    McpLimits, MessageLimits, ModelProtocol, ModelSupport, PerPlacement, Support,
};
use domain::{DeviceId, Digest, KeyId, ProjectId};
use http_body_util::BodyExt;
use serde_json::Value;
use store::Store;
use store::projects::{CreateProject, IssueApiKey};
use store::testing::TestDatabase;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::api::{Api, Facts};
use crate::gateway::{Gateway, GatewaySettings};
use crate::harnesses::Harnesses;
use crate::http::accept::Answer;
use crate::hub::Hub;
use crate::keys::StreamKeys;
use crate::plugins::Shelf;
use crate::settings::ShownSetting;
use crate::state::Core;

pub(crate) const CORE_KEY: &str =
    "oac_admin_0000000000000000000000000000000000000000000000000000000000000000";

pub(crate) struct Fixture {
    pub database: TestDatabase,
    /// Stored bytes.
    pub folder: tempfile::TempDir,
    pub core: Arc<Core>,
    pub api: Arc<Api>,
    /// Key of the Project most tests use.
    pub key: String,
    pub key_id: KeyId,
    pub project: ProjectId,
    /// Key of another Project.
    pub other: String,
}

pub(crate) struct Answered {
    pub status: u16,
    pub headers: axum::http::HeaderMap,
    pub body: String,
    /// The same, where it is no text.
    pub bytes: Vec<u8>,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{} is no JSON", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl Fixture {
    pub(crate) async fn on(database: TestDatabase) -> Self {
        let store = database.open().await;
        Self::with(database, store).await
    }

    /// On a store that was opened with settings of the test's own.
    pub(crate) async fn with(database: TestDatabase, store: Store) -> Self {
        let (key, other) = ("berth_sk_one".to_owned(), "berth_sk_two".to_owned());
        let (project, key_id) = issue(&store, &key).await;
        issue(&store, &other).await;
        let stop = CancellationToken::new();
        let folder = tempfile::tempdir().unwrap();
        let gateway = Gateway::new(GatewaySettings {
            store: store.clone(),
            installation: store.installation(),
            public_url: "http://127.0.0.1/".parse().unwrap(),
            executor_idle_ms: 300_000,
            loopback_models: false,
            owned: watch::channel(None).1,
            stop: stop.clone(),
        });
        let core = Arc::new(Core {
            gateway,
            blobs: Blobs::on_disk(folder.path(), store.keys().clone()).unwrap(),
            uploads: Arc::new(Semaphore::new(3)),
            bundles: Arc::new(Semaphore::new(1)),
            hosts: Arc::new(true.into()),
            deployment: None,
            engine_device: DeviceId::new(store.installation().uuid()),
            hub: Hub::new(store.clone()),
            store,
            keys: StreamKeys::default(),
            core_keys: vec![*Digest::of(CORE_KEY.as_bytes()).as_bytes()],
            harnesses: Harnesses::new(vec![declaration()], None, None).unwrap(),
            plugins: Arc::new(Shelf::new(
                plugin_host::Plugins::built_in().unwrap(),
                plugin_host::Settings::default(),
            )),
            allow_loopback_model_urls: false,
            facts: Facts {
                public_url: "http://127.0.0.1:8091/".parse().unwrap(),
                settings: vec![ShownSetting {
                    key: "database-url",
                    value: Some("canary".to_owned()),
                    default: None,
                    sensitive: true,
                }],
            },
            stop,
            drained: CancellationToken::new(),
        });
        tokio::spawn(core.hub.clone().run(core.drained.clone()));
        let api = Arc::new(Api::new(core.clone()));
        Self {
            database,
            folder,
            core,
            api,
            key,
            key_id,
            project,
            other,
        }
    }

    /// Answers a request whose body, if there is one, is JSON.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Option<&str>,
    ) -> Answered {
        let answer = self.open(method, path, key, body, &[]).await;
        read(answer).await
    }

    /// As [`Fixture::send`], without reading the body of the answer.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Response<Body> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("openai-beta", "agents=v1");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_owned()));
        self.api.clone().answer(request.body(body).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answered {
        self.send("GET", path, Some(&self.key), None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answered {
        self.send("POST", path, Some(&self.key), Some(body)).await
    }

    /// Sends a form.
    pub(super) async fn form(&self, path: &str, key: Option<&str>, parts: &[Part]) -> Answered {
        self.form_with(path, key, parts, &[]).await
    }

    /// Sends a form with further headers.
    pub(super) async fn form_with(
        &self,
        path: &str,
        key: Option<&str>,
        parts: &[Part],
        headers: &[(&str, &str)],
    ) -> Answered {
        let mut body = Vec::new();
        for part in parts {
            body.extend_from_slice(b"--xyz\r\ncontent-disposition: form-data; ");
            body.extend_from_slice(&part.disposition);
            body.extend_from_slice(b"\r\n\r\n");
            body.extend_from_slice(&part.bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--xyz--\r\n");
        let mut request = Request::builder()
            .method("POST")
            .uri(path)
            .header("content-type", "multipart/form-data; boundary=xyz");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.api.clone().answer(request.body(body.into()).unwrap());
        read(answer.await).await
    }

    /// Uploads a File and returns its id.
    pub(crate) async fn file(&self, name: &str, bytes: &[u8]) -> String {
        let parts = [
            Part::field("purpose", "user_data"),
            Part::file("file", name, bytes),
        ];
        let answer = self.form("/v1/files", Some(&self.key), &parts).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Makes a Skill of one manifest and returns its id.
    pub(crate) async fn skill(&self, manifest: &str) -> String {
        let parts = [Part::file("files[]", "a/SKILL.md", manifest.as_bytes())];
        let answer = self.form("/v1/skills", Some(&self.key), &parts).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Gives the harness a default model, so that Sessions need none of their own.
    pub(crate) async fn default_model(&self) {
        let body = r#"{"model_provider":{"protocol":"responses","base_url":"https://models.example/v1","api_key":"k"},"model":"default-model"}"#;
        let path = "/core/v1/harnesses/test/model-configuration";
        let answer = self.send("PUT", path, Some(CORE_KEY), Some(body)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }

    /// Makes a Session and returns its id.
    pub(crate) async fn session(&self, body: &str) -> String {
        let answer = self.post("/v1/agents/sessions", body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn dump(&self) -> String {
        self.database.dump().await.unwrap()
    }
}

/// A part of a form.
pub(crate) struct Part {
    disposition: Vec<u8>,
    bytes: Vec<u8>,
}

impl Part {
    pub(crate) fn field(name: &str, value: &str) -> Self {
        Self {
            disposition: format!("name=\"{name}\"").into_bytes(),
            bytes: value.as_bytes().to_vec(),
        }
    }

    pub(crate) fn file(name: &str, filename: &str, bytes: &[u8]) -> Self {
        Self::raw(
            format!("name=\"{name}\"; filename=\"{filename}\"").as_bytes(),
            bytes,
        )
    }

    /// With whatever follows `form-data; `.
    pub(crate) fn raw(disposition: &[u8], bytes: &[u8]) -> Self {
        Self {
            disposition: disposition.to_vec(),
            bytes: bytes.to_vec(),
        }
    }
}

pub(crate) async fn read(answer: Response<Body>) -> Answered {
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answered {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: String::from_utf8_lossy(&bytes).into_owned(),
        bytes: bytes.to_vec(),
    }
}

async fn issue(store: &Store, key: &str) -> (ProjectId, KeyId) {
    let project = ProjectId::new(uuid::Uuid::new_v4());
    let id = KeyId::new(uuid::Uuid::new_v4());
    let created = store
        .write(CreateProject {
            id: project,
            name: "p".into(),
            by: None,
        })
        .await;
    assert!(created.is_ok());
    let digest = Digest::of(key.as_bytes());
    let issued = store
        .write(IssueApiKey {
            id,
            project,
            name: "k".into(),
            prefix: "p".into(),
            digest,
            by: None,
        })
        .await;
    assert!(issued.is_ok());
    (project, id)
}

/// A harness that can do what the API can use, and says so.
pub(crate) fn declaration() -> HarnessDeclaration {
    let mut abilities = Abilities::REFUSED;
    for capability in [
        Capability::EnvironmentNone,
        Capability::Steering,
        Capability::TextVerbosity,
        Capability::WebSearchControl,
        Capability::ProgrammaticToolCallingDisable,
    ] {
        if let Some(place) = abilities.get_mut(capability) {
            *place = PerPlacement::all(Support::Verified);
        }
    }
    HarnessDeclaration {
        id: "test".parse().unwrap(),
        display_name: "Test".into(),
        rank: 0,
        install: "test".into(),
        abilities,
        conflicts: Vec::new(),
        models: ModelSupport {
            protocols: vec![ModelProtocol::Responses],
            needs_token_limits: false,
            own_model: false,
            verbosities: vec!["low".into()],
            efforts: Vec::new(),
            service_tiers: Vec::new(),
        },
        parameters_schema: r#"{"type":"object","properties":{"effort":{"enum":["low","high"]}},"additionalProperties":false}"#
            .into(),
        functions: FunctionLimits {
            max_count: 64,
            max_name_bytes: 512,
            name_pattern: None,
            reserved_names: Vec::new(),
            object_root: false,
            exact_numbers: false,
            result_images: Vec::new(),
            result_images_on_success_only: false,
        },
        mcp: McpLimits {
            label_pattern: None,
            reserved_labels: Vec::new(),
            tool_pattern: None,
            allow_lists: true,
            literal_headers: false,
            bearer_needs_https: true,
        },
        messages: MessageLimits { images: Vec::new(), whitespace_only: false, max_messages_per_turn: None },
        cancellation: Cancellation { keeps_process: true, settles_within_ms: 8000 },
        recovery: HistoryRecovery::Unsupported,
        platform_prompt: false,
        idle_s: 300,
        silence_limit_s: 600,
        turn_limit_s: 0,
    }
}
