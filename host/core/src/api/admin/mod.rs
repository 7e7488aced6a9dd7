//! Administration under `/core/v1`, with a Core key (operations 1 to 4).

pub(crate) mod archives;
pub(crate) mod diagnostics;
pub(crate) mod installation;
pub(crate) mod models;
mod parameters;
pub(crate) mod plugins;
pub(crate) mod projects;
pub(crate) mod provider;
pub(crate) mod records;
pub(crate) mod summary;
