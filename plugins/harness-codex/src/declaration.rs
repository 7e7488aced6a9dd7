//! What Codex is able to do, as data (CAP-005).

use sdk::harness_declaration::{
    Ability, Cancellation, Declaration, FunctionLimits, HistoryRecovery, McpLimits, MessageLimits,
    ModelSupport, Support,
};

use crate::check::EFFORTS;

use Support::{Admitted, Refused, Verified};

/// Every name of the catalogue, with its level in the placements none, hosted, self-hosted (RP-7.1). `Verified` is what
/// the transcripts of the real program prove.
const ABILITIES: &[(&str, [Support; 3])] = &[
    ("streaming", [Verified; 3]),
    ("steering", [Verified; 3]),
    ("tool_observations", [Verified; 3]),
    ("message_items", [Verified; 3]),
    ("environment_none", [Verified, Refused, Refused]),
    ("native_session_recovery", [Verified; 3]),
    ("execution_controls", [Verified; 3]),
    ("web_search", [Refused; 3]),
    ("web_search_control", [Admitted; 3]),
    ("programmatic_tool_calling", [Refused; 3]),
    ("programmatic_tool_calling_disable", [Admitted; 3]),
    ("text_verbosity", [Admitted; 3]),
    ("reasoning_options", [Refused; 3]),
    ("service_tiers", [Refused; 3]),
    ("structured_output", [Refused; 3]),
    ("tool_search", [Refused; 3]),
    ("function_tools", [Refused; 3]),
    ("message_images", [Refused; 3]),
    ("image_urls", [Refused; 3]),
    ("function_result_images", [Refused; 3]),
    ("subagents", [Refused; 3]),
    ("subagent_observations", [Refused; 3]),
    ("subagent_control", [Admitted; 3]),
    ("mcp_http_tools", [Refused; 3]),
    ("mcp_http_required", [Refused; 3]),
    ("mcp_http_bearer_auth", [Refused; 3]),
    ("mcp_service_origin", [Refused; 3]),
    ("mcp_environment_origin", [Refused; 3]),
    ("mcp_stdio", [Refused; 3]),
    ("plugin_mcp_http", [Refused; 3]),
    ("plugin_mcp_stdio", [Refused; 3]),
    ("skills", [Refused; 3]),
    ("plugins", [Refused; 3]),
    ("capability_directories", [Refused; 3]),
    ("token_usage", [Verified; 3]),
    ("remote_tools", [Refused; 3]),
];

/// Built-in tools that would silently hide a function of the same name.
const RESERVED_NAMES: &[&str] = &[
    "apply_patch",
    "exec_command",
    "request_user_input",
    "update_plan",
    "view_image",
    "web_search",
    "write_stdin",
];

pub fn declaration() -> Declaration {
    Declaration {
        id: "codex".into(),
        display_name: "Codex".into(),
        rank: 0,
        install: "codex".into(),
        abilities: ABILITIES
            .iter()
            .map(|(name, [none, hosted, self_hosted])| Ability {
                name: (*name).into(),
                none: *none,
                hosted: *hosted,
                self_hosted: *self_hosted,
            })
            .collect(),
        conflicts: Vec::new(),
        models: ModelSupport {
            protocols: vec!["responses".into()],
            needs_token_limits: false,
            own_model: false,
            verbosities: vec!["low".into(), "high".into()],
            efforts: Vec::new(),
            service_tiers: Vec::new(),
        },
        parameters_schema: parameters_schema(),
        functions: FunctionLimits {
            max_count: 64,
            max_name_bytes: 512,
            name_pattern: Some("^[a-zA-Z0-9_-]+$".into()),
            reserved_names: RESERVED_NAMES.iter().map(|name| (*name).into()).collect(),
            object_root: false,
            exact_numbers: false,
            result_images: Vec::new(),
            result_images_on_success_only: false,
        },
        mcp: McpLimits {
            label_pattern: None,
            reserved_labels: vec!["codex_apps".into()],
            tool_pattern: None,
            allow_lists: true,
            literal_headers: true,
            bearer_needs_https: false,
        },
        messages: MessageLimits {
            images: Vec::new(),
            whitespace_only: true,
            max_messages_per_turn: None,
        },
        cancellation: Cancellation {
            keeps_process: true,
            settles_within_ms: 8_000,
        },
        recovery: HistoryRecovery::NativeListing,
        platform_prompt: false,
        idle_s: 300,
        silence_limit_s: 600,
        turn_limit_s: 0,
        more: Vec::new(),
    }
}

/// NAT-001.
fn parameters_schema() -> String {
    serde_json::json!({
        "type": "object",
        "properties": {"model_reasoning_effort": {"type": "string", "enum": EFFORTS}},
        "additionalProperties": false,
    })
    .to_string()
}
