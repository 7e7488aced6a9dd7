//! Registration of plugins that are linked into the binary.

/// Registers a harness adapter: `harness_plugin!(include_str!("../plugin.toml"), || Box::new(Codex));`
#[macro_export]
macro_rules! harness_plugin {
    ($manifest:expr, $create:expr) => {
        $crate::private::inventory::submit! {
            $crate::private::registry::HarnessPlugin { manifest: $manifest, create: $create }
        }
    };
}

/// Registers a sandbox provider: `sandbox_plugin!(include_str!("../plugin.toml"), || Box::new(Local));`
#[macro_export]
macro_rules! sandbox_plugin {
    ($manifest:expr, $create:expr) => {
        $crate::private::inventory::submit! {
            $crate::private::registry::SandboxPlugin { manifest: $manifest, create: $create }
        }
    };
}

/// Registers an MCP resolver: `resolver_plugin!(include_str!("../plugin.toml"), || Box::new(Bindings));`
#[macro_export]
macro_rules! resolver_plugin {
    ($manifest:expr, $create:expr) => {
        $crate::private::inventory::submit! {
            $crate::private::registry::ResolverPlugin { manifest: $manifest, create: $create }
        }
    };
}
