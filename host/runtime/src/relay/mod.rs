//! The model relay: keeps the real model key out of everything that a harness can read.
//!
//! A harness gets a loopback address and a random token instead of the provider's address and key. The token is good for
//! one Session and one provider ([`Route`]) and dies with its [`Grant`]. The relay swaps the token for the key, passes
//! bytes through unbuffered in both directions and converts nothing (MDL-007): an error of the provider reaches the harness
//! as the provider wrote it, the key itself blotted out. The upstream is a value, so another place than the provider itself can stand there.
//!
//! - [`protocol`]: what differs between model protocols, as one table: paths and the header of the key.
//! - [`routes`]: tokens and what they open.
//! - [`serve`]: listener. [`strangers`]: connections without a token yet. [`forward`]: one request.
//! - [`mask`]: blots the key out of answers that repeat it.
//! - [`usage`]: counts the tokens that the provider reports on the way through, to cross-check the harness's own figures.

mod forward;
mod mask;
mod protocol;
mod routes;
mod serve;
mod strangers;
mod usage;

#[cfg(test)]
mod tests;

pub use protocol::ModelProtocol;
pub use routes::{Grant, Route};
pub use serve::{Relay, RelayError};
pub use usage::Tokens;
