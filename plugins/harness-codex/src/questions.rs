//! Questions of the server are answered here and now by the configuration's policy; none reaches a person, and none is
//! left open (TRN-013, CDX-004, F02).

use sdk::harness_session::PermissionPolicy;
use serde_json::{Value, json};

use crate::methods::{Question, question};
use crate::out::Out;
use crate::rpc;

/// JSON-RPC's "method not found".
const METHOD_NOT_FOUND: i32 = -32601;

/// Writes the answer and leaves a notice.
pub fn answer(id: &Value, method: &str, params: &Value, policy: PermissionPolicy, out: &mut Out) {
    let Some(kind) = question(method) else {
        out.write(rpc::refuse(id, METHOD_NOT_FOUND, "method not found"));
        out.notice("unknown_frame", method);
        return;
    };
    let allow = policy == PermissionPolicy::Allow;
    let (result, allowed) = match kind {
        Question::Command | Question::FileChange => (
            json!({"decision": if allow { "accept" } else { "decline" }}),
            allow,
        ),
        Question::Permissions if allow => (
            json!({"permissions": params["permissions"], "scope": "turn"}),
            true,
        ),
        Question::Permissions => (json!({"permissions": {}}), false),
        Question::Review if allow => (json!({"decision": "approved"}), true),
        Question::Review => (
            json!({"decision": {"denied": {"rejection": "not permitted"}}}),
            false,
        ),
        Question::UserInput => (json!({"answers": {}}), false),
        Question::Elicitation => (json!({"action": "decline"}), false),
        Question::ClientTool => (json!({"success": false, "contentItems": []}), false),
        Question::Account => {
            out.write(rpc::refuse(
                id,
                METHOD_NOT_FOUND,
                "this client has no account",
            ));
            out.notice("permission_denied", method);
            return;
        }
    };
    out.write(rpc::answer(id, &result));
    out.notice(
        if allowed {
            "permission_allowed"
        } else {
            "permission_denied"
        },
        method,
    );
}
