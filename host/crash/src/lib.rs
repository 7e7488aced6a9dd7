//! Named crash points: places where a test kills a whole process, as a power cut or an operator would.
//!
//! Compiled in only with the feature `crash-points`. A point is armed by name, or by the count of its visits: `Promote.after`
//! kills at the first visit, `Promote.after:3` at the third. A daemon may also kill what is below it: `daemon.start@harness`.
//! Core reads `BERTH_CRASH_POINT` when its store opens; a daemon has no environment, so it reads a file beside its harnesses.

#[cfg(feature = "crash-points")]
mod armed;

use std::path::Path;

/// Visits a crash point; nothing at all without the feature `crash-points`.
#[macro_export]
macro_rules! crash_point {
    ($name:expr) => {{
        $crate::visit($name);
    }};
}

/// The environment variable that arms one point.
pub const VARIABLE: &str = "BERTH_CRASH_POINT";

/// The file in a daemon's folder of harnesses that arms one point.
pub const FILE: &str = "crash-point";

/// What is said when a point cannot be understood.
pub const MALFORMED: &str = "a crash point is NAME, NAME:COUNT or NAME:COUNT@VICTIM";

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
        Ok(spec) if COMPILED_IN => arm(&spec, None),
        _ => Ok(()),
    }
}

/// Arms the point that [`FILE`] in `folder` names, once for each owner of `state`: a process that is started again finds there
/// that it has happened. Without the feature it does nothing.
///
/// # Errors
/// A sentence if the file cannot be understood.
pub fn arm_from_folder(folder: &Path, state: &Path) -> Result<(), String> {
    if !COMPILED_IN {
        return Ok(());
    }
    let happened = state.join("crashed");
    match std::fs::read_to_string(folder.join(FILE)) {
        Ok(spec) if !happened.exists() => arm(spec.trim(), Some(&happened)),
        _ => Ok(()),
    }
}

/// Arms a point; `happened` is made before it kills.
///
/// # Errors
/// A sentence if it cannot be understood.
#[cfg(feature = "crash-points")]
pub fn arm(spec: &str, happened: Option<&Path>) -> Result<(), String> {
    armed::arm(spec, happened)
}

/// Arms nothing in a build without crash points.
///
/// # Errors
/// Always: the build has none.
#[cfg(not(feature = "crash-points"))]
pub fn arm(_spec: &str, _happened: Option<&Path>) -> Result<(), String> {
    Err("this build has no crash points".to_owned())
}
