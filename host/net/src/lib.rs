//! The one way out: every outbound HTTP connection of Berth is made here. And what all listeners need against a crowd:
//! [`Strangers`].
//!
//! A caller gets a [`Client`] that follows no redirect, uses no proxy of the environment, looks at every address before it
//! is dialled ([`AddressRule`]) and has a deadline for connecting and for silence. The address of a model provider is a
//! [`ModelUrl`], checked once against MDL-002 and then carried as a value, so that nothing further in has to check again.
//! Addresses that callers of the API choose go through [`Guarded`]: HTTPS to public addresses, but for what an operator trusts.

mod address;
mod client;
mod guarded;
mod model_url;
mod strangers;

pub use address::{AddressRule, host_refusal, keeps_secrets};
pub use client::{Client, ClientError, Timeouts, install_tls_provider};
pub use guarded::{Authorities, Guarded, NoCertificate, NoOrigin, TrustedOrigin};
pub use model_url::{LoopbackHttp, ModelUrl, UrlRefusal};
pub use strangers::{Stranger, Strangers};
