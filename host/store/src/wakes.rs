//! Wakes between the Core processes of one PostgreSQL database (SC-12.3): what one commits, the others look at without
//! waiting for their next scan.
//!
//! A wake carries an id and proves nothing; losing one costs a scan. `NOTIFY` takes a lock of the whole database at its
//! commit, so no unit does it: one task sends what has gathered since it last did. The driver for both databases knows no
//! `LISTEN`, so this file has two connections of PostgreSQL's own.

use std::{collections::BTreeMap, time::Duration};

use domain::{Hint, SessionId};
use serde::{Deserialize, Serialize};
use sqlx::{
    ConnectOptions, Executor, PgConnection,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use crate::notify::{Committed, Notifier};

const CHANNEL: &str = "berth_wakes";
/// Wakes that may wait to be sent; more are lost.
const QUEUE: usize = 4096;
/// Wakes of one message: far below its bound of 8000 bytes.
const BATCH: usize = 40;
/// Between two sends, so that a talkative Run does not make a message of each commit.
const PAUSE: Duration = Duration::from_millis(10);
/// Before listening again after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// A wake that cannot be sent for so long is lost; a server that does not answer for so long is not there.
const SILENCE: Duration = Duration::from_secs(5);
/// A listener that hears nothing for so long asks whether somebody is there.
const QUIET: Duration = Duration::from_secs(30);

/// One thing to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wake {
    /// A Session has events up to a number.
    Event(SessionId, u64),
    /// A hint of a decision.
    Hint(Hint),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Message {
    /// The sender hears itself and must know it.
    from: Uuid,
    wakes: Vec<Wake>,
}

/// The sending end and what is behind it.
pub(crate) fn channel() -> (mpsc::Sender<Wake>, mpsc::Receiver<Wake>) {
    mpsc::channel(QUEUE)
}

/// Carries wakes in both directions until `stop`. A database that does not answer is no failure of the store.
pub(crate) fn carry(
    options: PgConnectOptions,
    outgoing: mpsc::Receiver<Wake>,
    notifier: Notifier,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let us = Uuid::new_v4();
    tasks.spawn(send(options.clone(), us, outgoing, stop.clone()));
    tasks.spawn(receive(options, us, notifier, stop.clone()));
}

async fn send(
    options: PgConnectOptions,
    us: Uuid,
    mut outgoing: mpsc::Receiver<Wake>,
    stop: CancellationToken,
) {
    let (mut gathered, mut conn) = (Vec::new(), None);
    loop {
        tokio::select! {
            biased;
            count = outgoing.recv_many(&mut gathered, QUEUE) => if count == 0 {
                return;
            },
            () = stop.cancelled() => return,
        }
        for wakes in merged(gathered.drain(..)).chunks(BATCH) {
            let message = Message {
                from: us,
                wakes: wakes.to_vec(),
            };
            let Ok(text) = serde_json::to_string(&message) else {
                continue;
            };
            let open = conn.take();
            match within(announce(&options, open, text)).await {
                Ok(open) => conn = Some(open),
                Err(error) => {
                    tracing::debug!(%error, "wakes for other processes were lost");
                    break;
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// Sends one message, and gives the connection back for the next.
async fn announce(
    options: &PgConnectOptions,
    open: Option<PgConnection>,
    text: String,
) -> Result<PgConnection, sqlx::Error> {
    let mut conn = match open {
        Some(conn) => conn,
        None => options.connect().await?,
    };
    sqlx::query("SELECT pg_notify($1, $2)")
        .bind(CHANNEL)
        .bind(text)
        .execute(&mut conn)
        .await?;
    Ok(conn)
}

async fn within<T>(asked: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let silent = || sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    timeout(SILENCE, asked)
        .await
        .unwrap_or_else(|_| Err(silent()))
}

/// Of several wakes about one thing the newest says everything.
fn merged(wakes: impl Iterator<Item = Wake>) -> Vec<Wake> {
    let mut events: BTreeMap<SessionId, u64> = BTreeMap::new();
    let mut merged = Vec::new();
    for wake in wakes {
        match wake {
            Wake::Event(session, number) => {
                let newest = events.entry(session).or_default();
                *newest = number.max(*newest);
            }
            Wake::Hint(_) if merged.contains(&wake) => {}
            Wake::Hint(_) => merged.push(wake),
        }
    }
    merged.extend(
        events
            .into_iter()
            .map(|(session, number)| Wake::Event(session, number)),
    );
    merged
}

async fn receive(options: PgConnectOptions, us: Uuid, notifier: Notifier, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            ended = listen(&options, us, &notifier) => if let Err(error) = ended {
                tracing::warn!(%error, "wakes of other processes are not heard; the scans find their commits");
            },
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

async fn listen(
    options: &PgConnectOptions,
    us: Uuid,
    notifier: &Notifier,
) -> Result<(), sqlx::Error> {
    // A listener wants a pool. Its own, so that one that is cut off takes nobody else's place.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(SILENCE)
        .connect_lazy_with(options.clone());
    let mut listener = within(PgListener::connect_with(&pool)).await?;
    within(listener.listen(CHANNEL)).await?;
    loop {
        let heard = match timeout(QUIET, listener.recv()).await {
            Ok(heard) => heard?,
            Err(_) => {
                within(listener.execute("SELECT 1")).await?;
                continue;
            }
        };
        // Whoever may use the database may say anything here; what is no message of ours means nothing.
        let Ok(message) = serde_json::from_str::<Message>(heard.payload()) else {
            continue;
        };
        if message.from == us {
            continue;
        }
        for wake in message.wakes {
            notifier.deliver(wake);
        }
    }
}

impl From<Committed> for Wake {
    fn from(committed: Committed) -> Self {
        Self::Event(committed.session, committed.last_event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(n: u128) -> SessionId {
        SessionId::new(Uuid::from_u128(n))
    }

    #[test]
    fn wakes_about_one_session_are_one_wake() {
        let hint = Wake::Hint(Hint::Session(session(1)));
        let wakes = [
            Wake::Event(session(1), 3),
            hint,
            Wake::Event(session(2), 1),
            Wake::Event(session(1), 7),
            hint,
            Wake::Event(session(1), 5),
        ];
        let expected = [hint, Wake::Event(session(1), 7), Wake::Event(session(2), 1)];
        assert_eq!(merged(wakes.into_iter()), expected);
    }

    #[test]
    fn a_message_is_within_the_bound_of_the_server() {
        let connection_id = domain::ConnectionId::new(Uuid::max());
        let longest = Wake::Hint(Hint::CloseConnection { connection_id });
        let event = Wake::Event(session(u128::MAX), u64::MAX);
        for wake in [longest, event] {
            let message = Message {
                from: Uuid::max(),
                wakes: vec![wake; BATCH],
            };
            let text = serde_json::to_string(&message).unwrap();
            assert!(text.len() < 8000, "{} bytes", text.len());
            assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message);
        }
    }
}
