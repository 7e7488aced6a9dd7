//! `berth model`: the deployment default of a harness (DEF-001).

use super::client::{Target, unless_found};
use super::show;
use crate::data_dir::read_secret;
use anyhow::{Context, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use domain::key::is_ours;
use domain::run::ModelProtocol;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::PathBuf;

/// What to do with the default.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set the model, its provider and its key for Agents and Sessions that name none.
    Set(Set),
    /// Show each harness and its default; never a key.
    Show {
        #[command(flatten)]
        target: Target,
    },
    /// Remove the default.
    Clear {
        /// Harness id, such as `codex`.
        #[arg(long)]
        harness: String,
        #[command(flatten)]
        target: Target,
    },
}

/// The complete default of one harness.
#[derive(Debug, Args)]
pub struct Set {
    /// Harness id, such as `codex`.
    #[arg(long)]
    harness: String,
    /// Protocol that the provider speaks.
    #[arg(long, value_parser = PossibleValuesParser::new(ModelProtocol::ALL.map(ModelProtocol::as_str)))]
    protocol: String,
    /// The provider's address, https (MDL-002).
    #[arg(long)]
    base_url: String,
    /// The provider's exact model id (MDL-005).
    #[arg(long)]
    model: String,
    /// File with the provider's key; it is sealed before it is stored.
    #[arg(long, value_name = "FILE")]
    api_key_file: PathBuf,
    /// Tokens that fit into the model's context.
    #[arg(long, value_name = "N")]
    context_window: Option<u64>,
    /// Most tokens of one answer.
    #[arg(long, value_name = "N")]
    max_output_tokens: Option<u64>,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// The Core cannot be reached or refuses, or the key file is unusable.
pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Set(set) => self::set(set).await,
        Command::Show { target } => show_all(&target).await,
        Command::Clear { harness, target } => {
            target
                .core()?
                .send(Method::DELETE, &path(&harness), None)
                .await
                .map_err(|error| missing(error, &harness))?;
            if target.json {
                show::json(&json!({"harness": harness, "model_configuration": null}));
            } else {
                say!("{harness} has no default model now");
            }
            Ok(())
        }
    }
}

fn missing(error: anyhow::Error, harness: &str) -> anyhow::Error {
    let what = format!("harness `{harness}` in this Core");
    unless_found(error, &what, "`berth model show`")
}

fn path(harness: &str) -> String {
    format!("/harnesses/{harness}/model-configuration")
}

async fn set(set: Set) -> anyhow::Result<()> {
    let key = read_secret(&set.api_key_file)?;
    let key = key.as_str().context("the key file is not text")?;
    if is_ours(key) {
        bail!(
            "{} holds a key of Berth, not one of a model provider; a model provider must never see it",
            set.api_key_file.display()
        );
    }
    let body = configuration(&set, key);
    let answer = set
        .target
        .core()?
        .send(Method::PUT, &path(&set.harness), Some(&body))
        .await
        .map_err(|error| missing(error, &set.harness))?;
    if set.target.json {
        show::json(&answer);
    } else {
        say!(
            "{} uses {} at {} where nothing else is named",
            set.harness,
            set.model,
            set.base_url
        );
    }
    Ok(())
}

fn configuration(set: &Set, key: &str) -> Value {
    let mut provider = json!({"protocol": set.protocol, "base_url": set.base_url, "api_key": key});
    if let Some(tokens) = set.context_window {
        provider["context_window"] = json!(tokens);
    }
    if let Some(tokens) = set.max_output_tokens {
        provider["max_output_tokens"] = json!(tokens);
    }
    json!({"model_provider": provider, "model": set.model})
}

async fn show_all(target: &Target) -> anyhow::Result<()> {
    let harnesses = target.core()?.get("/harnesses").await?;
    if target.json {
        show::json(&harnesses);
        return Ok(());
    }
    let rows: Vec<_> = harnesses["data"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|harness| {
            let configuration = &harness["model_configuration"];
            let provider = &configuration["model_provider"];
            vec![
                show::text(&harness["id"]),
                show::text(&configuration["model"]),
                show::text(&provider["protocol"]),
                show::text(&provider["base_url"]),
                if provider["api_key_configured"] == true {
                    "yes"
                } else {
                    "-"
                }
                .to_owned(),
            ]
        })
        .collect();
    show::table(&["harness", "model", "protocol", "base url", "key"], &rows);
    Ok(())
}
