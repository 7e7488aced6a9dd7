//! A `ThreadItem` of Codex as a neutral Item.

use sdk::common::Extra;
use sdk::harness_events::{
    ChangeKind, CommandRun, FileChange, ItemBody, ItemStatus, McpCall, Message, NativeTool,
    PageSearch, Phase, Reasoning, WebAction,
};
use sdk::json::{bounded, counter, list, signed, string, string_at};
use serde_json::Value;

use crate::shell;

/// Longest JSON of a native tool that is kept for the log.
const TOOL_JSON: usize = 64 * 1024;

/// Items of tools that have no public Item, and of features that the generated configuration turns off.
const TOOLS: &[&str] = &[
    "collabAgentToolCall",
    "contextCompaction",
    "dynamicToolCall",
    "enteredReviewMode",
    "exitedReviewMode",
    "functionCallOutput",
    "imageGeneration",
    "imageView",
    "plan",
    "sleep",
    "subAgentActivity",
];

/// Whether this type of item was ever seen; one that was not is kept for the log only.
#[must_use]
pub fn knows_item(name: &str) -> bool {
    let told = [
        "userMessage",
        "hookPrompt",
        "agentMessage",
        "reasoning",
        "commandExecution",
    ];
    let public = ["fileChange", "mcpToolCall", "webSearch"];
    told.contains(&name) || public.contains(&name) || TOOLS.contains(&name)
}

/// The body; none for items that are not the agent's work, such as the user's own message.
pub fn body(item: &Value) -> Option<ItemBody> {
    let text = |member| string(item, member).map(str::to_owned);
    Some(match string(item, "type")? {
        "userMessage" | "hookPrompt" => return None,
        "agentMessage" => ItemBody::Message(Message {
            text: text("text").unwrap_or_default(),
            phase: phase(string(item, "phase")),
        }),
        "reasoning" => ItemBody::Reasoning(Reasoning {
            summary: strings(list(item, "summary")),
        }),
        "commandExecution" => ItemBody::Command(CommandRun {
            command: shell::script(string(item, "command").unwrap_or_default()),
            cwd: text("cwd"),
            output: string(item, "aggregatedOutput").map(shell::output),
            exit_code: signed(item, "exitCode"),
            duration_ms: counter(item, "durationMs"),
        }),
        "fileChange" => ItemBody::FileChanges(
            list(item, "changes")
                .iter()
                .filter_map(file_change)
                .collect(),
        ),
        "mcpToolCall" => ItemBody::McpCall(McpCall {
            label: text("server").unwrap_or_default(),
            name: text("tool").unwrap_or_default(),
            arguments: item["arguments"].to_string(),
            output: item
                .get("result")
                .filter(|result| !result.is_null())
                .map(Value::to_string),
            error: string_at(item, &["error", "message"]).map(str::to_owned),
        }),
        "webSearch" => ItemBody::WebSearch(web_action(item)),
        name if TOOLS.contains(&name) => ItemBody::NativeTool(NativeTool {
            name: name.to_owned(),
            input: Some(bounded(&item.to_string(), TOOL_JSON).to_owned()),
            output: None,
        }),
        _ => ItemBody::Other(Extra {
            kind: "harness-codex.item".into(),
            json: Value::from(bounded(&item.to_string(), TOOL_JSON / 2)).to_string(),
        }),
    })
}

/// How it ended. A command that was killed while the Turn was being cleaned up is cut off, not failed (S-CAN-5).
pub fn status(item: &Value, cleaning: bool) -> ItemStatus {
    let killed = cleaning && signed(item, "exitCode") == Some(-1);
    match string(item, "status") {
        Some("failed") if killed => ItemStatus::Incomplete,
        Some("failed" | "declined") => ItemStatus::Failed,
        Some("inProgress") => ItemStatus::Incomplete,
        _ => ItemStatus::Completed,
    }
}

/// -1 is what Codex says when it killed the command itself; that is no exit code.
pub fn without_made_up_exit(body: &mut ItemBody) {
    if let ItemBody::Command(command) = body {
        command.exit_code = command.exit_code.filter(|code| *code != -1);
    }
}

fn phase(name: Option<&str>) -> Option<Phase> {
    match name? {
        "commentary" => Some(Phase::Commentary),
        "final_answer" => Some(Phase::FinalAnswer),
        _ => None,
    }
}

