//! Refusals: the closed set of answers that a public decision gives instead of changes. Nothing is written (W-ORDER-6).

use crate::call::CallId;

/// Why a command is refused. Each names its row of the error table in wire.md 8.2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// E400-18: a Session on `none` without input.
    #[error("a conversation-only Session needs initial input")]
    InputRequired,
    /// E400-21: a result for a call that the Session does not have. The official client tries again.
    #[error("the Session has no such call")]
    UnknownCall(CallId),
    /// E400-22: a result whose `turn_id` is not the call's.
    #[error("the call belongs to a different Turn")]
    OtherTurn,
    /// E400-23: content that the harness cannot take.
    #[error("the harness cannot take this content")]
    UnsupportedContent {
        /// Path of the member, if it may be named.
        param: Option<String>,
        /// Exact message.
        message: String,
    },
    /// E400-20: more messages than one Run can begin with wait for it.
    #[error("too much input waits for the Turn")]
    TooMuchWaits,
    /// E400-24: a message whose text is only whitespace.
    #[error("the harness takes no message of only whitespace")]
    WhitespaceOnly,
    /// E400-45: the default version of a Skill that has others (SKL-041).
    #[error("the version is the default one of its Skill")]
    DefaultSkillVersion,
    /// E400 of the administration API: only hosted Sessions can be archived (OPS-043).
    #[error("only a hosted Session can be archived")]
    NotHosted,
    /// E404-01: no live Session (or other resource) for this caller.
    #[error("not found")]
    NotFound,
    /// E409-01: a reservation is pending. Transient.
    #[error("earlier input is still pending")]
    InputPending,
    /// E409-02: the Turn cannot take this.
    #[error("the Turn cannot accept this input in its current state")]
    TurnState {
        /// False for messages that meet a requested cancel (D5): the Turn will end soon.
        final_: bool,
    },
    /// E409-03: the call has another result.
    #[error("the call already has a different result")]
    DifferentResult,
    /// E409-04: new input to a failed hosted Environment.
    #[error("the hosted Environment failed")]
    HostedEnvironmentFailed,
    /// E409-05: the Session is busy.
    #[error("the Session is not durably idle")]
    NotDeletable,
    /// E409-06: several Credentials of the attached Vaults match an MCP server.
    #[error("several credentials match an MCP server")]
    SeveralCredentials {
        /// The server's URL.
        server_url: String,
    },
    /// E409-07: the key was used with other input, or its Session was deleted.
    #[error("the idempotency key was used with different input")]
    KeyConflict,
    /// E409-08: an Environment file write is in the way, or the write is.
    #[error("a file write and input exclude each other")]
    FileWrite {
        /// The earlier write is `unsettled`: waiting does not help.
        unsettled: bool,
    },
    /// E409-09: the Environment takes no more input, or the input that waited failed.
    #[error("the Environment is no longer available")]
    EnvironmentUnavailable,
    /// E409-10: the reservation expired.
    #[error("the input deadline elapsed")]
    InputExpired,
    /// E409-11: the reservation was cancelled by an administrator.
    #[error("the input was cancelled")]
    InputCancelled,
    /// E500-01: a state that cannot be. The unit rolls back.
    #[error("impossible state: {0}")]
    Impossible(&'static str),
    /// E503-02: no execution.
    #[error("execution is not available")]
    ExecutionUnavailable,
}

impl Refusal {
    /// Row of the error table (wire.md 8.2).
    pub fn wire_id(&self) -> &'static str {
        match self {
            Self::InputRequired => "E400-18",
            Self::UnknownCall(_) => "E400-21",
            Self::OtherTurn => "E400-22",
            Self::UnsupportedContent { .. } => "E400-23",
            Self::WhitespaceOnly => "E400-24",
            Self::DefaultSkillVersion => "E400-45",
            Self::NotHosted | Self::TooMuchWaits => "E400-20",
            Self::NotFound => "E404-01",
            Self::InputPending => "E409-01",
            Self::TurnState { .. } => "E409-02",
            Self::DifferentResult => "E409-03",
            Self::HostedEnvironmentFailed => "E409-04",
            Self::NotDeletable => "E409-05",
            Self::SeveralCredentials { .. } => "E409-06",
            Self::KeyConflict => "E409-07",
            Self::FileWrite { .. } => "E409-08",
            Self::EnvironmentUnavailable => "E409-09",
            Self::InputExpired => "E409-10",
            Self::InputCancelled => "E409-11",
            Self::Impossible(_) => "E500-01",
            Self::ExecutionUnavailable => "E503-02",
        }
    }

    /// The answer carries `x-should-retry: false`: repeating the request cannot succeed (state-machines 1.3).
    /// Whether a failure of unknown effect does (D27) is decided where the commit failed.
    pub fn retry_is_useless(&self) -> bool {
        match self {
            Self::TurnState { final_ } => *final_,
            Self::FileWrite { unsettled } => *unsettled,
            Self::DifferentResult
            | Self::HostedEnvironmentFailed
            | Self::SeveralCredentials { .. }
            | Self::KeyConflict
            | Self::EnvironmentUnavailable
            | Self::InputExpired
            | Self::InputCancelled => true,
            Self::InputRequired
            | Self::UnknownCall(_)
            | Self::OtherTurn
            | Self::UnsupportedContent { .. }
            | Self::TooMuchWaits
            | Self::WhitespaceOnly
            | Self::DefaultSkillVersion
            | Self::NotHosted
            | Self::NotFound
            | Self::InputPending
            | Self::NotDeletable
            | Self::Impossible(_)
            | Self::ExecutionUnavailable => false,
        }
    }
}
