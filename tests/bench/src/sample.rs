//! Samples and what is said of them.

use std::time::Duration;

/// Measured values of one kind.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Adds a time, in milliseconds.
    pub fn add_time(&mut self, time: Duration) {
        self.add(time.as_secs_f64() * 1e3);
    }

    /// Adds all of another set.
    pub fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The value that `percent` of all do not exceed; NaN without any.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
        sorted.get(rank).copied().unwrap_or(f64::NAN)
    }

    /// The value in the middle.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.percentile(50)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let mut samples = Samples::default();
        assert!(samples.median().is_nan());
        for value in [5.0, 1.0, 4.0, 2.0, 3.0] {
            samples.add(value);
        }
        assert_eq!(samples.count(), 5);
        assert_eq!(samples.median(), 3.0);
        assert_eq!(samples.percentile(99), 5.0);
        assert_eq!(samples.percentile(1), 1.0);
    }
}
