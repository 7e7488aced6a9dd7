//! The private home: `config.toml` and the model catalog. Both are written before the start and again before every
//! Turn, because the agent's own commands could have changed them (CDX-002).

use sdk::common::Encoding;
use sdk::harness_launch::{Fill, FillPiece, HomeContent, HomeEntry, Piece};
use serde_json::json;

use crate::check::{EFFORTS, Place, Setup};

/// Name of our `[model_providers]` block; threads are pinned to it (CDX-003).
pub const PROVIDER: &str = "berth";
/// Variable with the relay's token. `TOKEN` in the name keeps it out of the commands' environment.
pub const TOKEN_VARIABLE: &str = "BERTH_RELAY_TOKEN";

/// What a model is told it is, where the agent brings no words of its own; the agent's instructions come on top.
const PROMPT_HERE: &str = "You are an agent that works in a workspace on behalf of a user who is not watching. \
Run shell commands with exec_command and change files with apply_patch. Work in the current directory unless told \
otherwise, verify what you did, keep going until the task is done, and end with a short answer that says what you \
found or changed. Nobody can answer questions while you work.";
const PROMPT_ABSENT: &str = "You are a helpful assistant. You have no tools, no files and no shell; answer from the \
conversation alone.";

/// Both files.
pub fn home(setup: &Setup) -> Vec<HomeEntry> {
    vec![
        file("config.toml", config(setup)),
        file("models.json", vec![Piece::Text(catalog(setup))]),
    ]
}

fn file(path: &str, pieces: Vec<Piece>) -> HomeEntry {
    HomeEntry {
        path: path.into(),
        mode: 0o600,
        content: HomeContent::File(pieces),
    }
}

fn config(setup: &Setup) -> Vec<Piece> {
    let model = quoted(&setup.model.id);
    let catalog = quoted(&format!("{}/models.json", setup.home));
    let cwd = quoted(setup.cwd());
    let effort = option("model_reasoning_effort", setup.effort.as_deref());
    let verbosity = option("model_verbosity", setup.verbosity.as_deref());
    // Without an Environment even the names of native tools are gone (CDX-005).
    let tools = match setup.place {
        Place::Absent => "shell_tool = false\nview_image = false\n",
        Place::Here(_) => "",
    };
    let before = format!(
        r#"model = {model}
model_provider = "{PROVIDER}"
model_catalog_json = {catalog}
approval_policy = "never"
sandbox_mode = "danger-full-access"
web_search = "disabled"
check_for_update_on_startup = false
{effort}{verbosity}
[analytics]
enabled = false

[agents]
enabled = false

[skills.bundled]
enabled = false

[tools.experimental_request_user_input]
enabled = false

[shell_environment_policy]
ignore_default_excludes = false

[features]
api_key_model_discovery = false
apps = false
auth_elicitation = false
code_mode = false
code_mode_only = false
code_mode_prewarm = false
enable_request_compression = false
goals = false
hooks = false
image_generation = false
instant_interrupt = false
memories = false
multi_agent_v2 = false
plugins = false
remote_plugin = false
skill_mcp_dependency_install = false
tool_suggest = false
unbounded_connection_retries = false
{tools}
# Without this line Codex trusts the folder by itself and starts what its own .codex/config.toml names (CDX-011).
[projects.{cwd}]
trust_level = "untrusted"

[model_providers.{PROVIDER}]
name = "{PROVIDER}"
wire_api = "responses"
env_key = "{TOKEN_VARIABLE}"
request_max_retries = 2
stream_max_retries = 2
stream_idle_timeout_ms = 300000
base_url = ""#
    );
    vec![
        Piece::Text(before),
        Piece::Fill(FillPiece {
            value: Fill::RelayUrl,
            encoding: Encoding::JsonString,
        }),
        Piece::Text("/v1\"\n".into()),
    ]
}

/// Codex takes tools and request shape from model metadata, so the list is exactly the one model that is served.
fn catalog(setup: &Setup) -> String {
    let here = matches!(setup.place, Place::Here(_));
    let levels: Vec<_> = EFFORTS
        .iter()
        .map(|effort| json!({"effort": effort, "description": effort}))
        .collect();
    let mut entry = json!({
        "slug": setup.model.id,
        "display_name": setup.model.id,
        "supported_reasoning_levels": levels,
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": true,
        "priority": 1,
        "base_instructions": if here { PROMPT_HERE } else { PROMPT_ABSENT },
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "experimental_supported_tools": [],
        "support_verbosity": setup.verbosity.is_some(),
        "supports_parallel_tool_calls": true,
        "supports_reasoning_summaries": true,
        "input_modalities": ["text"],
    });
    if here {
        entry["apply_patch_tool_type"] = json!("freeform");
    }
    if let Some(window) = setup.model.context_window {
        entry["context_window"] = json!(window);
    }
    json!({"models": [entry]}).to_string()
}

fn option(key: &str, value: Option<&str>) -> String {
    value.map_or_else(String::new, |value| format!("{key} = {}\n", quoted(value)))
}

/// A TOML basic string. JSON's escapes are TOML's, but TOML also wants DEL escaped.
fn quoted(text: &str) -> String {
    json!(text).to_string().replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_quoted_string_cannot_end_early() {
        assert_eq!(quoted("a\"b\\\n\u{7f}"), r#""a\"b\\\n\u007F""#);
    }
}
