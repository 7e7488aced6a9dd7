//! Opening a library, checking its table, and one call through it.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;

use contract::Host;
use contract::manifest::Kind;
use contract::native::{
    BAD_MESSAGE, Buffer, ENTRY, ERROR, HostTable, MAGIC, MESSAGE_BYTES, OK, PANICKED, PluginKind,
    PluginTable, Slice, UNKNOWN_OPERATION,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::host::serve;
use crate::translate::dialect::Dialect;
use crate::transport::{Fault, Health, PluginLog};

/// Why a library cannot be used. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LibraryError {
    /// The system does not load it.
    #[error("the system cannot load it ({0}); build it for this system and architecture")]
    Open(String),
    /// It has no table.
    #[error(
        "it is a library but no plugin: it does not export `berth_plugin_entry_v1`; register it with a macro of the SDK and build it with `berth plugin build --native`"
    )]
    NoTable,
    /// Its table is not one.
    #[error("its table is damaged; build it again with this Berth's SDK")]
    Table,
    /// It was built for another contract.
    #[error("it was built for contract {0}.{1}, this Berth has {host} and runs the step before it; build it against {host}", host = contract::VERSION)]
    Contract(u16, u16),
    /// Its code is of another kind than its manifest.
    #[error(
        "its plugin.toml says another kind than its code; mend the kind or the macro that registers it"
    )]
    Kind,
    /// What it says differs from what was read in the file.
    #[error("its table has another plugin.toml than its file; build it again")]
    Manifest,
}

/// One opened library; never closed, because its thread-locals and statics may outlive every use that is known here.
pub(crate) struct Library {
    table: &'static PluginTable,
    _library: ManuallyDrop<libloading::Library>,
    pub(super) log: Arc<PluginLog>,
    pub(super) health: Arc<Health>,
}

/// An answer: of the operation itself, or its own error.
pub(super) type Said<T, E> = Result<Result<T, E>, Fault>;

impl Library {
    /// Runs the library's own start code and reads its table.
    ///
    /// # Errors
    /// See [`LibraryError`].
    pub(crate) fn open(
        path: &Path,
        (kind, manifest): (Kind, &str),
        log: Arc<PluginLog>,
        health: Arc<Health>,
    ) -> Result<Self, LibraryError> {
        // SAFETY: loading runs the library's constructors; the operator allowed native plugins, which are trusted code.
        let library = unsafe { libloading::Library::new(path) };
        let library = library.map_err(|error| LibraryError::Open(error.to_string()))?;
        let library = ManuallyDrop::new(library);
        // SAFETY: the symbol's name carries the generation of the table and so its type.
        let entry = unsafe {
            library.get::<unsafe extern "C" fn() -> *const PluginTable>(ENTRY.as_bytes())
        };
        let entry = entry.map_err(|_| LibraryError::NoTable)?;
        // SAFETY: as for the symbol; it takes nothing and returns a table that lives as long as the library, for ever.
        let table = unsafe { entry().as_ref() }.ok_or(LibraryError::Table)?;
        let size = usize::try_from(table.size).unwrap_or_default();
        if table.magic != MAGIC || size < size_of::<PluginTable>() {
            return Err(LibraryError::Table);
        }
        // Its messages are maps: a field that it does not know yet is one that is left out.
        let (major, minor) = (table.contract_major, table.contract_minor);
        if Dialect::at((major.into(), minor.into())).is_none() {
            return Err(LibraryError::Contract(major, minor));
        }
        let kind = match kind {
            Kind::Harness => PluginKind::Harness,
            Kind::SandboxProvider => PluginKind::Sandbox,
            Kind::McpResolver => PluginKind::Resolver,
        };
        if table.kind != kind as u32 {
            return Err(LibraryError::Kind);
        }
        // SAFETY: the table says that these bytes live for ever.
        if unsafe { bytes(&table.manifest) } != manifest.as_bytes() {
            return Err(LibraryError::Manifest);
        }
        Ok(Self {
            table,
            _library: library,
            log,
            health,
        })
    }

    /// An operation that belongs to no instance.
    pub(super) fn call<T: DeserializeOwned, E: DeserializeOwned>(
        &self,
        host: Option<&dyn Host>,
        name: &str,
        operation: u32,
        arguments: &impl Serialize,
    ) -> Said<T, E> {
        self.with(host, name, arguments, |lent, input, output| {
            // SAFETY: all three are valid during the call; the table is the library's own.
            unsafe { (self.table.call_static)(lent, operation, input, output) }
        })
    }

    /// Makes an instance.
    pub(super) fn open_instance<E: DeserializeOwned>(
        self: &Arc<Self>,
        name: &str,
        arguments: &impl Serialize,
    ) -> Said<Instance, E> {
        let mut pointer: *mut c_void = std::ptr::null_mut();
        let opened: Said<(), E> = self.with(None, name, arguments, |lent, input, output| {
            // SAFETY: all four are valid during the call.
            unsafe { (self.table.open)(lent, input, &raw mut pointer, output) }
        });
        let opened = match opened? {
            Ok(()) if pointer.is_null() => {
                let fault = Fault::Protocol("no instance came".to_owned());
                self.health.note(self.log.plugin(), name, &fault);
                return Err(fault);
            }
            Ok(()) => Ok(Instance {
                library: Arc::clone(self),
                pointer,
            }),
            Err(error) => Err(error),
        };
        Ok(opened)
    }

