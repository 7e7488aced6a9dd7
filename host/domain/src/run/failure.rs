//! How a Run ends natively, and the closed set of native failures (RP-11.4, RP-11.5).

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a Turn ended natively.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// Normally.
    Completed,
    /// With an error.
    Failed,
    /// By a cancel.
    Cancelled,
    /// The Runtime cannot tell; Core fails the Turn as `engine_failed`.
    Unknown,
}

/// The end of a Run's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// The observed native outcome.
    pub status: TurnStatus,
}

macro_rules! failure_codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A classified native failure (RP-11.5). Everything else stays unclassified.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum FailureCode { $($(#[$doc])* $name,)* }

        impl FailureCode {
            /// Every code, in the order of the rule.
            pub const ALL: &'static [FailureCode] = &[$(FailureCode::$name,)*];

            /// The code as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $(FailureCode::$name => $text,)* }
            }
        }
    };
}

failure_codes! {
    /// The provider refused the credential.
    AuthenticationError = "authentication_error",
    /// Too many requests.
    RateLimitExceeded = "rate_limit_exceeded",
    /// The account's budget is used up.
    UsageLimitExceeded = "usage_limit_exceeded",
    /// The provider is overloaded.
    ServerOverloaded = "server_overloaded",
    /// The provider failed.
    ServerError = "server_error",
    /// The provider refused the request.
    InvalidRequest = "invalid_request",
    /// The provider does not know the model or resource.
    ResourceNotFound = "resource_not_found",
    /// No answer in time.
    RequestTimeout = "request_timeout",
    /// The conversation no longer fits.
    ContextLengthExceeded = "context_length_exceeded",
    /// Refused by the provider's security policy.
    CyberPolicy = "cyber_policy",
    /// The provider could not be reached, or its stream broke.
    ConnectionFailed = "connection_failed",
}

/// The text is not a code of RP-11.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a known failure code")]
pub struct UnknownFailureCode;

impl FromStr for FailureCode {
    type Err = UnknownFailureCode;

    fn from_str(text: &str) -> Result<Self, UnknownFailureCode> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str() == text)
            .ok_or(UnknownFailureCode)
    }
}

/// A native failure as the Runtime reports it. An unknown code, or a status that may not be there, is dropped while reading;
/// the failure itself is kept (RP-11.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ReportedFailure")]
pub struct RunFailure {
    /// Its class, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<FailureCode>,
    /// 100..599, only with `connection_failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<u16>,
    /// For the log only, at most 1 KiB; never public.
    detail: String,
}

impl RunFailure {
    /// Keeps what the rule allows: a known code, and a status only with `connection_failed`.
    pub fn new(
        code: Option<FailureCode>,
        http_status: Option<u16>,
        detail: impl Into<String>,
    ) -> Self {
        let http_status = http_status.filter(|status| {
            code == Some(FailureCode::ConnectionFailed) && (100..=599).contains(status)
        });
        Self {
            code,
            http_status,
            detail: detail.into(),
        }
    }

    /// Its class, if it has one.
    pub fn code(&self) -> Option<FailureCode> {
        self.code
    }

    /// HTTP status of the provider's answer, if known.
    pub fn http_status(&self) -> Option<u16> {
        self.http_status
    }

    /// Text for the log; never public.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportedFailure {
    code: Option<String>,
    http_status: Option<u64>,
    detail: String,
}

impl From<ReportedFailure> for RunFailure {
    fn from(reported: ReportedFailure) -> Self {
        let code = reported.code.and_then(|code| code.parse().ok());
        let status = reported
            .http_status
            .and_then(|status| u16::try_from(status).ok());
        Self::new(code, status, reported.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_codes_are_dropped_and_the_failure_stays() {
        // RP-11.5
        let failure: RunFailure =
            serde_json::from_str(r#"{"code":"solar_flare","http_status":503,"detail":"x"}"#)
                .unwrap();
        assert_eq!(failure, RunFailure::new(None, None, "x"));
    }

    #[test]
    fn a_status_belongs_to_connection_failed_only() {
        // RP-11.5
        for (code, status, kept) in [
            ("connection_failed", 502, Some(502)),
            ("connection_failed", 99, None),
            ("connection_failed", 600, None),
            ("server_error", 502, None),
        ] {
            let text = format!(r#"{{"code":"{code}","http_status":{status},"detail":""}}"#);
            let failure: RunFailure = serde_json::from_str(&text).unwrap();
            assert_eq!(failure.http_status(), kept, "{text}");
            assert_eq!(failure.code().map(FailureCode::as_str), Some(code));
        }
    }

    #[test]
    fn codes_are_spelled_the_same_everywhere() {
        for code in FailureCode::ALL {
            assert_eq!(
                serde_json::to_string(code).unwrap(),
                format!("\"{}\"", code.as_str())
            );
            assert_eq!(code.as_str().parse(), Ok(*code));
        }
    }
}
