//! The catalogues of contract 0.1.

/// Every ability that a declaration lists (RP-7.1).
pub const ABILITIES: &[&str] = &[
    "streaming",
    "steering",
    "tool_observations",
    "message_items",
    "environment_none",
    "native_session_recovery",
    "execution_controls",
    "web_search",
    "web_search_control",
    "programmatic_tool_calling",
    "programmatic_tool_calling_disable",
    "text_verbosity",
    "reasoning_options",
    "service_tiers",
    "structured_output",
    "tool_search",
    "function_tools",
    "message_images",
    "image_urls",
    "function_result_images",
    "subagents",
    "subagent_observations",
    "subagent_control",
    "mcp_http_tools",
    "mcp_http_required",
    "mcp_http_bearer_auth",
    "mcp_service_origin",
    "mcp_environment_origin",
    "mcp_stdio",
    "plugin_mcp_http",
    "plugin_mcp_stdio",
    "skills",
    "plugins",
    "capability_directories",
    "token_usage",
    "remote_tools",
];

/// What every Session takes of its harness, in the placement that it runs in (RP-7.3).
pub const EVERY_SESSION: &[&str] = &["streaming", "tool_observations", "execution_controls"];

/// Why a preparation may fail (RP-10.12).
pub const PREPARE_CODES: &[&str] = &[
    "preparation_failed",
    "invalid_configuration",
    "unsupported_configuration",
    "unsupported_preparation",
    "history_missing",
    "history_ambiguous",
    "history_in_use",
    "mcp_required_failed",
    "program_missing",
    "program_failed",
];

/// How a native failure may be classified (RP-11.5).
pub const FAILURE_CODES: &[&str] = &[
    "authentication_error",
    "rate_limit_exceeded",
    "usage_limit_exceeded",
    "server_overloaded",
    "server_error",
    "invalid_request",
    "resource_not_found",
    "request_timeout",
    "context_length_exceeded",
    "cyber_policy",
    "connection_failed",
];