    fn with<T: DeserializeOwned, E: DeserializeOwned>(
        &self,
        host: Option<&dyn Host>,
        name: &str,
        arguments: &impl Serialize,
        call: impl FnOnce(*const HostTable, Slice, *mut Buffer) -> i32,
    ) -> Said<T, E> {
        self.health.admit()?;
        let said = self.enter(host, arguments, call);
        said.inspect_err(|fault| self.health.note(self.log.plugin(), name, fault))
    }

    fn enter<T: DeserializeOwned, E: DeserializeOwned>(
        &self,
        host: Option<&dyn Host>,
        arguments: &impl Serialize,
        call: impl FnOnce(*const HostTable, Slice, *mut Buffer) -> i32,
    ) -> Said<T, E> {
        let input = rmp_serde::to_vec_named(arguments)
            .map_err(|error| Fault::Protocol(error.to_string()))?;
        let lent = Lent {
            host,
            log: &self.log,
        };
        let table = HostTable {
            size: u32::try_from(size_of::<HostTable>()).unwrap_or(u32::MAX),
            context: (&raw const lent).cast(),
            call: host_call,
            free: host_free,
        };
        let slice = Slice {
            ptr: input.as_ptr(),
            len: input.len(),
        };
        let mut output = Buffer::empty();
        let status = call(&raw const table, slice, &raw mut output);
        let message = Message {
            buffer: Some(output),
            table: self.table,
        };
        let bytes = message.bytes().ok_or(Fault::Output)?;
        let unreadable = |error: rmp_serde::decode::Error| Fault::Protocol(error.to_string());
        match status {
            OK => rmp_serde::from_slice(bytes).map(Ok).map_err(unreadable),
            ERROR => rmp_serde::from_slice(bytes).map(Err).map_err(unreadable),
            BAD_MESSAGE => Err(Fault::Protocol("it cannot read our message".to_owned())),
            PANICKED => {
                let text = String::from_utf8_lossy(bytes);
                Err(Fault::Crashed(text.chars().take(512).collect()))
            }
            UNKNOWN_OPERATION => Err(Fault::Protocol("it does not know the operation".to_owned())),
            other => Err(Fault::Protocol(format!("it answered with status {other}"))),
        }
    }
}

/// An instance of a library, used by one call at a time.
pub(super) struct Instance {
    library: Arc<Library>,
    pointer: *mut c_void,
}

// SAFETY: the table's contract lets an instance be used from any thread, by one at a time; `&mut self` is one at a time.
unsafe impl Send for Instance {}

impl Instance {
    pub(super) fn call<T: DeserializeOwned, E: DeserializeOwned>(
        &mut self,
        name: &str,
        operation: u32,
        arguments: &impl Serialize,
    ) -> Said<T, E> {
        let (library, pointer) = (&self.library, self.pointer);
        library.with(None, name, arguments, |lent, input, output| {
            // SAFETY: all are valid during the call, and nobody else has the instance.
            unsafe { (library.table.call)(pointer, lent, operation, input, output) }
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: it came from this table and is not used again.
        unsafe { (self.library.table.close)(self.pointer) };
    }
}

/// An output of the library, freed by it.
struct Message {
    buffer: Option<Buffer>,
    table: &'static PluginTable,
}

impl Message {
    /// None if it is longer than a message may be.
    fn bytes(&self) -> Option<&[u8]> {
        let buffer = self.buffer.as_ref()?;
        if buffer.ptr.is_null() {
            return Some(&[]);
        }
        if buffer.len > MESSAGE_BYTES {
            return None;
        }
        // SAFETY: the library wrote these parts of its own allocation, which lives until `free`.
        Some(unsafe { std::slice::from_raw_parts(buffer.ptr, buffer.len) })
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            // SAFETY: it came from this table.
            unsafe { (self.table.free)(buffer) };
        }
    }
}

/// What the context of a host table points to.
struct Lent<'a> {
    host: Option<&'a dyn Host>,
    log: &'a PluginLog,
}

unsafe extern "C" fn host_call(
    context: *const c_void,
    operation: u32,
    input: Slice,
    output: *mut Buffer,
) -> i32 {
    // SAFETY: it is the `Lent` on the stack of the call that is running; the plugin may use it only while that lasts.
    let lent = unsafe { &*context.cast::<Lent<'_>>() };
    // SAFETY: the plugin's bytes are valid during this call.
    let input = unsafe { bytes(&input) };
    let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        serve(lent.host, lent.log, operation, input)
    }));
    let (status, message) = served.unwrap_or((PANICKED, Vec::new()));
    let mut message = ManuallyDrop::new(message);
    let buffer = Buffer {
        ptr: message.as_mut_ptr(),
        len: message.len(),
        capacity: message.capacity(),
    };
    // SAFETY: the plugin gave a place to write to.
    unsafe { output.write(buffer) };
    status
}

unsafe extern "C" fn host_free(buffer: Buffer) {
    if !buffer.ptr.is_null() {
        // SAFETY: these are the parts of a vector that `host_call` took apart.
        drop(unsafe { Vec::from_raw_parts(buffer.ptr, buffer.len, buffer.capacity) });
    }
}

/// # Safety
/// The bytes are valid for the life of `slice`.
unsafe fn bytes(slice: &Slice) -> &[u8] {
    if slice.len == 0 || slice.ptr.is_null() {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(slice.ptr, slice.len) }
}
