//! A plugin's own half of the native table: reads messages, calls the driver trait, catches panics.

mod host;
mod serve;

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Once, OnceLock};

use contract::common::Pair;
use contract::log::Level;
use contract::native::{
    BAD_MESSAGE, Buffer, CONTRACT, ERROR, HostTable, MAGIC, OK, PANICKED, PluginKind, PluginTable,
    Slice, UNKNOWN_OPERATION,
};
use contract::{HarnessAdapter, HarnessSession, Log as _, McpResolver, SandboxProvider};
use serde::Serialize;
use serde::de::DeserializeOwned;

use host::LentHost;

/// A plugin that is made at its first call.
pub struct Made<T: ?Sized + 'static> {
    create: fn() -> Box<T>,
    made: OnceLock<Box<T>>,
}

impl<T: ?Sized> Made<T> {
    /// Not made yet.
    pub const fn new(create: fn() -> Box<T>) -> Self {
        Self {
            create,
            made: OnceLock::new(),
        }
    }

    fn get(&self) -> &T {
        self.made.get_or_init(self.create)
    }
}

/// The library's one plugin.
pub enum Plugin {
    /// A harness adapter.
    Harness(Made<dyn HarnessAdapter>),
    /// A sandbox provider.
    Sandbox(Made<dyn SandboxProvider>),
    /// An MCP resolver.
    Resolver(Made<dyn McpResolver>),
}

thread_local! {
    /// The host of the call that this thread is in.
    static LENT: Cell<*const HostTable> = const { Cell::new(std::ptr::null()) };
}

static START: Once = Once::new();

/// The host is lent to this thread while one of these lives.
struct Lending(*const HostTable);

impl Lending {
    fn start(host: *const HostTable) -> Self {
        START.call_once(|| {
            contract::sink::set(log);
            // The host tells a panic by the call's answer; the library's own report would go past its log.
            std::panic::set_hook(Box::new(|panic| {
                contract::sink::emit(Level::Error, &panic.to_string(), &[]);
            }));
        });
        Self(LENT.replace(host))
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        LENT.set(self.0);
    }
}

/// The sink of the library: a line outside of a call goes nowhere.
fn log(level: Level, message: &str, fields: &[Pair]) {
    // SAFETY: it is set only while a call of this thread has it.
    if let Some(host) = unsafe { LENT.get().as_ref() } {
        LentHost(host).emit(level, message, fields);
    }
}

/// What an operation came to.
enum Answer {
    Ok(Vec<u8>),
    Error(Vec<u8>),
    BadMessage,
    Unknown,
}

type CallStatic = unsafe extern "C" fn(*const HostTable, u32, Slice, *mut Buffer) -> i32;
type Open = unsafe extern "C" fn(*const HostTable, Slice, *mut *mut c_void, *mut Buffer) -> i32;

/// The table of a library with these two entries.
pub const fn table(
    kind: PluginKind,
    manifest: &'static [u8],
    call_static: CallStatic,
    open: Open,
) -> PluginTable {
    PluginTable {
        magic: MAGIC,
        size: size_of::<PluginTable>() as u32,
        contract_major: CONTRACT.0,
        contract_minor: CONTRACT.1,
        kind: kind as u32,
        manifest: Slice {
            ptr: manifest.as_ptr(),
            len: manifest.len(),
        },
        call_static,
        open,
        call,
        close,
        free,
    }
}

/// An operation that belongs to no instance.
///
/// # Safety
/// `host` and `input` are valid during the call, `output` can be written.
pub unsafe fn call_static(
    plugin: &Plugin,
    host: *const HostTable,
    operation: u32,
    input: Slice,
    output: *mut Buffer,
) -> i32 {
    let _lent = Lending::start(host);
    // SAFETY: promised by the caller.
    let (host, input) = unsafe { (&*host, bytes(&input)) };
    // SAFETY: promised by the caller.
    unsafe {
        answer(output, || {
            serve::call(plugin, &LentHost(host), operation, input)
        })
    }
}

/// Makes an instance.
///
/// # Safety
/// As [`call_static`]; `instance` can be written.
pub unsafe fn open(
    plugin: &Plugin,
    host: *const HostTable,
    input: Slice,
    instance: *mut *mut c_void,
    output: *mut Buffer,
) -> i32 {
    let _lent = Lending::start(host);
    // SAFETY: promised by the caller.
    let input = unsafe { bytes(&input) };
    let open = || {
        let (made, answer) = serve::open(plugin, input);
        if let Some(session) = made {
            // One pointer of its own around the fat one.
            // SAFETY: promised by the caller.
            unsafe { instance.write(Box::into_raw(Box::new(session)).cast()) };
        }
        answer
    };
    // SAFETY: promised by the caller.
    unsafe { answer(output, open) }
}

unsafe extern "C" fn call(
    instance: *mut c_void,
    host: *const HostTable,
    operation: u32,
    input: Slice,
    output: *mut Buffer,
) -> i32 {
    let _lent = Lending::start(host);
    // SAFETY: it came from `open`, and the host uses an instance by one call at a time.
    let session = unsafe { &mut *instance.cast::<Box<dyn HarnessSession>>() };
    // SAFETY: promised by the host.
    let input = unsafe { bytes(&input) };
    // SAFETY: promised by the host.
    unsafe { answer(output, || serve::step(&mut **session, operation, input)) }
}

unsafe extern "C" fn close(instance: *mut c_void) {
    // SAFETY: it came from `open` and is not used again.
    let session = unsafe { Box::from_raw(instance.cast::<Box<dyn HarnessSession>>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(session)));
}

unsafe extern "C" fn free(buffer: Buffer) {
    if !buffer.ptr.is_null() {
        // SAFETY: these are the parts of a vector that `write` took apart.
        drop(unsafe { Vec::from_raw_parts(buffer.ptr, buffer.len, buffer.capacity) });
    }
}

/// # Safety
/// The bytes are valid for the life of `slice`.
unsafe fn bytes(slice: &Slice) -> &[u8] {
    if slice.len == 0 {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(slice.ptr, slice.len) }
}

/// # Safety
/// `output` can be written.
unsafe fn answer(output: *mut Buffer, run: impl FnOnce() -> Answer) -> i32 {
    let (status, message) = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Answer::Ok(message)) => (OK, message),
        Ok(Answer::Error(message)) => (ERROR, message),
        Ok(Answer::BadMessage) => return BAD_MESSAGE,
        Ok(Answer::Unknown) => return UNKNOWN_OPERATION,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            (PANICKED, text.unwrap_or_default().into_bytes())
        }
    };
    let mut message = std::mem::ManuallyDrop::new(message);
    let buffer = Buffer {
        ptr: message.as_mut_ptr(),
        len: message.len(),
        capacity: message.capacity(),
    };
    // SAFETY: promised by the caller.
    unsafe { output.write(buffer) };
    status
}

fn read<T: DeserializeOwned>(message: &[u8]) -> Option<T> {
    rmp_serde::from_slice(message).ok()
}

fn written(value: &impl Serialize) -> Option<Vec<u8>> {
    rmp_serde::to_vec_named(value).ok()
}
