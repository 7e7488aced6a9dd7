//! Streams of a connection, in the order of the wire. A feed that ends without its last signal was cut by the socket.

use domain::run::{PrepareCode, PrepareState, RunEvent};
use tokio::sync::mpsc;

use super::{StartRefusal, Unanswered};

/// What happens to one admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepareSignal {
    /// A newer observation (RP-10.3).
    State(PrepareState),
    /// `execution_prepare` was refused: certainly nothing happened.
    Rejected(PrepareCode),
    /// It was never sent, or nobody knows.
    Unanswered(Unanswered),
}

/// Observations of one admission; the channel ends after a final one.
pub type PrepareFeed = mpsc::Receiver<PrepareSignal>;

/// What happens to one Run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunSignal {
    /// The start frame was handed to the socket.
    Sent,
    /// The admission moved to the Run.
    Started,
    /// Certainly nothing runs; nothing follows.
    Rejected(StartRefusal),
    /// The start frame was never handed to the socket; nothing follows.
    NotSent,
    /// The same, and no socket will ever take it: it is longer than a frame may be.
    TooLong,
    /// The socket lives, but the start was not answered in time, or by something that tells nothing; nothing follows
    /// (RP-17.1).
    Unknown,
    /// Events in order, without gap or repeat.
    Events {
        /// Number of the first.
        seq: u64,
        /// The events.
        events: Vec<RunEvent>,
    },
    /// No more events will come though `done` was not seen (RP-11.10).
    Broken(RunBreak),
}

/// Why the observation of a Run ended without `done`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunBreak {
    /// The connection ended.
    Lost,
    /// An event number was left out (RP-11.2).
    Gap,
    /// More events than may be unacknowledged (RP-11.11).
    Overflow,
}

/// Signals of one Run. Dropping it stops the observation, not the Run.
pub type RunFeed = mpsc::Receiver<RunSignal>;

/// What comes of an export, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportSignal {
    /// A file begins.
    Entry {
        /// Path below `outputs/`.
        path: String,
        /// Its size in bytes.
        size: u64,
    },
    /// Bytes of that file.
    Bytes(Vec<u8>),
    /// The file is complete.
    EntryEnd {
        /// SHA-256, lower-case hexadecimal.
        sha256: String,
        /// No bytes were sent, because Core has them (RP-15.20).
        skipped: bool,
    },
    /// The final receipt: everything came (RP-15.19).
    Complete {
        /// Number of files.
        files: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// Refused, failed, lost or over a limit.
    Failed,
}

/// Signals of one export. The receiver's pace is the export's pace: bytes are granted as they are taken.
pub type ExportFeed = mpsc::Receiver<ExportSignal>;
