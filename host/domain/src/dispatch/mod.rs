//! Dispatch: how one Session's waiting input becomes a Run, and how the Run becomes the end of a Turn.
//!
//! One machine per Session with work (`scheduler.md` 7, `state-machines.md` 1.10 rows X1 to X18). It holds memory
//! only: every step is fed by a fresh read of the store ([`WorkView`]) and of the live connection ([`PeerView`]), and
//! it answers with [`Effect`]s that the Session's actor performs one by one. It never decides what the store must
//! decide under the Session lock: it asks for a unit and reads the unit's answer.
//!
//! Two promises live here and nowhere else: a Start is asked for only after the first receipt of a promotion or claim
//! that this machine itself requested (I17, SC-6.4), and nothing with an effect is ever asked for twice (I19).

mod ending;
mod flight;
mod input;
mod machine;
mod needs;
#[cfg(test)]
mod tests;
mod view;

pub use ending::{Ending, RunEnd};
pub use input::{
    BindAnswer, CancelAnswer, Capture, ClaimAnswer, DeliveryAnswer, Effect, Input, JournalFault,
    PrepareAnswer, SettleAnswer, StartAnswer, Unsent,
};
pub use machine::{CANCEL_CONFIRMATION, Dispatch, Fresh, Phase};
pub use needs::needs;
pub use view::{Claimed, Delivery, Fit, PeerView, Waiting, WorkView};
