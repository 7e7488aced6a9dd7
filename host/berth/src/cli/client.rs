//! How a command reaches a running Core: through `/core/v1` with the Core key, never past the server into its database.

use crate::data_dir::{self, Recorded};
use anyhow::{Context, bail};
use clap::Args;
use domain::Secret;
use machine::socket::Way;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every command asks for one small thing.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Which Core.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// Data folder of the Core: its socket and Core key are found there.
    #[arg(long, value_name = "D", default_value = data_dir::DEFAULT)]
    pub data_dir: PathBuf,
    #[command(flatten)]
    pub elsewhere: Elsewhere,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A Core that is reached by its address.
#[derive(Debug, Clone, Default, Args)]
pub struct Elsewhere {
    /// Address of the Core instead, for one that runs elsewhere.
    #[arg(long, requires = "core_key_file")]
    url: Option<url::Url>,
    /// File with the Core key of that Core.
    #[arg(long, requires = "url", value_name = "FILE")]
    core_key_file: Option<PathBuf>,
}

impl Elsewhere {
    /// The Core at that address, if one is named.
    ///
    /// # Errors
    /// See [`Target::core`].
    pub fn core(&self) -> anyhow::Result<Option<Core>> {
        if self.url.is_none() {
            return Ok(None);
        }
        let target = Target {
            data_dir: PathBuf::new(),
            elsewhere: self.clone(),
            json: false,
        };
        target.core().map(Some)
    }
}

/// A Core that answers.
pub struct Core {
    http: reqwest::Client,
    /// What `http` goes through.
    _way: Option<Way>,
    origin: String,
    key: Secret,
    whence: String,
}

impl Target {
    /// The Core of this data folder.
    pub fn of(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_path_buf(),
            elsewhere: Elsewhere::default(),
            json: false,
        }
    }

    /// Finds the Core and its key.
    ///
    /// # Errors
    /// No Core runs on the data folder, or the key cannot be read.
    pub fn core(&self) -> anyhow::Result<Core> {
        let mut way = None;
        let (origin, key, whence) = match (&self.elsewhere.url, &self.elsewhere.core_key_file) {
            (Some(url), Some(file)) => {
                if !net::keeps_secrets(url) {
                    bail!(
                        "{url} would send the Core key in clear over a network; use https, or http to this machine (127.0.0.1), for example through `ssh -L`"
                    );
                }
                (url.to_string(), file.clone(), "given by --url".to_owned())
            }
            _ => {
                let Recorded { url, pid, .. } = data_dir::recorded(&self.data_dir)?;
                // Never to the recorded port: of a Core that was killed, anybody may have it.
                let socket = berth_core::socket(&self.data_dir);
                way = Some(Way::to(&socket).with_context(|| {
                    format!("{} is missing; restart the Core", socket.display())
                })?);
                (
                    url,
                    self.data_dir.join(data_dir::CORE_KEY),
                    format!(
                        "recorded by process {pid} in {0}; `berth serve --data-dir {0}` starts one",
                        self.data_dir.display()
                    ),
                )
            }
        };
        let key = data_dir::read_secret(&key)?;
        let mut http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(ANSWER_WITHIN);
        if let Some(way) = &way {
            http = http.unix_socket(way.path());
        }
        Ok(Core {
            http: http.build()?,
            _way: way,
            origin: origin.trim_end_matches('/').to_owned(),
            key,
            whence,
        })
    }
}

impl Core {
    /// `GET` below `/core/v1`.
    ///
    /// # Errors
    /// See [`Core::send`].
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::GET, path, None).await
    }

    /// Follows a list to its end.
    ///
    /// # Errors
    /// See [`Core::send`].
    pub async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.get(&format!("{path}?limit=100{after}")).await?;
            let data = page["data"].as_array().cloned().unwrap_or_default();
            let last = data
                .last()
                .map(|item| item["id"].as_str().unwrap_or_default().to_owned());
            all.extend(data);
            match last {
                Some(id) if page["has_more"] == true => after = format!("&after={id}"),
                _ => return Ok(all),
            }
        }
    }

    /// Sends one request and gives back the body of a 2xx answer (null when it has none).
    ///
    /// # Errors
    /// The Core does not answer, or refuses; the sentence says which and what to do.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let Some(key) = self.key.as_str() else {
            bail!("the Core key is not text")
        };
        let mut request = self
            .http
            .request(method.clone(), format!("{}/core/v1{path}", self.origin))
            .bearer_auth(key);
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let response = request.send().await.map_err(|error| {
            if error.is_connect() {
                anyhow::anyhow!("no Core answers at {} ({})", self.origin, self.whence)
            } else {
                anyhow::Error::new(error).context(format!(
                    "the Core at {} did not answer {method} {path}",
                    self.origin
                ))
            }
        })?;
        let status = response.status();
        let bytes = response
            .bytes()
            .await
            .with_context(|| format!("the answer to {method} {path} broke off"))?;
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(body);
        }
        let message = body["error"]["message"]
            .as_str()
            .unwrap_or("no reason given");
        match status {
            StatusCode::UNAUTHORIZED => bail!(
                "the Core at {} refuses this Core key ({message}); use the `core-key` file of its data folder",
                self.origin
            ),
            StatusCode::NOT_FOUND => Err(NotFound(format!(
                "{message} ({}, {status}): {method} /core/v1{path}",
                body["error"]["code"].as_str().unwrap_or("no code")
            ))
            .into()),
            _ => bail!(
                "{message} ({}, {status})",
                body["error"]["code"].as_str().unwrap_or("no code")
            ),
        }
    }
}

/// The Core has no such thing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotFound(String);

/// An error of a command that named something by its id: where the Core does not have it, `known` says how to find what it has.
pub fn unless_found(error: anyhow::Error, what: &str, known: &str) -> anyhow::Error {
    match error.downcast_ref::<NotFound>() {
        Some(_) => anyhow::anyhow!("there is no {what}; {known} shows those that there are"),
        None => error,
    }
}

/// The Project that a command means: by its id, by its name if only one has it, else the one called `default`.
///
/// # Errors
/// There is none of this name, or there are several.
pub async fn project(core: &Core, given: Option<&str>) -> anyhow::Result<String> {
    if let Some(id) = given.and_then(|given| given.parse::<uuid::Uuid>().ok()) {
        return Ok(id.to_string());
    }
    let name = given.unwrap_or("default");
    let projects = core.list("/projects").await?;
    let mut found: Vec<&Value> = projects
        .iter()
        .filter(|project| project["name"] == name && project["archived_at"].is_null())
        .collect();
    // Names may repeat (OPS-031); without a word the first `default` is meant, which came with the installation.
    found.sort_by_key(|project| project["created_at"].as_str());
    if given.is_none() {
        found.truncate(1);
    }
    let ids: Vec<&str> = found
        .iter()
        .filter_map(|project| project["id"].as_str())
        .collect();
    match ids.as_slice() {
        [id] => Ok((*id).to_owned()),
        [] => bail!(
            "there is no Project called `{name}`; `berth project list` shows those that there are"
        ),
        several => bail!(
            "several Projects are called `{name}`; name one by its id: {}",
            several.join(", ")
        ),
    }
}
