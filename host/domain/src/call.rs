//! Function calls of a Turn that a client answers (state-machines 1.5, S-FN).

use serde::{Deserialize, Serialize};

use crate::item::InputPart;
use crate::{DeliveryId, Digest, ItemId, Timestamp, TurnId};

/// The harness's own id of a call, unique in its Turn. Opaque text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub String);

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A function call. Identity is (`turn_id`, `call_id`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The Turn that waits for it.
    pub turn_id: TurnId,
    /// Native id.
    pub call_id: CallId,
    /// Its public `function_call` Item.
    pub item_id: ItemId,
    /// Order of registration in the Turn; `required_actions` are listed in it.
    pub position: u32,
    /// Declared function name.
    pub name: String,
    /// Complete JSON text of the arguments, as the harness gave it.
    pub arguments: String,
    /// Where it stands.
    pub state: CallState,
}

/// State of a function call. `Applied`, `Closed` and `Kept` are terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum CallState {
    /// Waits for its result.
    Pending,
    /// A result is stored; the harness has not confirmed it. Still a required action (S-FN-5).
    Answered(Answer),
    /// The harness applied the result.
    Applied(Answer),
    /// The Turn ended or was cancelled before a result came.
    Closed,
    /// A result was stored but never applied (S-ITEM-8).
    Kept(Answer),
}

/// An accepted result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Identity of the result as sent, field presence included (S-FN-3).
    pub digest: Digest,
    /// The result.
    pub result: FunctionResult,
    /// Correlates the one delivery to the Run with its receipt (RP-14.5).
    pub delivery_id: DeliveryId,
    /// When it was admitted.
    pub at: Timestamp,
}

/// What a client answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionResult {
    /// The tool worked.
    pub success: bool,
    /// Output; kept for a failed result too (S-ITEM-7).
    pub output: Option<ResultOutput>,
    /// Error text, given to the harness as the last text part (S-FN-4).
    pub error: Option<String>,
}

/// Output of a function: plain text or ordered parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResultOutput {
    /// One text.
    Text(String),
    /// Ordered parts.
    Parts(Vec<InputPart>),
}

impl FunctionResult {
    /// Every text in the one order that a harness gets: output parts, then the error (S-FN-4).
    pub fn text(&self) -> String {
        let output: Vec<&str> = match &self.output {
            None => Vec::new(),
            Some(ResultOutput::Text(text)) => vec![text],
            Some(ResultOutput::Parts(parts)) => parts
                .iter()
                .filter_map(|part| match part {
                    InputPart::InputText { text } => Some(text.as_str()),
                    InputPart::InputImage { .. } => None,
                })
                .collect(),
        };
        output
            .into_iter()
            .chain(self.error.as_deref())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl CallState {
    /// Still listed in `required_actions` unless a cancel was requested (S-FN-5).
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Pending | Self::Answered(_))
    }

    /// The stored answer, in whatever state.
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Answered(answer) | Self::Applied(answer) | Self::Kept(answer) => Some(answer),
            Self::Pending | Self::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests;
