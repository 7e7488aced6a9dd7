//! A request of Core that still needs its final receipt.

use domain::FrameId;
use protocol::wire::RequestType;

/// Names a request in its receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The frame.
    pub re: FrameId,
    /// Its type.
    pub of: RequestType,
}
