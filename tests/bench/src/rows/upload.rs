//! An upload of 500 MiB against a program that reads, hashes, seals, writes and syncs the same bytes; and the memory that the
//! Core takes for it.

use crate::ceiling::{Pairs, sealed};
use crate::effort::Effort;
use crate::report::Line;
use crate::server::{Options, Programs, Server};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An upload may cost twice as much: it also crosses a socket.
const OF_CEILING: f64 = 0.5;
/// Megabytes of memory beside what an idle Core holds: 32 MiB.
const MEMORY: f64 = 33.6;
/// Every pair writes the bytes twice.
const ROUNDS: usize = 3;
/// Bytes that are read and sent at once.
const PIECE: usize = 256 * 1024;

pub(super) async fn measure(programs: &Programs, effort: Effort) -> Result<Vec<Line>> {
    let options = Options {
        concurrency: 4,
        fsync_delay: None,
    };
    let folder = programs.folder()?;
    let source = folder.path().join("source");
    fill(&source, effort.upload)?;
    let server = Server::start(programs, options).await?;
    let megabytes = effort.upload as f64 / 1e6;
    let (mut pairs, mut memory) = (Pairs::default(), 0.0_f64);
    for _ in 0..effort.rounds.min(ROUNDS) {
        let before = server.resident_mb()?;
        server.forget_peak()?;
        let begun = Instant::now();
        let id = upload(&server, &source).await?;
        let took = begun.elapsed();
        memory = memory.max(server.peak_mb()? - before);
        let alone = sealed(&programs.bench, &source, folder.path()).await?;
        pairs.add(
            megabytes / took.as_secs_f64(),
            megabytes / alone.as_secs_f64(),
        );
        let mut connection = server.connect().await?;
        let path = format!("/v1/files/{id}");
        connection.ask(Method::DELETE, &path, Bytes::new()).await?;
    }
    server.stop().await?;
    let (figure, ceiling, ratio) = pairs.medians();
    let against = ("read, hash, seal, write, fsync", ceiling);
    let rate = Line::rate("upload of 500 MiB", figure, against, ratio, OF_CEILING);
    Ok(vec![
        Line {
            unit: "MB/s",
            ..rate
        },
        Line::cost("memory during it", memory.max(0.0), "MB", None, MEMORY),
    ])
}

/// Bytes that nobody can compress.
fn fill(path: &Path, length: u64) -> Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..length / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes())?;
    }
    Ok(file.flush()?)
}

/// Sends a file as a form; the id of what was made.
async fn upload(server: &Server, source: &Path) -> Result<String> {
    let head = "--b\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n\
                --b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n";
    let tail = "\r\n--b--\r\n";
    let mut file = tokio::fs::File::open(source).await?;
    let length = file.metadata().await?.len() + (head.len() + tail.len()) as u64;
    let mut socket = TcpStream::connect(server.address()).await?;
    let request = format!(
        "POST /v1/files HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: multipart/form-data; boundary=b\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{head}",
        server.address(),
        server.key(),
    );
    socket.write_all(request.as_bytes()).await?;
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece).await? {
            0 => break,
            count => socket.write_all(&piece[..count]).await?,
        }
    }
    socket.write_all(tail.as_bytes()).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "an upload: {answer}");
    let body = answer.split("\r\n\r\n").nth(1).context("no body")?;
    let made: Value = serde_json::from_str(body.trim())?;
    Ok(made["id"]
        .as_str()
        .context("a File without an id")?
        .to_owned())
}
