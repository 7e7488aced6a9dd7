//! The two ways a unit reaches the disk: through the one writer task with group commit ([`group`]), or, for public
//! units on PostgreSQL, in a transaction of its own on a pool ([`pooled`]).

pub(crate) mod group;
pub(crate) mod job;
pub(crate) mod pooled;

#[cfg(test)]
mod tests;
