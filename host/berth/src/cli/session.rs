//! `berth session`: what an operator needs to know about Sessions, and why one failed; never what was said in it (OPS-008, OPS-050 to 054).

use super::client::{Core, NotFound, Target, project, unless_found};
use super::{advice, show};
use crate::out;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::time::Duration;

/// OPS-008: administrators have no event stream, so `watch` looks again at this pace.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What to look at.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Every Session of the Project.
    List(Which),
    /// One Session: its state, its Environment, its last Turns and the cause of its last failure.
    Show {
        /// The Session's id.
        id: String,
        #[command(flatten)]
        which: Which,
    },
    /// The same, one line for each change, until Ctrl-C or until the Session is deleted.
    Watch {
        /// The Session's id.
        id: String,
        #[command(flatten)]
        which: Which,
    },
}

/// Whose Sessions.
#[derive(Debug, Args)]
pub struct Which {
    /// The Project, by id or name; the one called `default` when left out.
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// The Core cannot be reached or refuses.
pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List(which) => list(&which).await,
        Command::Show { id, which } => {
            let core = which.target.core()?;
            let project = project(&core, which.project.as_deref()).await?;
            let looked = look(&core, &project, &id).await;
            let picture = looked.map_err(|error| missing(error, &project, &id))?;
            if which.target.json {
                show::json(&picture);
            } else {
                print_picture(&picture);
            }
            Ok(())
        }
        Command::Watch { id, which } => watch(&id, &which).await,
    }
}

async fn list(which: &Which) -> anyhow::Result<()> {
    let core = which.target.core()?;
    let project = project(&core, which.project.as_deref()).await?;
    let sessions = core.list(&format!("/projects/{project}/sessions")).await?;
    if which.target.json {
        show::json(&json!(sessions));
        return Ok(());
    }
    let rows: Vec<_> = sessions
        .iter()
        .map(|session| {
            vec![
                show::text(&session["id"]),
                show::text(&session["status"]),
                show::text(&session["environment"]["type"]),
                show::text(&session["agent"]["model"]),
                show::time(&session["created_at"]),
            ]
        })
        .collect();
    show::table(&["id", "status", "environment", "model", "created"], &rows);
    Ok(())
}

fn missing(error: anyhow::Error, project: &str, id: &str) -> anyhow::Error {
    let what = format!("Session {id} in Project {project}");
    unless_found(error, &what, "`berth session list`")
}

/// Everything that an operator may see of one Session.
async fn look(core: &Core, project: &str, id: &str) -> anyhow::Result<Value> {
    let base = format!("/projects/{project}/sessions/{id}");
    let session = core.get(&base).await?;
    let diagnostics = core.get(&format!("{base}/diagnostics")).await?;
    let turns = core
        .get(&format!("{base}/turns?limit=10&order=desc"))
        .await?;
    let mut shown = Vec::new();
    for turn in turns["data"].as_array().into_iter().flatten() {
        shown.push(json!({
            "id": turn["id"], "status": turn["status"], "created_at": turn["created_at"],
            "completed_at": turn["completed_at"], "cause": cause(core, &base, turn).await?,
        }));
    }
    Ok(json!({
        "id": session["id"], "status": session["status"], "created_at": session["created_at"], "environment": session["environment"],
        "usage": session["usage"], "diagnostics": diagnostics, "turns": shown,
    }))
}

/// Code of a failed Turn, also when later ones went well (OPS-053).
async fn cause(core: &Core, base: &str, turn: &Value) -> anyhow::Result<Value> {
    if turn["status"] != "failed" {
        return Ok(Value::Null);
    }
    let id = show::text(&turn["id"]);
    let diagnostics = core.get(&format!("{base}/turns/{id}/diagnostics")).await?;
    Ok(diagnostics["failure"]["code"].clone())
}

