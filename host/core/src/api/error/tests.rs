//! Every answer, byte for byte.

use domain::call::CallId;
use http_body_util::BodyExt;

use super::*;

async fn bytes(error: ApiError) -> (u16, Option<String>, String) {
    let (parts, body) = error.into_response().into_parts();
    let retry = parts
        .headers
        .get(SHOULD_RETRY)
        .map(|value| value.to_str().unwrap().to_owned());
    let body = body.collect().await.unwrap().to_bytes();
    (
        parts.status.as_u16(),
        retry,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

type Line = (
    ApiError,
    u16,
    Option<&'static str>,
    &'static str,
    &'static str,
    &'static str,
);

/// One line per row of `wire.md` 8.2 that this service can answer: error, status, `x-should-retry`, type, code, message.
#[tokio::test]
async fn every_answer_is_exact() {
    let conflict = |refusal| ApiError::Refused(refusal);
    let table: Vec<Line> = vec![
        (
            ApiError::Beta,
            400,
            None,
            "invalid_beta",
            "invalid_beta",
            "To access the Agents API, set the 'OpenAI-Beta' header to 'agents=v1'.",
        ),
        (
            GateError::ContentType.into(),
            400,
            None,
            SHAPE,
            SHAPE,
            "expected request with Content-Type: application/json",
        ),
        (
            GateError::TooLarge { limit: 1_048_576 }.into(),
            413,
            None,
            SHAPE,
            "request_too_large",
            "Request body exceeds the limit of 1048576 bytes.",
        ),
        (
            ApiError::ItemCursor,
            400,
            None,
            SHAPE,
            SHAPE,
            "Invalid session item ID in `after`",
        ),
        (
            Invalid::request().into(),
            400,
            None,
            SHAPE,
            "invalid_request",
            "Invalid resource identifier or request limits.",
        ),
        (
            ApiError::NotFound,
            404,
            None,
            "not_found_error",
            "not_found_error",
            "Resource not found.",
        ),
        (
            ApiError::UnknownRoute,
            404,
            None,
            SHAPE,
            "unsupported_operation",
            "This API operation is not supported.",
        ),
        (
            ApiError::Method("GET".into()),
            405,
            None,
            SHAPE,
            "unsupported_operation",
            "This API method is not supported.",
        ),
        (
            conflict(Refusal::UnknownCall(CallId("c\u{7}".into()))),
            400,
            None,
            SHAPE,
            SHAPE,
            "Unknown pending tool call",
        ),
        (
            conflict(Refusal::InputPending),
            409,
            None,
            CONFLICT,
            CONFLICT,
            "Earlier input to this Session is still pending.",
        ),
        (
            conflict(Refusal::TurnState { final_: true }),
            409,
            Some("false"),
            CONFLICT,
            CONFLICT,
            "The Turn cannot accept this input in its current state.",
        ),
        (
            conflict(Refusal::TurnState { final_: false }),
            409,
            None,
            CONFLICT,
            CONFLICT,
            "The Turn cannot accept this input in its current state.",
        ),
        (
            conflict(Refusal::DifferentResult),
            409,
            Some("false"),
            CONFLICT,
            CONFLICT,
            "The tool call already has a different result.",
        ),
        (
            conflict(Refusal::HostedEnvironmentFailed),
            409,
            Some("false"),
            CONFLICT,
            CONFLICT,
            "the hosted environment failed to provision",
        ),
        (
            conflict(Refusal::NotDeletable),
            409,
            None,
            CONFLICT,
            CONFLICT,
            "session must be durably idle or failed without required actions before deletion",
        ),
        (
            conflict(Refusal::KeyConflict),
            409,
            Some("false"),
            CONFLICT,
            "idempotency_conflict",
            "This idempotency key was used with different input.",
        ),
        (
            conflict(Refusal::FileWrite { unsettled: true }),
            409,
            Some("false"),
            CONFLICT,
            "turn_conflict",
            "The Turn cannot accept this input in its current state.",
        ),
        (
            conflict(Refusal::EnvironmentUnavailable),
            409,
            Some("false"),
            CONFLICT,
            "environment_unavailable",
            "The environment is no longer available for new input.",
        ),
        (
            conflict(Refusal::InputExpired),
            409,
            Some("false"),
            CONFLICT,
            "environment_input_expired",
            "The environment input deadline elapsed before admission.",
        ),
        (
            conflict(Refusal::InputCancelled),
            409,
            Some("false"),
            CONFLICT,
            "environment_input_cancelled",
            "The environment input was cancelled before admission.",
        ),
        (
            conflict(Refusal::Impossible("x")),
            500,
            None,
            "server_error",
            "internal_error",
            "The operation could not be completed.",
        ),
        (
            ApiError::Internal {
                effect_unknown: true,
            },
            500,
            Some("false"),
            "server_error",
            "internal_error",
            "The operation could not be completed.",
        ),
        (
            ApiError::AuthenticationUnavailable,
            503,
            Some("true"),
            "server_error",
            "authentication_unavailable",
            "Authentication is temporarily unavailable.",
        ),
        (
            conflict(Refusal::ExecutionUnavailable),
            503,
            None,
            "server_error",
            "execution_unavailable",
            "Execution is not available on this service.",
        ),
        (
            ApiError::CredentialStorageUnavailable,
            503,
            None,
            "server_error",
            "credential_storage_unavailable",
            "Credential encryption is not configured on this service.",
        ),
    ];
    for (error, status, retry, kind, code, message) in table {
        let message = serde_json::to_string(message).unwrap();
        let body = format!(
            r#"{{"error":{{"message":{message},"type":"{kind}","code":"{code}","param":null}}}}"#
        );
        assert_eq!(bytes(error).await, (status, retry.map(str::to_owned), body));
    }
}

#[tokio::test]
async fn details_are_flat_and_only_of_administration() {
    // W-ADM-1
    let (_, _, body) = bytes(AdminError::Name(128).into()).await;
    assert_eq!(
        body,
        r#"{"error":{"message":"The name must be 1 to 128 characters without control characters.","type":"invalid_request_error","code":"invalid_name","param":"name","details":{"max_length":128}}}"#
    );
}
