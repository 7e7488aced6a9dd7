//! Faults of one plugin, counted; a plugin that keeps having them is not called any more.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Fault;

/// So many faults …
const FAULTS: usize = 5;
/// … within this time end in quarantine.
const WITHIN: Duration = Duration::from_secs(600);

/// How a plugin has behaved since it was loaded. A reload starts anew.
#[derive(Debug, Default)]
pub struct Health(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    recent: Vec<Instant>,
    total: u64,
    quarantine: Option<String>,
}

impl Health {
    /// Why it is in quarantine, for people; none = it is not.
    #[must_use]
    pub fn quarantine(&self) -> Option<String> {
        self.record().quarantine.clone()
    }

    /// Faults since it was loaded.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.record().total
    }

    /// Before a call.
    pub(crate) fn admit(&self) -> Result<(), Fault> {
        match self.record().quarantine {
            Some(_) => Err(Fault::Quarantined),
            None => Ok(()),
        }
    }

    /// After a call that had a fault of the plugin's own.
    pub(crate) fn note(&self, plugin: &str, operation: &str, fault: &Fault) {
        if matches!(fault, Fault::Busy | Fault::Quarantined | Fault::Ended) {
            return;
        }
        tracing::warn!(plugin, operation, code = fault.code(), %fault, "a plugin failed");
        let now = Instant::now();
        let mut record = self.record();
        record.total += 1;
        record
            .recent
            .retain(|at| now.saturating_duration_since(*at) < WITHIN);
        record.recent.push(now);
        if record.recent.len() >= FAULTS && record.quarantine.is_none() {
            let reason = format!(
                "{FAULTS} faults within {} minutes, the last in {operation}: {fault}",
                WITHIN.as_secs() / 60
            );
            tracing::error!(
                plugin,
                reason,
                "a plugin is in quarantine and not called any more"
            );
            record.quarantine = Some(reason);
        }
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_faults_end_in_quarantine_and_say_why() {
        let health = Health::default();
        for _ in 1..FAULTS {
            health.note("p", "step", &Fault::Deadline);
        }
        assert_eq!((health.admit(), health.quarantine()), (Ok(()), None));
        health.note("p", "step", &Fault::Quarantined);
        assert_eq!(health.faults(), 4);
        health.note("p", "open", &Fault::Memory);
        assert_eq!(health.admit(), Err(Fault::Quarantined));
        let reason = health.quarantine().unwrap();
        assert!(
            reason.contains("open") && reason.contains("memory"),
            "{reason}"
        );
    }
}