fn file_change(change: &Value) -> Option<FileChange> {
    let moved_to = string_at(change, &["kind", "move_path"]).map(str::to_owned);
    let kind = match string_at(change, &["kind", "type"])? {
        "add" => ChangeKind::Add,
        "delete" => ChangeKind::Delete,
        _ if moved_to.is_some() => ChangeKind::Move,
        _ => ChangeKind::Update,
    };
    Some(FileChange {
        path: string(change, "path")?.to_owned(),
        moved_to,
        kind,
        diff: string(change, "diff").map(str::to_owned),
    })
}

fn web_action(item: &Value) -> WebAction {
    let action = &item["action"];
    let url = || string(action, "url").unwrap_or_default().to_owned();
    match string(action, "type") {
        Some("search") => WebAction::Search(queries(item, action)),
        Some("openPage") => WebAction::OpenPage(url()),
        Some("findInPage") => WebAction::FindInPage(PageSearch {
            url: url(),
            pattern: string(action, "pattern").unwrap_or_default().to_owned(),
        }),
        _ => match queries(item, action) {
            queries if queries.is_empty() => WebAction::Unspecified,
            queries => WebAction::Search(queries),
        },
    }
}

/// All query texts, the main one first.
fn queries(item: &Value, action: &Value) -> Vec<String> {
    let mut queries = strings(list(action, "queries"));
    let main = string(action, "query").or_else(|| string(item, "query"));
    if let Some(main) = main.filter(|main| !main.is_empty()) {
        queries.retain(|query| query != main);
        queries.insert(0, main.to_owned());
    }
    queries
}

fn strings(values: &[Value]) -> Vec<String> {
    values
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_moved_file_says_where_it_went() {
        let item = json!({"type": "fileChange", "id": "c", "status": "completed", "changes": [
            {"path": "a", "kind": {"type": "update", "move_path": "b"}, "diff": "@@"},
            {"path": "n", "kind": {"type": "add"}, "diff": "text"},
            {"kind": {"type": "add"}},
        ]});
        let Some(ItemBody::FileChanges(changes)) = body(&item) else {
            panic!("no file change")
        };
        assert_eq!(changes.len(), 2);
        assert_eq!(
            (changes[0].kind, changes[0].moved_to.as_deref()),
            (ChangeKind::Move, Some("b"))
        );
        assert_eq!(
            (changes[1].kind, changes[1].diff.as_deref()),
            (ChangeKind::Add, Some("text"))
        );
    }

    #[test]
    fn a_web_search_keeps_its_main_query_first() {
        let item = json!({"type": "webSearch", "id": "w", "query": "x",
            "action": {"type": "search", "query": "b", "queries": ["a", "b"]}});
        assert_eq!(
            body(&item),
            Some(ItemBody::WebSearch(WebAction::Search(vec![
                "b".into(),
                "a".into()
            ])))
        );
        let bare = json!({"type": "webSearch", "id": "w", "query": ""});
        assert_eq!(
            body(&bare),
            Some(ItemBody::WebSearch(WebAction::Unspecified))
        );
    }

    #[test]
    fn an_mcp_call_keeps_native_result_and_error() {
        let item = json!({"type": "mcpToolCall", "id": "m", "server": "s", "tool": "t", "arguments": {"a": 1},
            "status": "failed", "result": null, "error": {"message": "gone"}});
        let Some(ItemBody::McpCall(call)) = body(&item) else {
            panic!("no call")
        };
        assert_eq!(
            (call.arguments.as_str(), call.output, call.error.as_deref()),
            ("{\"a\":1}", None, Some("gone"))
        );
        assert_eq!(status(&item, false), ItemStatus::Failed);
    }

    #[test]
    fn a_killed_command_is_incomplete_only_while_cleaning() {
        let item = json!({"type": "commandExecution", "id": "c", "command": "x", "status": "failed", "exitCode": -1});
        assert_eq!(status(&item, true), ItemStatus::Incomplete);
        assert_eq!(status(&item, false), ItemStatus::Failed);
        let failed = json!({"type": "commandExecution", "status": "failed", "exitCode": 2});
        assert_eq!(status(&failed, true), ItemStatus::Failed);
    }
}
