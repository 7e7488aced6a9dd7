//! The scheduler over a real store and a scripted Runtime.

mod binding;
mod core;
mod faults;
mod hosting;
mod ownership;
mod runs;
mod runtime;
mod scene;
mod sweep;
