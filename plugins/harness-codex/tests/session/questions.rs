//! Questions of the server.

use sdk::harness_session::PermissionPolicy;
use serde_json::json;

use crate::frames::*;
use crate::support::configuration;

/// F02, TRN-013.
#[test]
fn every_question_is_answered_by_the_policy() {
    let cases = [
        (
            "item/commandExecution/requestApproval",
            json!({"decision": "accept"}),
            json!({"decision": "decline"}),
        ),
        (
            "item/fileChange/requestApproval",
            json!({"decision": "accept"}),
            json!({"decision": "decline"}),
        ),
        (
            "item/permissions/requestApproval",
            json!({"permissions": {"network": {"enabled": true}}, "scope": "turn"}),
            json!({"permissions": {}}),
        ),
        (
            "execCommandApproval",
            json!({"decision": "approved"}),
            json!({"decision": {"denied": {"rejection": "not permitted"}}}),
        ),
        (
            "item/tool/requestUserInput",
            json!({"answers": {}}),
            json!({"answers": {}}),
        ),
        (
            "mcpServer/elicitation/request",
            json!({"action": "decline"}),
            json!({"action": "decline"}),
        ),
        (
            "item/tool/call",
            json!({"success": false, "contentItems": []}),
            json!({"success": false, "contentItems": []}),
        ),
    ];
    for policy in [PermissionPolicy::Allow, PermissionPolicy::Deny] {
        let mut configuration = configuration();
        configuration.permissions = policy;
        let mut bench = ready(&configuration);
        for (method, allowed, denied) in &cases {
            let question = json!({"id": "q", "method": method,
                "params": {"threadId": "t", "permissions": {"network": {"enabled": true}}}});
            let outputs = bench.step(vec![line(&question)]).unwrap();
            let answer = if policy == PermissionPolicy::Allow {
                allowed
            } else {
                denied
            };
            assert_eq!(
                written(&outputs),
                [json!({"id": "q", "result": answer})],
                "{method}"
            );
            assert_eq!(notices(&outputs).len(), 1);
        }
        let unknown = json!({"id": 7, "method": "item/somethingNew", "params": {}});
        let outputs = bench.step(vec![line(&unknown)]).unwrap();
        let error = json!({"code": -32601, "message": "method not found"});
        assert_eq!(written(&outputs), [json!({"id": 7, "error": error})]);
        assert_eq!(notices(&outputs), ["unknown_frame"]);
    }
}
