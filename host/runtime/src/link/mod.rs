//! The daemon's side of the link to Core: a pump around [`protocol::runtime_end`] (RP-3, RP-4).
//!
//! One task owns the machine and never does slow work (RP-4.6): it moves messages, hands work to the Sessions' tasks by
//! [`router`], and carries their answers back. [`dial`] opens one socket, [`socket`] reads and writes it with bounds, and
//! [`reconnect`] says when to try again and when never to.

mod dial;
mod pump;
mod reconnect;
mod router;
mod socket;

pub use dial::{DialError, Dialer};
pub use pump::{Link, LinkSettings, Refused};
pub use router::Router;
