//! The plugins that are part of this program. A crate that nobody names is not linked, so each is named here, and only here.

use harness_codex as _;
use mcp_bindings as _;
use sandbox_local as _;
