//! The demo as a client of the public API, with the first Project's key.

use anyhow::Context;
use domain::Secret;
use reqwest::{Client, Method, RequestBuilder};
use std::time::Duration;

/// Longer silence than this means that the server is gone: a stream sends a comment well before.
const SILENCE: Duration = Duration::from_secs(120);

/// A server and a key for it.
pub struct Api {
    http: Client,
    origin: String,
    key: Secret,
}

impl Api {
    /// A client of the server at that origin.
    ///
    /// # Errors
    /// The TLS library cannot be used.
    pub fn new(origin: &str, key: Secret) -> anyhow::Result<Self> {
        let http = Client::builder().no_proxy().read_timeout(SILENCE).build()?;
        Ok(Self {
            http,
            origin: origin.to_owned(),
            key,
        })
    }

    /// A request below `/v1/agents/sessions`.
    ///
    /// # Errors
    /// The key is not text.
    pub fn sessions(&self, method: Method, below: &str) -> anyhow::Result<RequestBuilder> {
        let url = format!("{}/v1/agents/sessions{below}", self.origin);
        let key = self.key.as_str().context("the API key is not text")?;
        Ok(self
            .http
            .request(method, url)
            .bearer_auth(key)
            .header("openai-beta", "agents=v1")
            .header("content-type", "application/json"))
    }
}
