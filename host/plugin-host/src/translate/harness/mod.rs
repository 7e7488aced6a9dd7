//! Harness adapters: declarations and configurations on the way in, events and outcomes on the way out.

mod configuration;
mod declaration;
mod event;
mod outcome;

pub use configuration::{Surroundings, configuration, content};
pub use declaration::{DeclarationError, declaration};
pub use event::{native_session, run_event};
pub use outcome::{is_reusable, prepare_code, run_failure, start_code, turn_status};
