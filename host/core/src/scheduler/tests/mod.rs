//! The scheduler over a real store and a scripted Runtime.

mod binding;
mod connections;
mod core;
mod faults;
mod frames;
mod functions;
mod hosting;
mod initialize;
mod ownership;
mod readiness;
mod runs;
mod runtime;
mod scene;
mod sweep;
mod tick;
mod upgrades;