fn print_picture(picture: &Value) {
    say!("session      {}", show::text(&picture["id"]));
    say!("status       {}", show::text(&picture["status"]));
    say!("created      {}", show::time(&picture["created_at"]));
    say!(
        "environment  {} {} {}",
        show::text(&picture["environment"]["type"]),
        show::text(&picture["environment"]["id"]),
        show::text(&picture["diagnostics"]["environment_status"])
    );
    for (name, plugin) in [
        ("adapter", &picture["diagnostics"]["adapter"]),
        ("provider", &picture["diagnostics"]["provider"]),
    ] {
        if plugin.is_object() {
            say!("{name:<12} {}", plugin_line(plugin));
        }
    }
    let failure = &picture["diagnostics"]["failure"];
    if failure.is_object() {
        say!(
            "failure      {} ({}) at {}",
            show::text(&failure["code"]),
            show::text(&failure["source"]),
            show::time(&failure["failed_at"])
        );
        if let Some(reason) = failure["reason"].as_str() {
            say!("             {reason}");
        }
        say_advice(failure);
        if failure["params"]
            .as_object()
            .is_some_and(|params| params.values().any(|value| !value.is_null()))
        {
            say!("             {}", failure["params"]);
        }
    }
    let waiting = &picture["diagnostics"]["waiting"];
    if waiting.is_object() {
        let until = match waiting["expires_at"].as_str() {
            Some(_) => format!(", until {}", show::time(&waiting["expires_at"])),
            None => String::new(),
        };
        say!(
            "waits        {} (harness {}){until}",
            show::text(&waiting["code"]),
            show::text(&waiting["harness"])
        );
        say_advice(waiting);
    }
    for turn in picture["turns"].as_array().into_iter().flatten() {
        let cause = match turn["cause"].as_str() {
            Some(code) => format!("  {code}"),
            None => String::new(),
        };
        say!(
            "turn         {}  {:<12} {}{cause}",
            show::text(&turn["id"]),
            show::text(&turn["status"]),
            show::time(&turn["created_at"])
        );
    }
}

/// Why a Session of the Project `default` failed and what to do, in one sentence each; none where nobody can tell.
pub async fn why(core: &Core, id: &str) -> Option<String> {
    let project = project(core, None).await.ok()?;
    let path = format!("/projects/{project}/sessions/{id}/diagnostics");
    let diagnostics = core.get(&path).await.ok()?;
    let failure = &diagnostics["failure"];
    let mut lines = vec![failure["code"].as_str()?.to_owned()];
    lines.extend(advice_on(failure));
    Some(lines.join("\n  "))
}

fn say_advice(about: &Value) {
    for line in advice_on(about) {
        say!("             {line}");
    }
}

/// What a failure or a wait means and what to do. In the page a command names no particular harness.
fn advice_on(about: &Value) -> Vec<String> {
    let status = about["params"]["http_status"].as_u64();
    let harness = about["harness"].as_str().unwrap_or("HARNESS");
    let lines = advice::lines(&show::text(&about["code"]), status).into_iter();
    lines.map(|line| line.replace("HARNESS", harness)).collect()
}

/// Id, version and digest of a plugin.
fn plugin_line(plugin: &Value) -> String {
    let file = match plugin["digest"].as_str() {
        Some(digest) => format!("file {digest}"),
        None => "built in".to_owned(),
    };
    let (id, version) = (show::text(&plugin["id"]), show::text(&plugin["version"]));
    format!("{id} {version}, {file}")
}

async fn watch(id: &str, which: &Which) -> anyhow::Result<()> {
    let core = which.target.core()?;
    let project = project(&core, which.project.as_deref()).await?;
    let mut before = Value::Null;
    loop {
        let picture = match look(&core, &project, id).await {
            Err(error) if !before.is_null() && error.is::<NotFound>() => {
                // Not our answer to give in the form of the others: there is no Session any more.
                if !which.target.json {
                    say!("the Session is deleted");
                }
                return Ok(());
            }
            looked => looked.map_err(|error| missing(error, &project, id))?,
        };
        if picture != before {
            if which.target.json {
                say!("{picture}");
            } else {
                let turn = &picture["turns"][0];
                say!(
                    "{}  session {}  environment {}  turn {}  cause {}  waits {}",
                    jiff::Timestamp::now().strftime("%H:%M:%S"),
                    show::text(&picture["status"]),
                    show::text(&picture["diagnostics"]["environment_status"]),
                    show::text(&turn["status"]),
                    show::text(&picture["diagnostics"]["failure"]["code"]),
                    show::text(&picture["diagnostics"]["waiting"]["code"]),
                );
            }
            before = picture;
        }
        if out::is_closed() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}
