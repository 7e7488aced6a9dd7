//! The HTTP server below the API: sockets with limits and deadlines, and the one spelling of a path.

pub(crate) mod accept;
pub(crate) mod canonical;
mod socket;
