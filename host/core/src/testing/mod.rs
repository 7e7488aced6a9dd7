//! Other sides for the tests of this crate.

pub(crate) mod issuer;
