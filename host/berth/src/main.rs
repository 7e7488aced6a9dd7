//! The `berth` program.
fn main() {}
