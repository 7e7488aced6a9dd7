//! `berth demo`: the main job of the product in one command, and the scripted model that it uses when there is no other.
//!
//! It uses nothing that a user does not have: the installer, a Core on SQLite, the HTTP API with the API key. What it installs stays in
//! its folder, so a second run finds Codex installed and the same address. Its Session ends with it, so that nothing keeps running.

mod api;
pub mod model_server;
mod ports;
mod stages;
mod tidy;
mod watch;

use crate::cli::{self, Target};
use crate::data_dir::{self, HARNESSES, read_secret};
use crate::install::{self, Installed};
use anyhow::{Context, bail};
use api::Api;
use clap::Args;
use domain::Secret;
use domain::key::is_ours;
use model_server::{ModelServer, Script};
use ports::Ports;
use serde_json::json;
use stages::Stages;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tokio_util::sync::CancellationToken;

/// The harness that the demo shows.
const HARNESS: &str = "codex";
/// The variable with the provider's key. `OPENAI_API_KEY` is never looked at: our own README tells people to put a Berth key there.
const KEY_VARIABLE: &str = "BERTH_DEMO_MODEL_KEY";
const SCRIPTED_MODEL: &str = "scripted";
/// The scripted model wants a key like any other, to show that it arrives.
const SCRIPTED_KEY: &str = "scripted-model-key";
const TASK: &str = "Find out which system this workspace runs on: run one shell command, write its answer to system.txt, and tell me.";

/// Settings of the demo.
#[derive(Debug, Args)]
pub struct Options {
    /// Folder of the demo; a second run reuses it.
    #[arg(long, value_name = "D", default_value = "berth-demo")]
    data_dir: PathBuf,
    /// Use this model instead of the scripted one; its provider's key is read from BERTH_DEMO_MODEL_KEY.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Address of that model's provider.
    #[arg(
        long,
        value_name = "URL",
        requires = "model",
        default_value = "https://api.openai.com/v1"
    )]
    base_url: String,
    /// End when the answer is there, instead of serving on.
    #[arg(long)]
    exit: bool,
}

/// Where the answers come from.
struct Model {
    name: String,
    base_url: String,
    key: Secret,
    /// Kept alive as long as the demo.
    scripted: Option<ModelServer>,
}

/// Runs the demo.
///
/// # Errors
/// A stage failed; the sentence says which and what to do.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let key = provider_key(&options)?;
    let folder = data_dir::open(&options.data_dir)?;
    let mut ports = Ports::load(&folder);
    let mut stages = Stages::start();

    say!("1. install {HARNESS}");
    let harness = cli::find_harness(HARNESS, &options.data_dir)?;
    match install::install(&harness.install, None, &folder.join(HARNESSES)).await? {
        Installed::New(path) => say!("   installed in {}", path.display()),
        Installed::Already(path) => say!("   already installed in {}", path.display()),
    }
    stages.done("install");

    say!("2. start a server on SQLite");
    let model = model(&options, key, &mut ports).await?;
    let settings = core_options(&options, &ports)?;
    let sandboxes = cli::sandboxes(&settings, &folder)?;
    let running = cli::start_core(settings, CancellationToken::new()).await?;
    let origin = cli::origin(&running.ready);
    ports.server = Some(running.ready.address.port());
    ports.save(&folder)?;
    // A signal ends the demo; the Core ends after the demo's Session, which needs it.
    let asked = CancellationToken::new();
    cli::drain_on_signal(asked.clone())?;
    say!("   berth is ready on {origin}");
    stages.done("start the server");

    let installation = running.installation.to_string();
    let api = Api::new(&origin, read_secret(&running.api_key_file)?)?;
    let made = OnceLock::new();
    let stop = running.stop.clone();
    let ended = async {
        tokio::select! {
            () = asked.cancelled() => {}
            () = stop.cancelled() => {}
        }
    };
    let mut ended = std::pin::pin!(ended);
    let result = tokio::select! {
        result = show(&options, &running, &api, &model, &mut stages, &made) => result,
        () = ended.as_mut() => Err(anyhow::anyhow!("stopped before the answer was there")),
    };
    if result.is_ok() && !options.exit {
        say!("\nserving on {origin} until Ctrl-C");
        ended.await;
    }
    let removed = match made.get() {
        Some(session) if !stop.is_cancelled() => {
            say!("\nremoving the demo's Session {session}");
            let removed = tidy::remove(&api, &sandboxes, &installation, session).await;
            removed.with_context(|| format!("the demo's Session {session} is left behind"))
        }
        _ => Ok(()),
    };
    stop.cancel();
    let core = running.task.await.context("the Core broke")?;
    drop(model.scripted);
    say_what_remains(&folder, &tidy::running(&sandboxes, &installation)?);
    result.and(removed).and(core)
}

/// Sandboxes outlive the Core, so that a restart interrupts nobody; those of a user's own Sessions are not the demo's to end.
fn say_what_remains(folder: &Path, sessions: &[String]) {
    if sessions.is_empty() {
        return;
    }
    say!(
        "the sandboxes of these Sessions still run, and a server on {} finds them again; deleting a Session ends its sandbox:",
        folder.display()
    );
    for session in sessions {
        say!("  {session}");
    }
}

