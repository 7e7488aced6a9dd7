//! The scheduler over a real store and a scripted Runtime.

mod faults;
mod runs;
mod runtime;
mod scene;
