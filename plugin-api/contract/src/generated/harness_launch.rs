//! What the host starts, writes and reads for an adapter. The adapter opens nothing itself.
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::common::{Encoding, Extra};

/// A value that only the host knows and fills in last; secrets among them never enter the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Fill {
    /// Base address of this session's model relay, without a trailing slash and without `/v1`.
    #[cfg_attr(feature = "component", component(name = "relay-url"))]
    RelayUrl,
    /// Its token, good for one session and one model provider.
    #[cfg_attr(feature = "component", component(name = "relay-token"))]
    RelayToken,
    /// Bearer of the MCP server with this label.
    #[cfg_attr(feature = "component", component(name = "mcp-bearer"))]
    McpBearer(String),
    /// Address of the host-served tool endpoint (streamable-HTTP MCP on loopback).
    #[cfg_attr(feature = "component", component(name = "tool-url"))]
    ToolUrl,
    /// Its bearer.
    #[cfg_attr(feature = "component", component(name = "tool-token"))]
    ToolToken,
    /// A later value; a host that does not know it refuses the output.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// Where a value goes and how it is written there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct FillPiece {
    /// Which one.
    pub value: Fill,
    /// How it is written.
    pub encoding: Encoding,
}

/// A stretch of a file, of a variable or of standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Piece {
    /// UTF-8 text; the usual single piece.
    #[cfg_attr(feature = "component", component(name = "text"))]
    Text(String),
    /// Raw bytes.
    #[cfg_attr(feature = "component", component(name = "bytes"))]
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Filled in by the host.
    #[cfg_attr(feature = "component", component(name = "fill"))]
    Fill(FillPiece),
}

/// One environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// The pieces are joined.
    pub value: Vec<Piece>,
}

/// What an entry of the private home is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum HomeContent {
    /// A file; written beside and renamed, an equal one is left alone.
    #[cfg_attr(feature = "component", component(name = "file"))]
    File(Vec<Piece>),
    /// A folder.
    #[cfg_attr(feature = "component", component(name = "folder"))]
    Folder,
    /// The installed Skill of this name, as real folders with immutable hard links or copies (ENV-551).
    #[cfg_attr(feature = "component", component(name = "skill"))]
    Skill(String),
    /// Removes what is there.
    #[cfg_attr(feature = "component", component(name = "absent"))]
    Absent,
}

/// One entry of the private home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct HomeEntry {
    /// Relative to the home, clean, no link on the way.
    pub path: String,
    /// Permission bits; 0o600 where a `fill` is inside.
    pub mode: u32,
    /// Content.
    pub content: HomeContent,
}

/// How standard output is cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Framing {
    /// At LF only; UTF-8 checked; longest line in bytes, at most 16 MiB.
    #[cfg_attr(feature = "component", component(name = "lines"))]
    Lines(u32),
    /// Not at all.
    #[cfg_attr(feature = "component", component(name = "raw"))]
    Raw,
}

/// The directory a process starts in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum Directory {
    /// The workspace; the home where there is none.
    #[cfg_attr(feature = "component", component(name = "workspace"))]
    Workspace,
    /// The private home.
    #[cfg_attr(feature = "component", component(name = "home"))]
    Home,
}

#[cfg(target_arch = "wasm32")]
impl Directory {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Workspace,
            _ => Self::Home,
        }
    }
}

/// A loopback MCP endpoint that the host serves for this session; each offer is a server of its own under `tool-url`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ToolEndpoint {
    /// `/functions`: the declared functions; calls come as `tool-call` inputs and are answered by `answer-tool`.
    pub functions: bool,
    /// `/workspace`: file and shell tools of a runner, answered by the host alone (API-144).
    pub workspace: bool,
}

/// One process to start, once. The host adds PATH, HOME, locale and the Session's `env`; a name given here wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct LaunchPlan {
    /// The adapter's number for it; 0 is the agent. At most 4 at a time.
    pub process: u32,
    /// A program name of the declaration's `[[harness]]` install entry, never a path.
    pub program: String,
    /// Arguments; no secret can get here (ENV-601).
    pub args: Vec<String>,
    /// Environment; nothing of the daemon's own is inherited (RP-16.7).
    pub env: Vec<Variable>,
    /// Written into the home before the start.
    pub home: Vec<HomeEntry>,
    /// Working directory.
    pub directory: Directory,
    /// Framing of standard output; standard error goes to a bounded log and is never parsed.
    pub framing: Framing,
    /// Host-served tools, if wanted.
    pub tools: Option<ToolEndpoint>,
    /// Growth without a new contract.
    pub more: Vec<Extra>,
}

/// A question about the private home; never about the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum LookQuery {
    /// Files below a folder, at most two levels deep and 1000 entries.
    #[cfg_attr(feature = "component", component(name = "entries"))]
    Entries(String),
    /// The first 256 KiB of a file.
    #[cfg_attr(feature = "component", component(name = "head"))]
    Head(String),
    /// The last 256 KiB of a file.
    #[cfg_attr(feature = "component", component(name = "tail"))]
    Tail(String),
}

/// One file of the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct HomeFile {
    /// Relative path.
    pub path: String,
    /// Bytes.
    pub size: u64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum LookAnswer {
    /// Files, sorted by path.
    #[cfg_attr(feature = "component", component(name = "entries"))]
    Entries(Vec<HomeFile>),
    /// Bytes.
    #[cfg_attr(feature = "component", component(name = "content"))]
    Content(#[serde(with = "serde_bytes")] Vec<u8>),
    /// It is not there.
    #[cfg_attr(feature = "component", component(name = "missing"))]
    Missing,
    /// It could not be read; a fixed code.
    #[cfg_attr(feature = "component", component(name = "failed"))]
    Failed(String),
}