/// One Session from creation to its answer, then what the user needs next.
async fn show(
    options: &Options,
    running: &cli::Running,
    api: &Api,
    model: &Model,
    stages: &mut Stages,
    made: &OnceLock<String>,
) -> anyhow::Result<()> {
    let core = Target::of(&options.data_dir).core()?;
    let provider = json!({"protocol": "responses", "base_url": model.base_url, "api_key": model.key.as_str().context("the model key is not text")?});
    let default = json!({"model_provider": provider, "model": model.name});
    core.send(
        reqwest::Method::PUT,
        &format!("/harnesses/{HARNESS}/model-configuration"),
        Some(&default),
    )
    .await
    .context("cannot set the demo's model")?;

    say!("3. run a Session: {TASK}");
    let body = json!({"agent": {"model": model.name}, "environment": {"type": "openai_hosted"}, "input": TASK, "stream": true});
    let answer = match watch::session(api, &body, stages, made).await {
        Ok(answer) => answer,
        Err(error) => {
            let why = match made.get() {
                Some(session) => cli::why(&core, session).await,
                None => None,
            };
            return Err(match why {
                Some(why) => anyhow::anyhow!("{error:#}\n  {why}"),
                None => error,
            });
        }
    };
    say!("\nfinal answer: {answer}\n");
    say!("{}", stages.table().trim_end());

    let (origin, api_key_file) = (cli::origin(&running.ready), &running.api_key_file);
    let shown = if std::io::stdout().is_terminal() {
        let key = read_secret(api_key_file)?;
        key.as_str().unwrap_or_default().to_owned()
    } else {
        format!("in {}", api_key_file.display())
    };
    say!("\nbase URL  {origin}/v1");
    say!("API key   {shown}");
    say!("program   save this as hello.py; `pip install openai` and `python hello.py` run it:\n");
    say!("{}", program(&origin, api_key_file, &model.name));
    Ok(())
}

fn program(origin: &str, api_key_file: &Path, model: &str) -> String {
    format!(
        "  from openai import OpenAI\n  client = OpenAI(base_url=\"{origin}/v1\", api_key=open({:?}).read())\n  \
         session = {{\"agent\": {{\"model\": \"{model}\"}}, \"environment\": {{\"type\": \"openai_hosted\"}}, \"input\": \"Say hello.\"}}\n  \
         for event in client.beta.agents.sessions.create(**session, stream=True):\n      print(event.type, getattr(event, \"delta\", \"\"))",
        api_key_file.display().to_string()
    )
}

/// The provider's key, checked before anything is done.
fn provider_key(options: &Options) -> anyhow::Result<Option<Secret>> {
    let Some(model) = &options.model else {
        return Ok(None);
    };
    let key = std::env::var(KEY_VARIABLE).unwrap_or_default();
    if key.trim().is_empty() {
        bail!(
            "--model {model} needs its provider's key in {KEY_VARIABLE}; without --model, the demo uses a scripted model on this machine"
        );
    }
    if is_ours(&key) {
        bail!(
            "{KEY_VARIABLE} holds a key of Berth, not one of a model provider; a model provider must never see it"
        );
    }
    Ok(Some(Secret::new(key.trim())))
}

async fn model(options: &Options, key: Option<Secret>, ports: &mut Ports) -> anyhow::Result<Model> {
    if let (Some(name), Some(key)) = (&options.model, key) {
        say!("   the model is {name} at {}", options.base_url);
        return Ok(Model {
            name: name.clone(),
            base_url: options.base_url.clone(),
            key,
            scripted: None,
        });
    }
    let script =
        Script::parse(include_str!("script.json")).context("the demo's script is invalid")?;
    let port = ports::still_free(ports.model);
    let server = ModelServer::start(([127, 0, 0, 1], port).into(), script).await?;
    ports.model = Some(server.address().port());
    say!(
        "   there is no model (--model NAME), so a scripted one answers on this machine: it is no intelligence, everything else is real"
    );
    Ok(Model {
        name: SCRIPTED_MODEL.to_owned(),
        base_url: server.base_url(),
        key: Secret::new(SCRIPTED_KEY),
        scripted: Some(server),
    })
}

/// The settings of a Core as the command line would have them.
fn core_options(options: &Options, ports: &Ports) -> anyhow::Result<cli::ServeOptions> {
    let mut core = cli::ServeOptions::defaults()?;
    core.data_dir.clone_from(&options.data_dir);
    core.listen = ([127, 0, 0, 1], ports::still_free(ports.server)).into();
    core.allow_loopback_model_urls =
        options.model.is_none() || options.base_url.starts_with("http://");
    core.log.log_level = "warn".to_owned();
    core.log.start()?;
    Ok(core)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_script_is_valid_and_answers_the_task() {
        let script = Script::parse(include_str!("script.json")).unwrap();
        let replies = script.replies(TASK);
        assert_eq!(replies.len(), 2);
        assert_eq!(replies[0].calls(), 1);
    }

    #[test]
    fn the_program_has_five_lines() {
        assert_eq!(
            program("http://x", Path::new("/d/api-key"), "m")
                .lines()
                .count(),
            5
        );
    }
}
