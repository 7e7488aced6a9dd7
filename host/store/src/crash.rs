//! Named crash points: places where a test kills the whole process, as a power cut or an operator would.
//!
//! Compiled in only with the feature `crash-points`. A point is armed by name, or by the count of its visits:
//! `BERTH_CRASH_POINT=Promote.after` kills at the first visit, `Promote.after:3` at the third. Every unit also visits
//! `unit.before` and `unit.after`, so that code without a name of its own is covered by counting. The point is armed when
//! the store opens.

/// Visits a crash point; nothing at all without the feature `crash-points`.
#[macro_export]
macro_rules! crash_point {
    ($name:expr) => {{
        $crate::crash::visit($name);
    }};
}

/// The environment variable that arms one point.
pub const VARIABLE: &str = "BERTH_CRASH_POINT";

/// What is said when [`VARIABLE`] cannot be understood.
pub const MALFORMED: &str = "BERTH_CRASH_POINT is neither NAME nor NAME:COUNT";

/// Whether this build has crash points.
pub const COMPILED_IN: bool = cfg!(feature = "crash-points");

/// Visits a point by name.
#[cfg(feature = "crash-points")]
pub fn visit(name: &str) {
    fail::eval(name, |_| ());
}

/// Reaches a point that only this build knows how to skip.
#[cfg(not(feature = "crash-points"))]
pub fn visit(_name: &str) {}

/// Arms the point that [`VARIABLE`] names. Without the feature it does nothing.
///
/// # Errors
/// A sentence if the variable cannot be understood.
pub fn arm_from_environment() -> Result<(), String> {
    match std::env::var(VARIABLE) {
        Ok(spec) if COMPILED_IN => arm(&spec),
        _ => Ok(()),
    }
}

/// Arms `name` or `name:count`.
///
/// # Errors
/// A sentence if `count` is no positive number.
#[cfg(feature = "crash-points")]
pub fn arm(spec: &str) -> Result<(), String> {
    use std::sync::atomic::{AtomicU32, Ordering};

    let (name, count) = match spec.rsplit_once(':') {
        Some((name, count)) => (
            name,
            count
                .parse()
                .map_err(|_| format!("{VARIABLE}: {spec:?} has no count"))?,
        ),
        None => (spec, 1),
    };
    let left = AtomicU32::new(count);
    fail::cfg_callback(name, move || {
        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Nothing of this process may run any more: no destructor, no flush, no answer.
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
            std::process::abort();
        }
    })
}

/// Arms nothing in a build without crash points.
///
/// # Errors
/// Always: the build has none.
#[cfg(not(feature = "crash-points"))]
pub fn arm(_spec: &str) -> Result<(), String> {
    Err("this build has no crash points".to_owned())
}
