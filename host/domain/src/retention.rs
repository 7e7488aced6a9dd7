//! What may be thrown away of a deleted Session, and when (S-DEL-2, SC-10.3, SP-9.3, reliability 4.10).

use crate::SessionState;
use crate::allocation::AllocationPhase;
use crate::changes::{Changes, Write};

/// Purges a deleted Session once nothing is owed any more: no claimed work, no unacknowledged release, no compute. Otherwise
/// changes nothing.
pub fn purge(state: &SessionState) -> Changes {
    let due = state.session.deleted_at.is_some() && is_settled(state);
    Changes {
        writes: due
            .then_some(Write::PurgeSession(state.session.id))
            .into_iter()
            .collect(),
        ..Changes::default()
    }
}

fn is_settled(state: &SessionState) -> bool {
    let release = state.binding.as_ref().map(|binding| binding.release);
    let released = match release {
        None => true,
        Some(release) => release.is_some_and(|release| release.acknowledged_at.is_some()),
    };
    let reclaimed = state
        .allocation
        .as_ref()
        .is_none_or(|row| row.phase == AllocationPhase::Released);
    state.live_turn().is_none() && released && reclaimed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Placement;
    use crate::testing::World;

    #[test]
    fn a_deleted_session_goes_when_nothing_is_owed() {
        let mut world = World::ready(Placement::OpenaiHosted, &[]);
        assert!(purge(&world.state()).is_empty(), "alive");
        world.delete().unwrap();
        assert!(purge(&world.state()).is_empty(), "compute is not gone");
        assert!(world.released());
        assert_eq!(
            purge(&world.state()).writes,
            [Write::PurgeSession(world.state().session.id)]
        );

        let mut own = World::ready(Placement::SelfHosted, &[]);
        own.delete().unwrap();
        assert!(
            purge(&own.state()).is_empty(),
            "the release is not acknowledged"
        );
        let state = own.state();
        let binding = own.state().binding.unwrap();
        let decided = own
            .with(|cx| crate::binding::released(&state, binding.id, binding.epoch, cx))
            .unwrap();
        assert!(own.commit(decided));
        assert_eq!(purge(&own.state()).writes.len(), 1);
    }
}
