//! How much is measured.

use std::time::Duration;

/// Counts and times of all rows.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Pairs of measurements of each rate.
    pub rounds: usize,
    /// Time of one measurement of a rate.
    pub span: Duration,
    /// Items of a long history.
    pub items: u32,
    /// Turns, one after another.
    pub turns: usize,
    /// Followed Sessions that stream at the same time.
    pub streams: usize,
    /// Deltas of each of them.
    pub ticks: u32,
    /// Machines that are made, one after another.
    pub machines: usize,
    /// Bytes of a large upload.
    pub upload: u64,
    /// Starts of a Core.
    pub starts: usize,
    /// Time until a started Core counts as idle.
    pub settle: Duration,
    /// Loads of a plugin.
    pub loads: usize,
    /// Live instances of a plugin.
    pub instances: usize,
}

impl Effort {
    /// Figures that can be compared.
    pub const FULL: Self = Self {
        rounds: 7,
        span: Duration::from_secs(2),
        items: 100_000,
        turns: 60,
        streams: 20,
        ticks: 400,
        machines: 20,
        upload: 500 * 1024 * 1024,
        starts: 10,
        settle: Duration::from_secs(2),
        loads: 10,
        instances: 1000,
    };

    /// Enough to see that a row works.
    pub const TINY: Self = Self {
        rounds: 1,
        span: Duration::from_millis(50),
        items: 300,
        turns: 2,
        streams: 2,
        ticks: 3,
        machines: 1,
        upload: 3_000_000,
        starts: 1,
        settle: Duration::ZERO,
        loads: 1,
        instances: 3,
    };
}
