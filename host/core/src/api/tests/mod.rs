//! The API over a real store, without sockets: requests in, bytes out, and the database compared before and after.

mod fixture;
mod idempotency;
mod lists;
mod matrix;
mod paths;
mod shapes;
mod streams;
