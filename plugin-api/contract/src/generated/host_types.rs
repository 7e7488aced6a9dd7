//! Data of the capabilities `http` and `program`.
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::common::{Encoding, Extra, Pair};

/// A secret by name; the value never enters the plugin (architecture.md 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum SecretRef {
    /// A `secret` setting of the manifest that the operator filled in.
    #[cfg_attr(feature = "component", component(name = "setting"))]
    Setting(String),
    /// The whole bootstrap file of the present allocation, at most 16 KiB of JSON (SP-5.2).
    #[cfg_attr(feature = "component", component(name = "bootstrap-file"))]
    BootstrapFile,
    /// A value that an earlier `capture` of the present allocation stored.
    #[cfg_attr(feature = "component", component(name = "captured"))]
    Captured(String),
}

/// Where a secret goes and how it is written there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct SecretPiece {
    /// Which one.
    pub secret: SecretRef,
    /// How it is written.
    pub encoding: Encoding,
}

/// A stretch of text, plain or filled in by the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum TextPiece {
    /// Plain text.
    #[cfg_attr(feature = "component", component(name = "text"))]
    Text(String),
    /// Filled in while sending, after all checks.
    #[cfg_attr(feature = "component", component(name = "secret"))]
    Secret(SecretPiece),
}

/// One request header; the pieces are joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Header {
    /// Lower-case name; `host`, `content-length`, `connection` and `transfer-encoding` belong to the host.
    pub name: String,
    /// No CR, LF or NUL, neither here nor in a filled-in value.
    pub value: Vec<TextPiece>,
}

/// Bytes that the host has and the plugin only names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ArtifactRef {
    /// `berth-runtime`: the static daemon.
    pub name: String,
    /// `linux`.
    pub os: String,
    /// `x86_64` or `aarch64`.
    pub arch: String,
}

/// A stretch of a body, of a file or of standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum BodyPiece {
    /// UTF-8 text.
    #[cfg_attr(feature = "component", component(name = "text"))]
    Text(String),
    /// Raw bytes.
    #[cfg_attr(feature = "component", component(name = "bytes"))]
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Filled in by the host.
    #[cfg_attr(feature = "component", component(name = "secret"))]
    Secret(SecretPiece),
    /// Streamed by the host.
    #[cfg_attr(feature = "component", component(name = "artifact"))]
    Artifact(ArtifactRef),
}

/// What a tar entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum TarKind {
    /// A regular file.
    #[cfg_attr(feature = "component", component(name = "file"))]
    File,
    /// A folder; its content is empty.
    #[cfg_attr(feature = "component", component(name = "folder"))]
    Folder,
}

#[cfg(target_arch = "wasm32")]
impl TarKind {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::File,
            _ => Self::Folder,
        }
    }
}

/// One entry of an archive that the host builds (Docker's archive upload).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct TarEntry {
    /// Relative, clean, at most 255 bytes.
    pub path: String,
    /// File or folder.
    pub kind: TarKind,
    /// Permission bits, such as 0o600 for the bootstrap file.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The host measures and joins it.
    pub content: Vec<BodyPiece>,
}

/// The body of a request; its length is computed by the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum Body {
    /// No body.
    #[cfg_attr(feature = "component", component(name = "empty"))]
    Empty,
    /// Joined in order.
    #[cfg_attr(feature = "component", component(name = "pieces"))]
    Pieces(Vec<BodyPiece>),
    /// A tar archive.
    #[cfg_attr(feature = "component", component(name = "tar"))]
    Tar(Vec<TarEntry>),
    /// A later kind of body; a host that does not know it sends nothing.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// Takes a secret out of a JSON answer before the plugin sees the answer (E2B's access tokens).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Capture {
    /// RFC 6901 pointer to a string; the answer then holds `"<captured>"` there. A missing member is no error.
    pub pointer: String,
    /// Name for `secret-ref.captured`; sealed and durable before `send` returns (SP-14.2).
    pub name: String,
}

/// When to stop reading a stream that does not end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct PartialRead {
    /// At least so many bytes came …
    #[cfg_attr(feature = "component", component(name = "at-least-bytes"))]
    pub at_least_bytes: u32,
    /// … and nothing more for so long.
    #[cfg_attr(feature = "component", component(name = "quiet-ms"))]
    pub quiet_ms: u32,
}

/// How much of the answer is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum ReadMode {
    /// Until it ends.
    #[cfg_attr(feature = "component", component(name = "whole"))]
    Whole,
    /// Then the connection is closed.
    #[cfg_attr(feature = "component", component(name = "partial"))]
    Partial(PartialRead),
}

/// One request. The host sends it at most once, follows no redirect and keeps no cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Request {
    /// Name of an `[[endpoint]]` of the manifest: a URL or a Unix socket that the operator granted; never a free address.
    pub endpoint: String,
    /// Values for `{name}` in the endpoint's address, each one DNS label (E2B: sandbox id and port).
    pub labels: Vec<Pair>,
    /// In the endpoint's list of methods.
    pub method: String,
    /// Starts with `/`, percent-encoded, query included.
    pub path: String,
    /// At most 64.
    pub headers: Vec<Header>,
    /// The body.
    pub body: Body,
    /// How much of the answer is wanted.
    pub read: ReadMode,
    /// Secrets in the answer.
    pub captures: Vec<Capture>,
    /// Bound of the answer, at most 8 MiB; more is a failure with effect `unknown`.
    #[cfg_attr(feature = "component", component(name = "max-body-bytes"))]
    pub max_body_bytes: u32,
    /// Whole exchange, 1..120 000 ms, never past the deadline of the call.
    #[cfg_attr(feature = "component", component(name = "timeout-ms"))]
    pub timeout_ms: u32,
}

/// The answer, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Lower-case names; values of `set-cookie` are left out.
    pub headers: Vec<Pair>,
    /// The bytes, captures replaced.
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
    /// False after a partial read that did not reach the end.
    pub complete: bool,
}

/// One environment variable of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct ProgramVariable {
    /// Its name.
    pub name: String,
    /// The pieces are joined.
    pub value: Vec<TextPiece>,
}

/// A short-lived program, started with an empty environment and without a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Command {
    /// Name of a `[[program]]` of the manifest; the host knows the path and checks its digest (SP section 15).
    pub program: String,
    /// Must match the patterns of the grant; never a secret.
    pub args: Vec<String>,
    /// All the environment it gets.
    pub env: Vec<ProgramVariable>,
    /// Standard input, then closed.
    pub stdin: Vec<BodyPiece>,
    /// 1..120 000 ms, then the whole tree is killed and the effect is `unknown`.
    #[cfg_attr(feature = "component", component(name = "timeout-ms"))]
    pub timeout_ms: u32,
    /// Bound of each stream, at most 8 MiB; the rest is dropped.
    #[cfg_attr(feature = "component", component(name = "max-output-bytes"))]
    pub max_output_bytes: u32,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Finished {
    /// Exit code, or none after a signal.
    #[cfg_attr(feature = "component", component(name = "exit-code"))]
    pub exit_code: Option<i32>,
    /// Standard output.
    #[serde(with = "serde_bytes")]
    pub stdout: Vec<u8>,
    /// Standard error.
    #[serde(with = "serde_bytes")]
    pub stderr: Vec<u8>,
    /// Whether something was dropped.
    pub truncated: bool,
}
