//! Creating Sessions with 16 connections: against bare commits on a slow disk, and against the bare unit on this one.
//!
//! The Sessions have no Environment, so no machine is made, and the one slot of execution is taken by a Turn that hangs: what is
//! measured is admission, not what follows it.

use super::{AsyncWork, CONNECTIONS, rate};
use crate::ceiling::{Pairs, slow_commits};
use crate::effort::Effort;
use crate::harness::timeline;
use crate::http::Connection;
use crate::report::Line;
use crate::server::{MODEL, Options, Programs, Server, creation};
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use domain::agent::{AgentConfiguration, AgentPatch};
use domain::configuration::{EnvironmentConfiguration, SessionConfiguration, Source};
use domain::item::{InputPart, UserMessage};
use domain::json::Opaque;
use domain::metadata::Metadata;
use domain::session::{Connector, NewSession, Placement};
use domain::{AgentId, ConfigurationId, KeyId, ProjectId, SessionId};
use hyper::Method;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use store::configurations::NewConfiguration;
use store::projects::CreateProject;
use store::provenance::Provenance;
use store::units::create::CreateSession;
use store::{KeyRing, Location, ServiceKey, Store, StoreSettings};
use uuid::Uuid;

/// What each fsync of the slow disk takes longer.
const SLOW: Duration = Duration::from_millis(4);
/// Of the bare commits on the slow disk: group commit must show.
const OF_COMMITS: f64 = 3.0;
/// Of the bare unit on this disk.
const OF_UNIT: f64 = 0.6;
/// What each Session is asked.
const MESSAGE: &str = "hello";

#[derive(Clone)]
struct Post(Bytes);

impl AsyncWork<Connection> for Post {
    async fn once(&self, on: &mut Connection) -> Result<()> {
        let path = "/v1/agents/sessions";
        on.ask(Method::POST, path, self.0.clone()).await?;
        Ok(())
    }
}

pub(super) async fn measure(programs: &Programs, effort: Effort) -> Result<Vec<Line>> {
    Ok(vec![
        on_a_slow_disk(programs, effort).await?,
        on_this_disk(programs, effort).await?,
    ])
}

/// A Core whose only slot of execution is taken, and the connections of the load.
async fn busy(
    programs: &Programs,
    fsync_delay: Option<Duration>,
) -> Result<(Server, Vec<Connection>)> {
    let options = Options {
        concurrency: 1,
        fsync_delay,
    };
    let server = Server::start(programs, options).await?;
    let mut events = server
        .create("none", &timeline(&json!([{"begin": "busy"}, "hang"])))
        .await?;
    events.until(&["output_text.delta"]).await?;
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        connections.push(server.connect().await?);
    }
    Ok((server, connections))
}

fn post() -> Result<Post> {
    Ok(Post(serde_json::to_vec(&creation("none", MESSAGE))?.into()))
}

async fn on_a_slow_disk(programs: &Programs, effort: Effort) -> Result<Line> {
    let (server, mut connections) = busy(programs, Some(SLOW)).await?;
    let bare = programs.folder()?;
    let mut pairs = Pairs::default();
    for _ in 0..effort.rounds {
        let figure;
        (figure, connections) = rate(connections, effort.span, post()?).await?;
        let commits = slow_commits(&programs.bench, bare.path(), effort.span, SLOW).await?;
        pairs.add(figure, commits);
    }
    drop(connections);
    server.stop().await?;
    let (figure, ceiling, ratio) = pairs.medians();
    let row = "Session creates, 16 connections, each fsync 4 ms longer";
    let ceiling = ("bare commits, one by one", ceiling);
    Ok(Line::rate(row, figure, ceiling, ratio, OF_COMMITS))
}

async fn on_this_disk(programs: &Programs, effort: Effort) -> Result<Line> {
    let (server, mut connections) = busy(programs, None).await?;
    let bare = programs.folder()?;
    let unit = Unit::open(bare.path()).await?;
    let mut pairs = Pairs::default();
    for _ in 0..effort.rounds {
        let figure;
        (figure, connections) = rate(connections, effort.span, post()?).await?;
        let (units, _) = rate(vec![(); CONNECTIONS], effort.span, unit.clone()).await?;
        pairs.add(figure, units);
    }
    drop(connections);
    unit.store.close().await;
    server.stop().await?;
    let (figure, ceiling, ratio) = pairs.medians();
    let row = "Session creates, 16 connections, this disk";
    let ceiling = ("bare store unit, 16 callers", ceiling);
    Ok(Line::rate(row, figure, ceiling, ratio, OF_UNIT))
}

/// The unit behind a creation, by itself.
#[derive(Clone)]
struct Unit {
    store: Store,
    project: ProjectId,
    key: KeyId,
    configuration: SessionConfiguration,
}

impl Unit {
    async fn open(folder: &std::path::Path) -> Result<Self> {
        let key = ServiceKey::from_bytes(&[7; 32])?;
        let location = Location::File(folder.join("unit.db"));
        let settings = StoreSettings::new(location, Arc::new(KeyRing::new(key)));
        let store = Store::open(settings).await?;
        let project = ProjectId::new(Uuid::new_v4());
        let create = CreateProject {
            id: project,
            name: "bench".to_owned(),
            by: None,
        };
        store
            .write(create)
            .await
            .map_err(|error| anyhow!("{error:?}"))?;
        Ok(Self {
            store,
            project,
            key: KeyId::new(Uuid::new_v4()),
            configuration: configuration()?,
        })
    }
}

impl AsyncWork<()> for Unit {
    async fn once(&self, (): &mut ()) -> Result<()> {
        let new = NewSession {
            id: SessionId::new(Uuid::new_v4()),
            project_id: self.project,
            agent_id: self.configuration.agent_id,
            configuration: ConfigurationId::new(Uuid::new_v4()),
            placement: Placement::None,
            connector: Connector::Daemon,
            metadata: Metadata::default(),
            vault_ids: Vec::new(),
            input: vec![UserMessage {
                content: vec![InputPart::InputText {
                    text: MESSAGE.to_owned(),
                }],
            }],
        };
        let unit = CreateSession {
            configuration: NewConfiguration {
                id: new.configuration,
                body: self.configuration.clone(),
                provider_key: Some("sk-nobody-asks".to_owned().into()),
                environment_secrets: None,
            },
            new,
            key: None,
            provenance: Some(Provenance {
                key: self.key,
                request_id: Some(Uuid::new_v4().to_string()),
                trace_id: None,
            }),
        };
        let created = self.store.write(unit).await;
        created
            .map(drop)
            .map_err(|error| anyhow!("the unit failed: {error:?}"))
    }
}

fn configuration() -> Result<SessionConfiguration> {
    let hash = json!("0".repeat(64));
    Ok(SessionConfiguration {
        agent_id: AgentId::new(Uuid::new_v4()),
        agent_name: None,
        agent: AgentConfiguration::from_patch(AgentPatch::default(), MODEL.to_owned()),
        harness: "codex".parse().ok().context("a harness id")?,
        declaration_hash: serde_json::from_value(hash)?,
        harness_config: Opaque::empty_object(),
        provider: None,
        provider_source: Source::Deployment,
        shows_extension: false,
        environment: EnvironmentConfiguration::None,
    })
}
