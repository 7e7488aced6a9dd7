//! The messages between a caller and its supervisor: JSON behind a four-byte length, on one socket.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::order::Order;

/// Bound of one message. An environment is at most a few hundred KiB: the kernel refuses more at `execve`.
const LARGEST: u32 = 8 << 20;

/// Caller to supervisor.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Command {
    /// First of all: what the tree shall not see. Holds no secret, because the supervisor is still readable for its
    /// own account while it builds the view.
    Confine {
        /// Absolute paths.
        hidden: Vec<PathBuf>,
        /// All that the caller can see, where it is restricted to a list; empty = no such list.
        visible: Vec<PathBuf>,
    },
    /// Second, once.
    Launch(Box<Order>),
    /// TERM to the scope, KILL after so many milliseconds (RP-16.3).
    Stop {
        /// Milliseconds until KILL; 0 kills at once.
        grace_ms: u64,
    },
    /// Asks for one [`Report::Others`].
    Count,
}

/// Supervisor to caller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Report {
    /// The program runs.
    Started {
        /// Its process id in the supervisor's pid namespace.
        pid: u32,
    },
    /// It does not, and nothing was left behind.
    Refused {
        /// What could not be done.
        step: Step,
        /// The system's error number, where there is one.
        errno: Option<i32>,
    },
    /// The leader ended; others of the scope may live.
    Exited {
        /// Exit code.
        code: Option<i32>,
        /// Signal.
        signal: Option<i32>,
    },
    /// The answer to a count: so many processes of the scope live beside its leader.
    Others {
        /// Zombies do not count.
        living: u32,
    },
    /// No process of the scope is left. The last message.
    Empty,
}

/// The part of a start that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// The order could not be read or says something impossible.
    Order,
    /// A limit could not be set.
    Limits,
    /// The hidden paths could not be hidden.
    Confine,
    /// The working directory cannot be entered.
    Directory,
    /// The program could not be executed.
    Program,
}

/// Variable in which a sandbox without a mount namespace tells its daemon the list that it is restricted to, as JSON.
pub(crate) const VISIBLE: &str = "BERTH_VISIBLE_PATHS";

fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - 4)
        .ok()
        .filter(|length| *length <= LARGEST);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

fn bounded(length: [u8; 4]) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(length);
    if length > LARGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(vec![0; length as usize])
}

/// Writes one message.
pub(crate) fn send<T: Serialize>(mut to: impl Write, message: &T) -> io::Result<()> {
    to.write_all(&encode(message)?)
}

/// Reads one message; an error of kind `UnexpectedEof` when the other side is gone.
pub(crate) fn receive<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut body = bounded(length)?;
    from.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Writes one message.
pub(crate) async fn send_async<T: Serialize>(
    mut to: impl AsyncWrite + Unpin,
    message: &T,
) -> io::Result<()> {
    to.write_all(&encode(message)?).await
}

/// Reads one message. Not cancel safe: hand it to a task of its own.
pub(crate) async fn receive_async<T: DeserializeOwned>(
    mut from: impl AsyncRead + Unpin,
) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await?;
    let mut body = bounded(length)?;
    from.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body)?)
}
