//! The contract as a table of C functions: how a native library and the host call each other.
//!
//! A library exports [`ENTRY`], a function without arguments that returns its [`PluginTable`]; the host hands a
//! [`HostTable`] into each call. Every argument and answer is one message: MessagePack with named fields, the records
//! of [`crate::generated`] as serde writes them, the arguments of an operation as a record of [`messages`]. The number of
//! an operation is its position in the interface from 1, and only grows; a host operation is 100 × interface + position.
//!
//! Memory goes back to whoever made it, through `free` of the same table. Nothing here runs code: the two halves are in
//! the SDK and in the host.

pub mod messages;

use std::ffi::c_void;

/// Name of the entry symbol; the generation of this table is part of it.
pub const ENTRY: &str = "berth_plugin_entry_v1";
/// First field of a [`PluginTable`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"berthplg");
/// The contract's major and minor version.
pub const CONTRACT: (u16, u16) = (0, 2);
/// Name of the section of an ELF library (and of the custom section of a component) that holds `plugin.toml`.
pub const MANIFEST_SECTION: &str = "berth-plugin-manifest";
/// Longest message either side accepts, in bytes.
pub const MESSAGE_BYTES: usize = 64 << 20;

/// What a library is, as its code says it.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginKind {
    /// A harness adapter.
    Harness = 1,
    /// A sandbox provider.
    Sandbox = 2,
    /// An MCP resolver.
    Resolver = 3,
}

/// Borrowed bytes, valid during the call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    /// First byte; not read when `len` is 0.
    pub ptr: *const u8,
    /// Number of bytes.
    pub len: usize,
}

/// Owned bytes of the table that they came from.
#[repr(C)]
#[derive(Debug)]
pub struct Buffer {
    /// First byte, or null for no bytes.
    pub ptr: *mut u8,
    /// Number of bytes.
    pub len: usize,
    /// What the maker needs to free them.
    pub capacity: usize,
}

impl Buffer {
    /// No bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            ptr: std::ptr::null_mut(),
            len: 0,
            capacity: 0,
        }
    }
}

/// The message is the answer.
pub const OK: i32 = 0;
/// The message is the operation's own error.
pub const ERROR: i32 = 1;
/// The arguments could not be read; no message.
pub const BAD_MESSAGE: i32 = 2;
/// It panicked; the message is text. The instance is of no use any more.
pub const PANICKED: i32 = 3;
/// No such operation; no message.
pub const UNKNOWN_OPERATION: i32 = 4;

/// What the host lends for the time of one call.
#[repr(C)]
#[derive(Debug)]
pub struct HostTable {
    /// Size of this table in bytes; a later one is longer.
    pub size: u32,
    /// Handed back to `call`.
    pub context: *const c_void,
    /// Runs a host operation, from any thread, while the call lasts.
    pub call: unsafe extern "C" fn(
        context: *const c_void,
        operation: u32,
        input: Slice,
        output: *mut Buffer,
    ) -> i32,
    /// Frees an output of `call`.
    pub free: unsafe extern "C" fn(Buffer),
}

/// What a library offers. Only [`PluginTable::size`] says which fields are there.
#[repr(C)]
#[derive(Debug)]
pub struct PluginTable {
    /// [`MAGIC`].
    pub magic: u64,
    /// Size of this table in bytes; a later one is longer.
    pub size: u32,
    /// Must be the host's.
    pub contract_major: u16,
    /// While the major version is 0 it must be the host's, too.
    pub contract_minor: u16,
    /// A [`PluginKind`]; must be the one of the manifest.
    pub kind: u32,
    /// Text of `plugin.toml`, for ever.
    pub manifest: Slice,
    /// Runs an operation that belongs to no instance, from any thread.
    pub call_static: unsafe extern "C" fn(
        host: *const HostTable,
        operation: u32,
        input: Slice,
        output: *mut Buffer,
    ) -> i32,
    /// Makes an instance (`session.open`); it is used by one call at a time.
    pub open: unsafe extern "C" fn(
        host: *const HostTable,
        input: Slice,
        instance: *mut *mut c_void,
        output: *mut Buffer,
    ) -> i32,
    /// Runs an operation of an instance.
    pub call: unsafe extern "C" fn(
        instance: *mut c_void,
        host: *const HostTable,
        operation: u32,
        input: Slice,
        output: *mut Buffer,
    ) -> i32,
    /// Ends an instance.
    pub close: unsafe extern "C" fn(instance: *mut c_void),
    /// Frees an output of this table.
    pub free: unsafe extern "C" fn(Buffer),
}

// SAFETY: the only pointer in it is `manifest`, which is never written and lives as long as the library.
unsafe impl Sync for PluginTable {}
// SAFETY: as for `Sync`.
unsafe impl Send for PluginTable {}

/// Operations of a plugin of each kind, in the order of its interface.
pub mod operation {
    /// `features`, first in every interface.
    pub const FEATURES: u32 = 1;

    /// `harness-adapter`.
    pub mod harness {
        /// `describe`.
        pub const DESCRIBE: u32 = 2;
        /// `interpret-probe`.
        pub const INTERPRET_PROBE: u32 = 3;
        /// `session.open`, through [`super::super::PluginTable::open`].
        pub const OPEN: u32 = 4;
        /// `session.step`, on an instance.
        pub const STEP: u32 = 5;
    }

    /// `sandbox-provider`.
    pub mod sandbox {
        /// `describe`.
        pub const DESCRIBE: u32 = 2;
        /// `check`.
        pub const CHECK: u32 = 3;
        /// `create`.
        pub const CREATE: u32 = 4;
        /// `inspect`.
        pub const INSPECT: u32 = 5;
        /// `renew`.
        pub const RENEW: u32 = 6;
        /// `suspend`.
        pub const SUSPEND: u32 = 7;
        /// `resume`.
        pub const RESUME: u32 = 8;
        /// `kill`.
        pub const KILL: u32 = 9;
        /// `list-owned`.
        pub const LIST_OWNED: u32 = 10;
        /// `observe`.
        pub const OBSERVE: u32 = 11;
    }

    /// `mcp-resolver`.
    pub mod resolver {
        /// `resolve`.
        pub const RESOLVE: u32 = 2;
    }

    /// The host's own.
    pub mod host {
        /// `log.emit`.
        pub const LOG_EMIT: u32 = 101;
        /// `clock.now-ms`.
        pub const CLOCK_NOW: u32 = 201;
        /// `clock.sleep-ms`.
        pub const CLOCK_SLEEP: u32 = 202;
        /// `random.bytes`.
        pub const RANDOM_BYTES: u32 = 301;
        /// `state.get`.
        pub const STATE_GET: u32 = 401;
        /// `state.put`.
        pub const STATE_PUT: u32 = 402;
        /// `state.delete`.
        pub const STATE_DELETE: u32 = 403;
        /// `http.send`.
        pub const HTTP_SEND: u32 = 501;
        /// `program.run`.
        pub const PROGRAM_RUN: u32 = 601;
        /// `machine.probe`.
        pub const MACHINE_PROBE: u32 = 701;
        /// `machine.start`.
        pub const MACHINE_START: u32 = 702;
        /// `machine.inspect`.
        pub const MACHINE_INSPECT: u32 = 703;
        /// `machine.stop`.
        pub const MACHINE_STOP: u32 = 704;
        /// `machine.owned`.
        pub const MACHINE_OWNED: u32 = 705;
    }
}
