//! What may be thrown away, and when (SC-11.6, S-DEL-2, reliability 4.10).

use crate::SessionState;
use crate::allocation::AllocationPhase;
use crate::changes::{Changes, Write};

/// Delta events that a Session keeps after their Items ended (SC-11.6).
pub const KEPT_DELTAS: usize = 256;
/// Bytes of delta events that a Session keeps after their Items ended (SC-11.6).
pub const KEPT_DELTA_BYTES: u64 = 64 * 1024 * 1024;

/// One stored delta event of an ended Item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredDelta {
    /// Its event number.
    pub number: u64,
    /// Stored size.
    pub bytes: u64,
}

/// What goes now: everything of a deleted Session whose settlement is over, else the deltas beyond the window.
///
/// `deltas` are those of ended Items, newest first. Items in progress keep all of theirs: they hold their partial content.
pub fn plan(state: &SessionState, deltas: &[StoredDelta]) -> Changes {
    let write = if state.session.deleted_at.is_some() {
        is_settled(state).then_some(Write::PurgeSession(state.session.id))
    } else {
        beyond_window(deltas).map(|through| Write::TrimDeltas {
            session_id: state.session.id,
            through,
        })
    };
    Changes {
        writes: write.into_iter().collect(),
        ..Changes::default()
    }
}

/// Nothing is owed any more: no claimed work, no unacknowledged release, no compute (SC-10.3, SP-9.3).
fn is_settled(state: &SessionState) -> bool {
    let release = state.binding.as_ref().and_then(|binding| binding.release);
    let released =
        state.binding.is_none() || release.is_some_and(|release| release.acknowledged_at.is_some());
    let reclaimed = state
        .allocation
        .as_ref()
        .is_none_or(|row| row.phase == AllocationPhase::Released);
    state.live_turn().is_none() && released && reclaimed
}

/// Number of the newest delta outside the window.
fn beyond_window(deltas: &[StoredDelta]) -> Option<u64> {
    let mut bytes = 0_u64;
    let outside = |(kept, delta): (usize, &StoredDelta)| {
        bytes = bytes.saturating_add(delta.bytes);
        kept >= KEPT_DELTAS || bytes > KEPT_DELTA_BYTES
    };
    let place = deltas.iter().enumerate().position(outside)?;
    deltas.get(place).map(|delta| delta.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Placement;
    use crate::testing::World;

    fn deltas(count: u64, bytes: u64) -> Vec<StoredDelta> {
        (1..=count)
            .rev()
            .map(|number| StoredDelta { number, bytes })
            .collect()
    }

    #[test]
    fn the_window_is_256_deltas_or_64_mib() {
        // SC-11.6
        let state = World::created(Placement::None, &["a"]).state();
        let through = |deltas: &[StoredDelta]| plan(&state, deltas).writes;
        let session_id = state.session.id;
        assert!(through(&deltas(256, 10)).is_empty());
        assert_eq!(
            through(&deltas(257, 10)),
            [Write::TrimDeltas {
                session_id,
                through: 1
            }]
        );
        assert_eq!(
            through(&deltas(4, 30 * 1024 * 1024)),
            [Write::TrimDeltas {
                session_id,
                through: 2
            }]
        );
    }

    #[test]
    fn a_deleted_session_goes_when_nothing_is_owed() {
        let mut world = World::ready(Placement::OpenaiHosted, &[]);
        world.delete().unwrap();
        assert!(plan(&world.state(), &[]).is_empty(), "compute is not gone");
        assert!(world.released());
        let purge = Write::PurgeSession(world.state().session.id);
        assert_eq!(plan(&world.state(), &[]).writes, [purge]);

        let mut own = World::ready(Placement::SelfHosted, &[]);
        own.delete().unwrap();
        assert!(
            plan(&own.state(), &[]).is_empty(),
            "the release is not acknowledged"
        );
        let binding = own.state().binding.unwrap();
        let state = own.state();
        let decided = own
            .with(|cx| crate::binding::released(&state, binding.id, binding.epoch, cx))
            .unwrap();
        assert!(own.commit(decided));
        assert_eq!(plan(&own.state(), &[]).writes.len(), 1);
    }
}
