//! Every method that the server may send, classified. A test compares these lists with the schema that the pinned
//! Codex prints about itself, so a new method cannot be overlooked (F02).

/// What a notification means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// `turn/started`.
    TurnStarted,
    /// `turn/completed`.
    TurnCompleted,
    /// `item/started`.
    ItemStarted,
    /// `item/completed`.
    ItemCompleted,
    /// A piece of an assistant message.
    MessageDelta,
    /// A piece of a reasoning summary.
    SummaryDelta,
    /// A piece of a command's output.
    CommandDelta,
    /// Token counters.
    Usage,
    /// A failure that is retried or ends the Turn.
    Error,
    /// A warning for the log.
    Warning,
    /// The thread is no longer usable in this process.
    ThreadGone,
    /// Known and of no use: what it says comes in another way, or belongs to a feature that is off.
    Ignored,
}

/// What a request of the server asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// May this command run?
    Command,
    /// May these files change?
    FileChange,
    /// May these further permissions be used?
    Permissions,
    /// May this patch or command go on? (of the older interface)
    Review,
    /// What does the user answer? Nobody is there.
    UserInput,
    /// What does the user tell this MCP server? Nobody is there.
    Elicitation,
    /// Run this client tool. None was offered.
    ClientTool,
    /// Something that only a client with an account of its own has.
    Account,
}

/// The meaning of a notification; none = never seen before.
#[must_use]
pub fn notification(method: &str) -> Option<Notification> {
    use Notification as N;
    Some(match method {
        "turn/started" => N::TurnStarted,
        "turn/completed" => N::TurnCompleted,
        "item/started" => N::ItemStarted,
        "item/completed" => N::ItemCompleted,
        "item/agentMessage/delta" => N::MessageDelta,
        "item/reasoning/summaryTextDelta" => N::SummaryDelta,
        "item/commandExecution/outputDelta" => N::CommandDelta,
        "thread/tokenUsage/updated" => N::Usage,
        "error" => N::Error,
        "warning"
        | "configWarning"
        | "deprecationNotice"
        | "guardianWarning"
        | "model/rerouted"
        | "model/verification"
        | "windows/worldWritableWarning" => N::Warning,
        "thread/closed" | "thread/deleted" | "thread/archived" | "thread/reverted" => N::ThreadGone,
        _ if IGNORED.contains(&method) => N::Ignored,
        _ => return None,
    })
}

/// The meaning of a request; none = never seen before.
#[must_use]
pub fn question(method: &str) -> Option<Question> {
    use Question as Q;
    Some(match method {
        "item/commandExecution/requestApproval" => Q::Command,
        "item/fileChange/requestApproval" => Q::FileChange,
        "item/permissions/requestApproval" => Q::Permissions,
        "applyPatchApproval" | "execCommandApproval" => Q::Review,
        "item/tool/requestUserInput" => Q::UserInput,
        "mcpServer/elicitation/request" => Q::Elicitation,
        "item/tool/call" => Q::ClientTool,
        "account/chatgptAuthTokens/refresh" | "attestation/generate" => Q::Account,
        _ => return None,
    })
}

const IGNORED: &[&str] = &[
    // Told again, and authoritatively, by items, the Turn's end or usage.
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "item/plan/delta",
    "item/reasoning/summaryPartAdded",
    "item/reasoning/textDelta",
    "serverRequest/resolved",
    "thread/compacted",
    "thread/started",
    "thread/status/changed",
    "turn/diff/updated",
    "turn/plan/updated",
    // About the client's own screens, accounts, files and lists.
    "account/gatewayOAuth/changed",
    "account/login/completed",
    "account/rateLimits/updated",
    "account/updated",
    "app/list/updated",
    "command/exec/outputDelta",
    "externalAgentConfig/import/completed",
    "externalAgentConfig/import/progress",
    "fs/changed",
    "fuzzyFileSearch/sessionCompleted",
    "fuzzyFileSearch/sessionUpdated",
    "mcpServer/event/stream/notification",
    "mcpServer/oauthLogin/completed",
    "mcpServer/startupStatus/updated",
    "modelProvider/authRecoveryCompleted",
    "modelProvider/authRecoveryStarted",
    "process/exited",
    "process/outputDelta",
    "project/changed",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/attachment/updated",
    "thread/environment/connected",
    "thread/environment/disconnected",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/prediction/updated",
    "thread/project/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/search/partial",
    "thread/section/changed",
    "thread/settings/updated",
    "thread/unarchived",
    "windowsSandbox/setupCompleted",
    // Of features that the generated configuration turns off.
    "autoApprovalReview/strictReviewRequired",
    "hook/completed",
    "hook/started",
    "item/autoApprovalReview/completed",
    "item/autoApprovalReview/started",
    "model/safetyBuffering/updated",
    "thread/realtime/closed",
    "thread/realtime/error",
    "thread/realtime/item/completed",
    "thread/realtime/item/started",
    "thread/realtime/item/transcript/delta",
    "thread/realtime/itemAdded",
    "thread/realtime/outputAudio/delta",
    "thread/realtime/sdp",
    "thread/realtime/started",
    "thread/realtime/transcript/delta",
    "thread/realtime/transcript/done",
    "turn/moderationMetadata",
];
