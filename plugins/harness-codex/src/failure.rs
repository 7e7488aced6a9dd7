//! Why a Turn failed, from the structured error alone and never from its text (models-harnesses.md 7).

use sdk::harness_events::NativeFailure;
use sdk::json::{bounded, string};
use serde_json::Value;

/// Reads a `TurnError`; null is an unclassified failure.
pub fn failure(error: &Value) -> NativeFailure {
    let (code, http_status) = classify(&error["codexErrorInfo"]);
    NativeFailure {
        code: code.map(str::to_owned),
        http_status,
        detail: bounded(string(error, "message").unwrap_or_default(), 1024).to_owned(),
    }
}

fn classify(info: &Value) -> (Option<&'static str>, Option<u16>) {
    if let Some(name) = info.as_str() {
        return (class(name), None);
    }
    let Some((name, content)) = info.as_object().and_then(|object| object.iter().next()) else {
        return (None, None);
    };
    let status = content["httpStatusCode"]
        .as_u64()
        .and_then(|status| u16::try_from(status).ok())
        .filter(|status| (100..=599).contains(status));
    match name.as_str() {
        "responseTooManyFailedAttempts" if status == Some(429) => {
            (Some("rate_limit_exceeded"), None)
        }
        "httpConnectionFailed"
        | "responseStreamConnectionFailed"
        | "responseStreamDisconnected"
        | "responseTooManyFailedAttempts" => (Some("connection_failed"), status),
        _ => (None, None),
    }
}

fn class(name: &str) -> Option<&'static str> {
    Some(match name {
        "unauthorized" => "authentication_error",
        "usageLimitExceeded" => "usage_limit_exceeded",
        "rateLimitExceeded" => "rate_limit_exceeded",
        "contextWindowExceeded" => "context_length_exceeded",
        "serverOverloaded" => "server_overloaded",
        "internalServerError" => "server_error",
        "badRequest" => "invalid_request",
        "modelNotFound" => "resource_not_found",
        "cyberPolicy" => "cyber_policy",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::classify;

    #[test]
    fn a_status_is_told_only_with_a_failed_connection() {
        let info = |name: &str, status: u64| json!({name: {"httpStatusCode": status}});
        assert_eq!(
            classify(&info("httpConnectionFailed", 401)),
            (Some("connection_failed"), Some(401))
        );
        assert_eq!(
            classify(&info("responseTooManyFailedAttempts", 429)),
            (Some("rate_limit_exceeded"), None)
        );
        assert_eq!(
            classify(&info("responseStreamDisconnected", 700)),
            (Some("connection_failed"), None)
        );
    }

    #[test]
    fn anything_else_stays_unclassified() {
        assert_eq!(classify(&json!("other")), (None, None));
        assert_eq!(
            classify(&json!({"activeTurnNotSteerable": {"turnKind": "review"}})),
            (None, None)
        );
        assert_eq!(classify(&json!(null)), (None, None));
        assert_eq!(classify(&json!({})), (None, None));
    }
}
