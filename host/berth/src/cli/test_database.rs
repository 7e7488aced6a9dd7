//! `berth test-database`, in test builds only: looks at the database of a Core from beside it.

use super::serve;
use clap::Args;

/// Which database, and how strictly.
#[derive(Debug, Args)]
#[group(id = "test_database")]
pub struct Options {
    #[command(flatten)]
    serve: serve::Options,
    /// Nothing may be under way any more.
    #[arg(long)]
    quiescent: bool,
}

/// Prints what it found as one line of JSON.
///
/// # Errors
/// The database cannot be opened.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let settings = serve::settings_of(options.serve)?;
    let found = Box::pin(berth_core::check::database(&settings, options.quiescent)).await?;
    say!("{}", serde_json::to_string(&found)?);
    Ok(())
}
