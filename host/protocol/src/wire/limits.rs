//! Sizes and times of the link (RP-3, RP-4). Both ends use the same values; `welcome` repeats those a Runtime must obey.

/// The wire version. It must match exactly (RP-3.4); additive growth goes through feature names (RP-3.5).
pub const WIRE_VERSION: u32 = 1;

/// Longest text frame in bytes.
pub const TEXT_FRAME: usize = 4 * 1024 * 1024;
/// Longest `runtime_prepare` body in bytes.
pub const PREPARE_BODY: usize = 1024 * 1024;
/// Longest body of a workspace request in bytes.
pub const WORKSPACE_BODY: usize = 8 * 1024;
/// Largest chunk payload in bytes.
pub const CHUNK: usize = 64 * 1024;
/// Chunks that may be unacknowledged on one stream.
pub const WINDOW_CHUNKS: u32 = 16;
/// Bytes that Core lets an export send ahead (RP-15.18).
pub const EXPORT_WINDOW: u64 = 1024 * 1024;
/// Largest transferred body in bytes.
pub const TRANSFER: u64 = 50 * 1024 * 1024;
/// Events in one `run_events` frame.
pub const EVENT_BATCH: usize = 64;
/// Bytes of one `run_events` body.
pub const EVENT_BATCH_BYTES: usize = 3 * 1024 * 1024;
/// Longest correlation id in bytes; longer ones are refused and not echoed (RP-4.7).
pub const CORRELATION: usize = 128;
/// Nesting of a frame; nothing in the catalogue comes near it.
pub const DEPTH: usize = 32;
/// Requests that Core leaves unanswered on one connection (RP-6.3).
pub const OUTSTANDING: usize = 32;
/// Request ids that a Runtime remembers per binding (RP-6.2).
pub const REMEMBERED: usize = 256;
/// Released bindings whose fence and last receipt a Runtime remembers.
pub const RELEASED: usize = 1024;
/// Request ids that Core remembers on one connection, to refuse a second use.
pub const USED: usize = 16_384;
/// Admission records of one connection (RP-10.13).
pub const ADMISSIONS: usize = 64;
/// Frames waiting to be written to a socket; one more closes it (RP-4.8).
pub const WRITE_QUEUE: usize = 1024;

/// Time for one frame to be written, in milliseconds (RP-4.8).
pub const WRITE_MS: i64 = 10_000;
/// Time for `hello` after the upgrade, and for `welcome` after `hello`, in milliseconds (RP-3.6).
pub const GREETING_MS: i64 = 15_000;
/// Default heartbeat interval in milliseconds (RP-3.10).
pub const HEARTBEAT_MS: u64 = 10_000;
/// Either peer closes after so many milliseconds without any frame (RP-3.10).
pub const IDLE_CLOSE_MS: u64 = 35_000;
/// A Runtime is online with a heartbeat younger than this, in milliseconds (RP-3.10).
pub const ONLINE_MS: i64 = 45_000;
/// A run that is not acknowledged so far makes the Runtime stop reading its harness (RP-11.11).
pub const UNACKED_EVENTS: u64 = 10_000;
/// The same in bytes (RP-11.11).
pub const UNACKED_BYTES: usize = 64 * 1024 * 1024;
