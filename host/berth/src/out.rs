//! Words on standard output and standard error. The standard macros panic when nobody reads any more or the disk is full; a Core that
//! serves, drains or ends must not, so nothing else prints here (a lint refuses it).

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// A line on standard output; lost if nobody can take it.
macro_rules! say {
    ($($words:tt)*) => { $crate::out::say(format_args!($($words)*)) };
}

/// A line on standard error; lost if nobody can take it.
macro_rules! tell {
    ($($words:tt)*) => { $crate::out::tell(format_args!($($words)*)) };
}

/// See the macro.
pub fn say(words: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{words}").and_then(|()| out.flush()).is_err() {
        CLOSED.store(true, Ordering::Relaxed);
    }
}

/// See the macro.
pub fn tell(words: Arguments<'_>) {
    // There is no other place to complain to.
    let _ = writeln!(std::io::stderr().lock(), "{words}");
}

/// Was a line for standard output lost? A command that only prints has nothing more to do then.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
