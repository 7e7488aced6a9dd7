//! Bindings of a component's own side, one world each, over the types of [`crate::generated`]. Only the world that a
//! plugin exports reaches its component, and of that only the imports it calls.

#![allow(
    missing_docs,
    clippy::all,
    reason = "written by the macro; the WIT has the text"
)]

macro_rules! world {
    ($module:ident, $world:literal, {$($interface:literal: $types:path,)*}) => {
        pub mod $module {
            wit_bindgen::generate!({
                path: "wit",
                world: $world,
                with: { $($interface: $types,)* },
                pub_export_macro: true,
                generate_all,
            });
        }
    };
}

world!(harness, "harness-adapter-plugin", {
    "berth:plugin/common@0.2.0": crate::generated::common,
    "berth:plugin/harness-declaration@0.2.0": crate::generated::harness_declaration,
    "berth:plugin/harness-session@0.2.0": crate::generated::harness_session,
    "berth:plugin/harness-events@0.2.0": crate::generated::harness_events,
    "berth:plugin/harness-launch@0.2.0": crate::generated::harness_launch,
    "berth:plugin/harness-io@0.2.0": crate::generated::harness_io,
});
world!(sandbox, "sandbox-provider-plugin", {
    "berth:plugin/common@0.2.0": crate::generated::common,
    "berth:plugin/host-types@0.2.0": crate::generated::host_types,
    "berth:plugin/machine-types@0.2.0": crate::generated::machine_types,
    "berth:plugin/sandbox-types@0.2.0": crate::generated::sandbox_types,
});
world!(resolver, "mcp-resolver-plugin", {
    "berth:plugin/common@0.2.0": crate::generated::common,
    "berth:plugin/mcp-types@0.2.0": crate::generated::mcp_types,
});

/// The runtime of the bindings, for the export macros.
pub use wit_bindgen;
