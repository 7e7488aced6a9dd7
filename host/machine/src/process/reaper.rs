//! What a killed supervisor leaves behind (RP-16.5): the one place that waits for children we did not start.

use std::collections::HashSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sys;

/// Passes of [`Reaper::sweep`], one every [`PAUSE`]: killed processes leave within milliseconds, and what they leave
/// behind comes to us in the next pass.
const PASSES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// The children of this process that are not orphans. A spawn holds the lock until it is entered, so a sweep never
/// takes a child that was started a moment ago for an orphan.
#[derive(Default)]
pub(super) struct Reaper {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    own: HashSet<u32>,
    adopting: bool,
}

impl Reaper {
    fn state(&self) -> MutexGuard<'_, State> {
        // The set is valid after every single operation, so a panic elsewhere spoils nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes this process the parent of orphans below it. Children that are there already are not orphans.
    pub(super) fn adopt(&self) -> io::Result<()> {
        let mut state = self.state();
        sys::become_subreaper()?;
        state.own.extend(sys::children()?);
        state.adopting = true;
        Ok(())
    }

    /// Starts a child by `spawn` and remembers it as our own.
    pub(super) fn enter<C>(
        &self,
        spawn: impl FnOnce() -> io::Result<(C, Option<u32>)>,
    ) -> io::Result<C> {
        let mut state = self.state();
        let (child, pid) = spawn()?;
        state.own.extend(pid);
        Ok(child)
    }

    /// The child was waited for.
    pub(super) fn forget(&self, pid: u32) {
        self.state().own.remove(&pid);
    }

    /// Kills and reaps orphans until none is left; whether that was reached. Only direct children are signalled: they
    /// cannot be reaped by anybody else, so their numbers cannot belong to others (RP-16.4), and the children of a
    /// killed orphan become ours in turn.
    pub(super) async fn sweep(&self) -> bool {
        let mut failed = None;
        for _ in 0..PASSES {
            match self.pass() {
                Ok(Some(0)) => return true,
                Ok(None) => return false,
                Ok(Some(_)) => {}
                // The next pass may do better: a lack of open files is over soon.
                Err(error) => failed = Some(error),
            }
            tokio::time::sleep(PAUSE).await;
        }
        tracing::warn!(error = ?failed, "orphans remain");
        false
    }

    /// One pass: how many orphans there were, or none when we adopt no orphans.
    fn pass(&self) -> io::Result<Option<usize>> {
        let state = self.state();
        if !state.adopting {
            return Ok(None);
        }
        let mut seen = 0;
        let mut failed = None;
        for pid in sys::children()?
            .into_iter()
            .filter(|pid| !state.own.contains(pid))
        {
            seen += 1;
            // One that we may not kill (it changed its account) keeps no other one alive.
            let ended = sys::kill_child(pid).and_then(|()| sys::reap_child(pid));
            failed = ended.err().or(failed);
        }
        failed.map_or(Ok(Some(seen)), Err)
    }
}
