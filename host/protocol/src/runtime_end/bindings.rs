//! Whose frames are admitted: fences that only grow, and what is bound on this connection (RP-2.5, RP-8).

use std::collections::{HashMap, HashSet, VecDeque};

use domain::run::{Binding, RefusalCode};
use domain::{EnvironmentId, SessionId};

use crate::wire::limits::RELEASED;

#[derive(Debug)]
struct Known {
    binding: Binding,
    /// The newest epoch is a release: nothing is bound under it.
    released: bool,
}

#[derive(Debug, Default)]
pub(super) struct Bindings {
    dedicated: Option<EnvironmentId>,
    known: HashMap<SessionId, Known>,
    /// Released Sessions, oldest first. What is older than these was refused by Core itself long ago.
    released: VecDeque<SessionId>,
    bound: HashSet<Binding>,
}

impl Bindings {
    pub fn new(dedicated: Option<EnvironmentId>) -> Self {
        Self {
            dedicated,
            ..Self::default()
        }
    }

    /// Nothing speaks against binding this.
    pub fn may_bind(&self, binding: &Binding) -> Result<(), RefusalCode> {
        self.authority(binding)?;
        match self.known.get(&binding.session) {
            Some(known) if known.released && binding.epoch <= known.binding.epoch => {
                Err(RefusalCode::BindingStale)
            }
            _ => Ok(()),
        }
    }

    /// A release comes under an advanced epoch, and may be repeated under the same one (RP-8.6).
    pub fn may_release(&self, binding: &Binding) -> Result<(), RefusalCode> {
        self.authority(binding)
    }

    /// Bound here, now, under exactly this epoch.
    pub fn may_use(&self, binding: &Binding) -> Result<(), RefusalCode> {
        if self.bound.contains(binding) {
            return Ok(());
        }
        self.authority(binding)?;
        Err(RefusalCode::BindingStale)
    }

    pub fn is_bound(&self, binding: &Binding) -> bool {
        self.bound.contains(binding)
    }

    /// The right Environment, the right binding, no lower epoch than seen before.
    fn authority(&self, binding: &Binding) -> Result<(), RefusalCode> {
        if self.dedicated.is_some() {
            // One Environment, and with the first binding one Session (RP-8.2).
            let other_session = self.known.keys().any(|session| *session != binding.session);
            if binding.environment != self.dedicated || other_session {
                return Err(RefusalCode::BindingConflict);
            }
        }
        match self.known.get(&binding.session) {
            Some(known) if !known.binding.same_authority(binding) => {
                Err(RefusalCode::BindingConflict)
            }
            Some(known) if binding.epoch < known.binding.epoch => Err(RefusalCode::BindingStale),
            _ => Ok(()),
        }
    }

    pub fn bound(&mut self, binding: &Binding) {
        // The daemon may answer after a release has fenced the Session.
        if self.may_bind(binding).is_err() {
            return;
        }
        self.bound.retain(|other| other.session != binding.session);
        self.bound.insert(*binding);
        self.released.retain(|session| *session != binding.session);
        self.known.insert(
            binding.session,
            Known {
                binding: *binding,
                released: false,
            },
        );
    }

    /// Nothing below or at this epoch is admitted any more.
    pub fn fence(&mut self, binding: &Binding) {
        self.bound.retain(|other| other.session != binding.session);
        self.known.insert(
            binding.session,
            Known {
                binding: *binding,
                released: true,
            },
        );
        if !self.released.contains(&binding.session) {
            self.released.push_back(binding.session);
        }
        if self.released.len() > RELEASED
            && let Some(oldest) = self.released.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known.len() + self.released.len() + self.bound.len()
    }

    pub fn unbind_all(&mut self) {
        self.bound.clear();
    }
}
