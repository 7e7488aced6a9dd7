//! What the machine can do without Berth: handlers with little or nothing in them, and commits with one row.

use crate::sample::Samples;
use aes_gcm::aead::{AeadInOut, Key};
use aes_gcm::{Aes256Gcm, KeyInit, Nonce};
use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Path as UrlPath, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use domain::Digest;
use sha2::{Digest as _, Sha256};
use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, AnyPool, Connection, Row};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// As many as the store opens on SQLite.
const READERS: u32 = 4;

/// Serves the two handlers on a Core's database until this process is killed; prints its address first.
///
/// # Errors
/// The database cannot be opened.
pub async fn serve(database: &Path) -> Result<()> {
    sqlx::any::install_default_drivers();
    let pool = AnyPoolOptions::new()
        .max_connections(READERS)
        .test_before_acquire(false)
        .connect(&url(database, "ro"))
        .await?;
    let app = Router::new()
        .route("/empty", get(|| async { "ok" }))
        .route("/v1/agents/sessions/{id}", get(one_read))
        .with_state(pool);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

fn url(database: &Path, mode: &str) -> String {
    format!("sqlite://{}?mode={mode}", database.display())
}

/// A connection that may write to a Core's database beside it.
///
/// # Errors
/// The database cannot be opened.
pub async fn writable(database: &Path) -> Result<AnyConnection> {
    sqlx::any::install_default_drivers();
    let mut connection = AnyConnection::connect(&url(database, "rw")).await?;
    sqlx::query("PRAGMA busy_timeout = 5000")
        .execute(&mut connection)
        .await?;
    Ok(connection)
}

/// The key check and one indexed read: the least that an honest answer takes.
async fn one_read(
    State(pool): State<AnyPool>,
    UrlPath(id): UrlPath<String>,
    headers: HeaderMap,
) -> Response {
    match read(&pool, &id, &headers).await {
        Ok(Some(body)) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Ok(None) => StatusCode::UNAUTHORIZED.into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn read(
    pool: &AnyPool,
    id: &str,
    headers: &HeaderMap,
) -> Result<Option<String>, sqlx::Error> {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let Some(token) = token else {
        return Ok(None);
    };
    let caller = sqlx::query(
        "SELECT k.id, k.project_id FROM api_keys k JOIN projects p ON p.id = k.project_id \
         WHERE k.digest = $1 AND k.revoked_at IS NULL AND p.archived_at IS NULL",
    )
    .bind(Digest::of(token.as_bytes()).to_string())
    .fetch_optional(pool)
    .await?;
    let Some(caller) = caller else {
        return Ok(None);
    };
    let row = sqlx::query("SELECT body FROM sessions WHERE id = $1 AND project_id = $2")
        .bind(id)
        .bind(caller.try_get::<String, _>("project_id")?)
        .fetch_optional(pool)
        .await?;
    row.map(|row| row.try_get("body")).transpose()
}

/// [`serve`] as a process of its own, like the Core that it is compared with.
pub struct Handlers {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Handlers {
    /// Starts it on a database.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(bench: &Path, database: &Path) -> Result<Self> {
        let mut child = Command::new(bench)
            .arg("handlers")
            .arg(database)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().context("no standard output")?;
        let line = BufReader::new(output).lines().next_line().await?;
        let address = line.context("the handlers did not start")?.parse()?;
        Ok(Self { child, address })
    }

    /// Ends it.
    ///
    /// # Errors
    /// It cannot be killed.
    pub async fn stop(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// Commits with one small row, one after another: how many a second this disk takes. At least one.
///
/// # Errors
/// The database cannot be written.
pub async fn commits(folder: &Path, span: Duration) -> Result<f64> {
    sqlx::any::install_default_drivers();
    let mut conn = AnyConnection::connect(&url(&folder.join("commits.db"), "rwc")).await?;
    for statement in [
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "PRAGMA wal_autocheckpoint = 0",
        "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)",
    ] {
        sqlx::query(statement).execute(&mut conn).await?;
    }
    let begun = Instant::now();
    let mut count = 0_u32;
    while count == 0 || begun.elapsed() < span {
        sqlx::query("INSERT INTO rows (body) VALUES ('a small row')")
            .execute(&mut conn)
            .await?;
        count += 1;
    }
    let rate = f64::from(count) / begun.elapsed().as_secs_f64();
    conn.close().await?;
    Ok(rate)
}

/// [`commits`] as a process of its own, on a slow disk.
///
/// # Errors
/// It failed, or there is no `strace`.
pub async fn slow_commits(
    bench: &Path,
    folder: &Path,
    span: Duration,
    delay: Duration,
) -> Result<f64> {
    let output = crate::server::on_a_slow_disk(bench, delay)
        .arg("commits")
        .arg(folder)
        .arg(span.as_millis().to_string())
        .stdin(Stdio::null())
        .output()
        .await
        .context("cannot start strace")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| {
        format!(
            "commits on a slow disk: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// Reads a file, hashes and seals it in the pieces that Core uses, writes it and syncs it: how long that takes.
///
/// # Errors
/// The disk refuses.
pub fn seal(source: &Path, target: &Path) -> Result<Duration> {
    const PIECE: usize = 64 * 1024;
    let begun = Instant::now();
    let cipher = Aes256Gcm::new(&Key::<Aes256Gcm>::from([7; 32]));
    let mut file = std::fs::File::open(source)?;
    let mut out = std::fs::File::create(target)?;
    let mut hash = Sha256::new();
    let (mut piece, mut count) = (Vec::with_capacity(PIECE + 16), 0_u64);
    loop {
        piece.clear();
        let read = (&mut file).take(PIECE as u64).read_to_end(&mut piece)?;
        if read == 0 {
            break;
        }
        hash.update(&piece);
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&count.to_be_bytes());
        let sealed = cipher.encrypt_in_place(&Nonce::from(nonce), b"", &mut piece);
        sealed.map_err(|_| anyhow::anyhow!("the bytes could not be sealed"))?;
        out.write_all(&piece)?;
        count += 1;
    }
    out.write_all(&hash.finalize())?;
    out.sync_all()?;
    Ok(begun.elapsed())
}

/// [`seal`] as a process of its own; what it wrote is removed.
///
/// # Errors
/// It failed.
pub async fn sealed(bench: &Path, source: &Path, folder: &Path) -> Result<Duration> {
    let target = folder.join("sealed");
    let mut command = Command::new(bench);
    command
        .arg("seal")
        .arg(source)
        .arg(&target)
        .stdin(Stdio::null());
    let output = command.output().await?;
    let text = String::from_utf8_lossy(&output.stdout);
    let micros = text.trim().parse();
    let micros = micros.with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    std::fs::remove_file(&target)?;
    Ok(Duration::from_micros(micros))
}

/// Pairs of a figure and its ceiling.
#[derive(Debug, Default)]
pub struct Pairs {
    figures: Samples,
    ceilings: Samples,
    ratios: Samples,
}

impl Pairs {
    /// Adds what was measured one right after the other.
    pub fn add(&mut self, figure: f64, ceiling: f64) {
        self.figures.add(figure);
        self.ceilings.add(ceiling);
        self.ratios.add(figure / ceiling);
    }

    /// Medians of figure, ceiling and ratio.
    #[must_use]
    pub fn medians(&self) -> (f64, f64, f64) {
        (
            self.figures.median(),
            self.ceilings.median(),
            self.ratios.median(),
        )
    }
}
