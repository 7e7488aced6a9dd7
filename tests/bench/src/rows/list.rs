//! A page of 100 Items of a long history against the same page of a short one.

use super::rate;
use super::read::{Get, connections};
use crate::ceiling::{Pairs, writable};
use crate::effort::Effort;
use crate::report::Line;
use crate::server::{Options, Programs, Server};
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Items of a page, and of the short history.
const PAGE: u32 = 100;
/// A long history may cost one and a half times as much.
const OF_SHORT: f64 = 1.0 / 1.5;

pub(super) async fn measure(programs: &Programs, effort: Effort) -> Result<Vec<Line>> {
    let options = Options {
        concurrency: 4,
        fsync_delay: None,
    };
    let server = Server::start(programs, options).await?;
    let database = server.data().join("berth.db");
    let (short, long) = (server.warm("none").await?, server.warm("none").await?);
    lengthen(&database, &short, 1, PAGE).await?;
    lengthen(&database, &long, 2, effort.items).await?;
    let page =
        |session: &str| Get(format!("/v1/agents/sessions/{session}/items?limit={PAGE}").into());
    let (short, long) = (page(&short), page(&long));
    let mut readers = connections(server.address(), server.key()).await?;
    let mut pairs = Pairs::default();
    for _ in 0..effort.rounds {
        let (of_long, of_short);
        (of_long, readers) = rate(readers, effort.span, long.clone()).await?;
        (of_short, readers) = rate(readers, effort.span, short.clone()).await?;
        pairs.add(of_long, of_short);
    }
    drop(readers);
    server.stop().await?;
    let (figure, ceiling, ratio) = pairs.medians();
    let against = ("the same of a short one", ceiling);
    let row = "100 Items of a long history";
    Ok(vec![Line::rate(row, figure, against, ratio, OF_SHORT)])
}

/// Adds copies of a Session's newest Item until it has so many more; `series` keeps the ids of two Sessions apart.
async fn lengthen(database: &Path, session: &str, series: u32, more: u32) -> Result<()> {
    let mut connection = writable(database).await?;
    let done = sqlx::query(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2), \
         last AS (SELECT * FROM items WHERE session_id = $1 ORDER BY position DESC LIMIT 1), \
         fresh AS (SELECT i, printf('item_%08x000040008000%012x', $3, i) AS id FROM n) \
         INSERT INTO items (id, session_id, turn_id, position, native_key, ended, body) \
         SELECT f.id, l.session_id, l.turn_id, l.position + f.i, NULL, l.ended, \
         json_set(l.body, '$.id', f.id, '$.position', l.position + f.i, '$.key', NULL) FROM fresh f, last l",
    )
    .bind(session)
    .bind(i64::from(more))
    .bind(i64::from(series))
    .execute(&mut connection)
    .await
    .context("the history could not be made longer")?;
    ensure!(
        done.rows_affected() == u64::from(more),
        "the Session has no Item to copy"
    );
    Ok(())
}
