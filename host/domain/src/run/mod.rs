//! The neutral vocabulary of execution: what Core asks a Runtime for and what a Runtime reports back.
//!
//! It names no harness, no placement and no machine (RP-1.1). `protocol` puts it on the wire, `plugin-host` translates the
//! plugin contract to it, `projection` turns [`RunEvent`]s into Items and public events, and the store keeps what it must.
//! Everything here is plain data: unknown members and unknown cases are refused when it is read (RP-4.2).

mod binding;
mod capability;
mod configuration;
mod declaration;
mod event;
mod failure;
mod input;
mod item;
mod plugin;
mod receipt;

pub use binding::Binding;
pub use capability::{
    Abilities, Capability, CapabilityFlags, EXECUTION_NEEDS, PerPlacement, Placement, Support,
};
pub use configuration::{
    ExecutionConfiguration, Function, History, McpBearer, McpOrigin, McpServer, McpTransport,
    Model, ModelOptions, ModelProtocol, PermissionPolicy, ToolControls, Workspace,
};
pub use declaration::{
    Cancellation, Conflict, DeclarationHash, FunctionLimits, HarnessDeclaration, HarnessId,
    HarnessOffer, HistoryRecovery, InvalidHarnessId, McpLimits, MessageLimits, ModelSupport,
};
pub use event::{
    AgentChange, AgentFacts, ChildProgress, Delta, DeltaKind, EventBody, NativeSession, Notice,
    Origin, RunEvent, Usage,
};
pub use failure::{Done, FailureCode, RunFailure, TurnStatus};
pub use input::{InputMessage, MessagePart};
pub use item::{
    AgentContent, AgentOrder, AgentSend, AgentWait, ChangeKind, CommandRun, FileChange,
    FunctionCall, Item, ItemBody, ItemEnd, ItemStatus, McpCall, Message, NativeTool, Phase,
    Reasoning, SubagentCreate, WebAction,
};
pub use plugin::PluginIdentity;
pub use receipt::{Outcome, PrepareCode, PrepareState, PrepareStatus, RefusalCode};
