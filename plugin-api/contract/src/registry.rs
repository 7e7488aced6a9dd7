//! How a plugin that is linked into the binary is found: one [`inventory`] list for each kind.
//!
//! A crate that nobody names is not linked, so the binary names each built-in plugin once (`use harness_codex as _;`).

use crate::{HarnessAdapter, McpResolver, SandboxProvider};

/// A linked harness adapter.
pub struct HarnessPlugin {
    /// Text of its `plugin.toml`, see [`crate::manifest::Manifest`].
    pub manifest: &'static str,
    /// Makes the adapter; cheap, called once.
    pub create: fn() -> Box<dyn HarnessAdapter>,
}

/// A linked sandbox provider.
pub struct SandboxPlugin {
    /// Text of its `plugin.toml`.
    pub manifest: &'static str,
    /// Makes the provider; cheap, called once.
    pub create: fn() -> Box<dyn SandboxProvider>,
}

/// A linked MCP resolver.
pub struct ResolverPlugin {
    /// Text of its `plugin.toml`.
    pub manifest: &'static str,
    /// Makes the resolver; cheap, called once.
    pub create: fn() -> Box<dyn McpResolver>,
}

inventory::collect!(HarnessPlugin);
inventory::collect!(SandboxPlugin);
inventory::collect!(ResolverPlugin);

/// All linked harness adapters, in no particular order.
pub fn harnesses() -> impl Iterator<Item = &'static HarnessPlugin> {
    inventory::iter::<HarnessPlugin>.into_iter()
}

/// All linked sandbox providers, in no particular order.
pub fn sandboxes() -> impl Iterator<Item = &'static SandboxPlugin> {
    inventory::iter::<SandboxPlugin>.into_iter()
}

/// All linked MCP resolvers, in no particular order.
pub fn resolvers() -> impl Iterator<Item = &'static ResolverPlugin> {
    inventory::iter::<ResolverPlugin>.into_iter()
}
