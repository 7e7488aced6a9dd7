//! What a Run is given: messages, in admitted order and with their boundaries (RP-12.5).

use serde::{Deserialize, Serialize};

use crate::InputId;

/// One part of a message; never trimmed (RP-12.5, S-MSG-4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    deny_unknown_fields
)]
pub enum MessagePart {
    /// Text; may be empty beside another part.
    Text(String),
}

/// One message for a Run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputMessage {
    /// Its delivery identity; the receipt names it.
    pub id: InputId,
    /// Parts in order; at least one.
    pub content: Vec<MessagePart>,
}
