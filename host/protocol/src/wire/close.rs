//! Why a connection ends, and what a daemon does about it (RP-3, table of close reasons).

use serde::{Deserialize, Serialize};

/// A close reason; its private code and text travel in the WebSocket close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// The credential or device is not accepted.
    Unauthorized,
    /// The credential was revoked while connected (RP-3.12).
    Revoked,
    /// The Runtime refused the Session's binding (RP-8.3).
    BindingConflict,
    /// Wire version or installation differ (RP-3.4).
    IncompatibleVersion,
    /// A newer connection of the device took over (RP-3.7).
    Replaced,
    /// The peer broke the protocol (RP-4.4).
    ProtocolViolation,
    /// The Core process no longer holds the lease (SC-2.8).
    StaleOwner,
    /// No frame for 35 s (RP-3.10), or no greeting for 15 s (RP-3.6).
    IdleTimeout,
    /// A write queue overflowed or a write blocked (RP-4.8).
    Overloaded,
    /// Core shuts down.
    CoreShutdown,
    /// The compute is suspended; `goodbye` says when to come back (RP-18.3).
    Suspended,
}

/// What the daemon does after a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Makes no further request; permanent (RP-3.15).
    Park,
    /// Parks if another instance won, else only this socket is over (RP-3.8).
    ParkIfOther,
    /// Backs off; parks after five in a row.
    BackOff,
    /// Connects again by the usual delays (RP-3.14).
    Reconnect,
    /// Connects again after the delay that `goodbye` named.
    ReconnectLater,
}

impl CloseReason {
    /// Every reason, by code from 4001.
    pub const ALL: [Self; 11] = [
        Self::Unauthorized,
        Self::Revoked,
        Self::BindingConflict,
        Self::IncompatibleVersion,
        Self::Replaced,
        Self::ProtocolViolation,
        Self::StaleOwner,
        Self::IdleTimeout,
        Self::Overloaded,
        Self::CoreShutdown,
        Self::Suspended,
    ];

    /// The WebSocket close code.
    pub const fn code(self) -> u16 {
        match self {
            Self::Unauthorized => 4001,
            Self::Revoked => 4002,
            Self::BindingConflict => 4003,
            Self::IncompatibleVersion => 4004,
            Self::Replaced => 4005,
            Self::ProtocolViolation => 4006,
            Self::StaleOwner => 4007,
            Self::IdleTimeout => 4008,
            Self::Overloaded => 4009,
            Self::CoreShutdown => 4010,
            Self::Suspended => 4011,
        }
    }

    /// The close text, which equals the reason.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Revoked => "revoked",
            Self::BindingConflict => "binding_conflict",
            Self::IncompatibleVersion => "incompatible_version",
            Self::Replaced => "replaced",
            Self::ProtocolViolation => "protocol_violation",
            Self::StaleOwner => "stale_owner",
            Self::IdleTimeout => "idle_timeout",
            Self::Overloaded => "overloaded",
            Self::CoreShutdown => "core_shutdown",
            Self::Suspended => "suspended",
        }
    }

    /// The reason of a close code; none for codes that are not ours.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// What the daemon does.
    pub const fn reaction(self) -> Reaction {
        match self {
            Self::Unauthorized
            | Self::Revoked
            | Self::BindingConflict
            | Self::IncompatibleVersion => Reaction::Park,
            Self::Replaced => Reaction::ParkIfOther,
            Self::ProtocolViolation => Reaction::BackOff,
            Self::StaleOwner | Self::IdleTimeout | Self::Overloaded | Self::CoreShutdown => {
                Reaction::Reconnect
            }
            Self::Suspended => Reaction::ReconnectLater,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_texts_and_serde_agree() {
        for (index, reason) in CloseReason::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(reason.code()), 4001 + index);
            assert_eq!(CloseReason::from_code(reason.code()), Some(reason));
            assert_eq!(
                serde_json::to_string(&reason).unwrap(),
                format!("\"{}\"", reason.as_str())
            );
        }
        assert_eq!(CloseReason::from_code(1000), None);
    }
}
