//! `berth-bench`: measures the programs that it is told. `cargo xtask bench` builds them and calls it.

use anyhow::{Result, bail};
use berth_bench::effort::Effort;
use berth_bench::rows::Row;
use berth_bench::server::Programs;
use berth_bench::{ceiling, report};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measures rows and prints the table.
    Rows(Rows),
    /// A ceiling: serves handlers with little or nothing in them.
    #[command(hide = true)]
    Handlers {
        /// The database of a Core.
        database: PathBuf,
    },
    /// A ceiling: commits one small row after another.
    #[command(hide = true)]
    Commits {
        /// Where.
        folder: PathBuf,
        /// For how long.
        milliseconds: u64,
    },
    /// A ceiling: reads, hashes, seals, writes and syncs a file.
    #[command(hide = true)]
    Seal {
        /// What.
        source: PathBuf,
        /// Where.
        target: PathBuf,
    },
}

#[derive(Args)]
struct Rows {
    /// Rows to measure; all when left out.
    rows: Vec<String>,
    /// The program.
    #[arg(long)]
    berth: PathBuf,
    /// The scripted harness.
    #[arg(long)]
    scripted: PathBuf,
    /// Folder with the Codex adapter as a component and as a native library.
    #[arg(long, value_name = "FOLDER")]
    plugins: PathBuf,
    /// Make data folders here: the disk that is measured. `/tmp` may be memory.
    #[arg(long, value_name = "FOLDER", default_value = "/var/tmp")]
    disk: PathBuf,
    /// Also write the lines into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Rows(rows) => measure(rows).await,
        Task::Handlers { database } => ceiling::serve(&database).await,
        Task::Commits {
            folder,
            milliseconds,
        } => {
            let span = Duration::from_millis(milliseconds);
            println!("{}", ceiling::commits(&folder, span).await?);
            Ok(())
        }
        Task::Seal { source, target } => {
            println!("{}", ceiling::seal(&source, &target)?.as_micros());
            Ok(())
        }
    }
}

async fn measure(options: Rows) -> Result<()> {
    let rows = chosen(&options.rows)?;
    let programs = Programs {
        berth: options.berth.canonicalize()?,
        scripted: options.scripted.canonicalize()?,
        plugins: options.plugins.canonicalize()?,
        bench: std::env::current_exe()?,
        disk: options.disk.canonicalize()?,
    };
    let mut lines = Vec::new();
    for row in rows {
        eprintln!("measuring {} …", row.name());
        lines.extend(row.measure(&programs, Effort::FULL).await?);
    }
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_vec_pretty(&lines)?)?;
    }
    print!("{}", report::table(&lines));
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<Row>> {
    if names.is_empty() {
        return Ok(Row::ALL.into());
    }
    let find = |name: &String| match Row::ALL.iter().find(|row| row.name() == name) {
        Some(row) => Ok(*row),
        None => bail!(
            "there is no row `{name}`; there are {}",
            Row::ALL.map(Row::name).join(", ")
        ),
    };
    names.iter().map(find).collect()
}
