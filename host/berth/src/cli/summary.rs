//! `berth summary`: what Projects hold and use, through `/core/v1/summary` (OPS-070).

use super::client::{Target, project};
use super::show;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

/// What is asked.
#[derive(Debug, Args)]
#[group(id = "summary")]
pub struct Options {
    /// One Project, by id or name; all of them when left out.
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// A row for each Project, or for each Agent or creating key of it.
    #[arg(long, default_value = "project", value_name = "WHAT")]
    by: By,
    /// Sessions made at this moment or later (RFC 3339).
    #[arg(long, value_name = "TIME")]
    since: Option<jiff::Timestamp>,
    /// Sessions made before this moment.
    #[arg(long, value_name = "TIME")]
    until: Option<jiff::Timestamp>,
    #[command(flatten)]
    target: Target,
}

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// A Project.
    Project,
    /// An Agent of one Project.
    Agent,
    /// The key that created the Sessions.
    Key,
}

impl By {
    fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Agent => "agent",
            Self::Key => "key",
        }
    }
}

/// Runs the command.
///
/// # Errors
/// The Core cannot be reached or refuses.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let core = options.target.core()?;
    let mut query = format!("group_by={}&limit=100&order=asc", options.by.word());
    // The rows of Agents are of one Project.
    if options.project.is_some() || options.by == By::Agent {
        let id = project(&core, options.project.as_deref()).await?;
        query.push_str(&format!("&project_id={id}"));
    }
    for (name, moment) in [
        ("created_after", options.since),
        ("created_before", options.until),
    ] {
        if let Some(moment) = moment {
            query.push_str(&format!("&{name}={moment}"));
        }
    }
    let mut rows: Vec<Value> = Vec::new();
    let mut after = String::new();
    loop {
        let page = core.get(&format!("/summary?{query}{after}")).await?;
        rows.extend(page["data"].as_array().cloned().unwrap_or_default());
        // Every Project of a page has a row.
        match rows.last().map(|row| show::text(&row["project_id"])) {
            Some(last) if page["has_more"] == true => after = format!("&after={last}"),
            _ => break,
        }
    }
    if options.target.json {
        show::json(&json!(rows));
        return Ok(());
    }
    let cells: Vec<Vec<String>> = rows.iter().map(|row| line(row, options.by)).collect();
    let headings = [
        options.by.word(),
        "sessions",
        "idle",
        "working",
        "waiting",
        "failed",
        "tokens",
        "measured",
        "last active",
    ];
    show::table(&headings, &cells);
    Ok(())
}

fn line(row: &Value, by: By) -> Vec<String> {
    let named = match by {
        By::Project => &row["project_id"],
        By::Agent => &row["agent_id"],
        By::Key => &row["key_id"],
    };
    let sessions = |name: &str| show::text(&row["sessions"][name]);
    let measured = row["coverage"]["ratio"].as_f64();
    vec![
        show::text(named),
        sessions("total"),
        sessions("idle"),
        sessions("in_progress"),
        sessions("requires_action"),
        sessions("failed"),
        show::text(&row["usage"]["total_tokens"]),
        measured.map_or_else(|| "-".to_owned(), |ratio| format!("{:.0} %", ratio * 100.0)),
        show::text(&row["last_active_at"]),
    ]
}
