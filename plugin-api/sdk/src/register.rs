//! What makes a plugin of a crate.

/// Makes a harness adapter of this crate: `harness_plugin!(include_str!("../plugin.toml"), || Box::new(Codex));`
#[macro_export]
macro_rules! harness_plugin {
    ($manifest:expr, $create:expr) => {
        $crate::__plugin!(
            HarnessPlugin,
            Harness,
            dyn $crate::HarnessAdapter,
            $manifest,
            $create
        );
        #[cfg(target_arch = "wasm32")]
        $crate::component::export_harness!(__BerthPlugin);
    };
}

/// Makes a sandbox provider of this crate: `sandbox_plugin!(include_str!("../plugin.toml"), || Box::new(Local));`
#[macro_export]
macro_rules! sandbox_plugin {
    ($manifest:expr, $create:expr) => {
        $crate::__plugin!(
            SandboxPlugin,
            Sandbox,
            dyn $crate::SandboxProvider,
            $manifest,
            $create
        );
        #[cfg(target_arch = "wasm32")]
        $crate::component::export_sandbox!(__BerthPlugin, $manifest);
    };
}

/// Makes an MCP resolver of this crate: `resolver_plugin!(include_str!("../plugin.toml"), || Box::new(Bindings));`
#[macro_export]
macro_rules! resolver_plugin {
    ($manifest:expr, $create:expr) => {
        $crate::__plugin!(
            ResolverPlugin,
            Resolver,
            dyn $crate::McpResolver,
            $manifest,
            $create
        );
        #[cfg(target_arch = "wasm32")]
        $crate::component::export_resolver!(__BerthPlugin);
    };
}

/// The part that all kinds share.
#[doc(hidden)]
#[macro_export]
macro_rules! __plugin {
    ($entry:ident, $kind:ident, $driver:ty, $manifest:expr, $create:expr) => {
        #[cfg(not(any(target_arch = "wasm32", feature = "native")))]
        $crate::private::inventory::submit! {
            $crate::private::registry::$entry { manifest: $manifest, create: $create }
        }

        // The manifest is read from its section before a line of the plugin runs.
        #[cfg(any(target_arch = "wasm32", feature = "native"))]
        #[used]
        #[cfg_attr(
            any(target_arch = "wasm32", not(target_vendor = "apple")),
            unsafe(link_section = "berth-plugin-manifest")
        )]
        #[cfg_attr(
            target_vendor = "apple",
            unsafe(link_section = "__DATA,__berth_plugin")
        )]
        static __BERTH_MANIFEST: [u8; $manifest.len()] = $crate::private::bytes($manifest);

        #[cfg(target_arch = "wasm32")]
        #[doc(hidden)]
        pub struct __BerthPlugin;

        #[cfg(target_arch = "wasm32")]
        impl $crate::component::Plugin<$driver> for __BerthPlugin {
            fn create() -> Box<$driver> {
                let create: fn() -> Box<$driver> = $create;
                create()
            }
        }

        #[cfg(all(not(target_arch = "wasm32"), feature = "native"))]
        const _: () = {
            use $crate::native::Plugin;
            use $crate::private::native::{Buffer, HostTable, PluginTable, Slice};

            static PLUGIN: Plugin = Plugin::$kind($crate::native::Made::new($create));
            static TABLE: PluginTable = $crate::native::table(
                $crate::private::native::PluginKind::$kind,
                &__BERTH_MANIFEST,
                call_static,
                open,
            );

            unsafe extern "C" fn call_static(
                host: *const HostTable,
                operation: u32,
                input: Slice,
                output: *mut Buffer,
            ) -> i32 {
                // SAFETY: the host keeps the promises of the table (`contract::native`).
                unsafe { $crate::native::call_static(&PLUGIN, host, operation, input, output) }
            }

            unsafe extern "C" fn open(
                host: *const HostTable,
                input: Slice,
                instance: *mut *mut ::core::ffi::c_void,
                output: *mut Buffer,
            ) -> i32 {
                // SAFETY: as above.
                unsafe { $crate::native::open(&PLUGIN, host, input, instance, output) }
            }

            /// The table of this plugin (`contract::native::ENTRY`).
            #[unsafe(no_mangle)]
            pub extern "C" fn berth_plugin_entry_v1() -> *const PluginTable {
                &raw const TABLE
            }
        };
    };
}
