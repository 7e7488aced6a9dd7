//! A Session's own preparation over its Template's (ENV-450 to ENV-458): once, before the snapshot is frozen.

use super::{Confidential, Network, Preparation, PreparationPatch};
use crate::blob::BlobRef;
use crate::json::Field;

/// A Session's network policy allows what its Template's does not (ENV-453).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("The network policy of a Session must not be wider than its Template's.")]
pub struct Widening;

impl Preparation {
    /// The effective preparation of a Session: what it names replaces, the rest is the Template's.
    ///
    /// # Errors
    /// [`Widening`].
    pub fn inherit(
        template: Option<(Self, Confidential)>,
        own: PreparationPatch<BlobRef>,
    ) -> Result<(Self, Confidential), Widening> {
        let is_derived = template.is_some();
        let (mut whole, mut confidential) = template.unwrap_or_default();
        // Null is silence here, unlike in an update: every member keeps the Template's value (ENV-454 to ENV-458).
        let network: Option<Network> = own.network.value();
        if let Some(network) = network {
            if is_derived && !network.is_within(&whole.network) {
                return Err(Widening);
            }
            whole.network = network;
        }
        if let Field::Value(env) = own.env {
            confidential.env = env.over(&confidential.env);
        }
        if let Field::Value(packages) = own.packages {
            whole.packages = packages.over(&whole.packages);
        }
        set(&mut confidential.setup_commands, own.setup_commands);
        set(&mut whole.files, own.files);
        set(&mut whole.skills, own.skills);
        set(&mut whole.plugins, own.plugins);
        set(
            &mut whole.capability_directories,
            own.capability_directories,
        );
        Ok((whole, confidential))
    }
}

fn set<T>(place: &mut T, field: Field<T>) {
    if let Field::Value(value) = field {
        *place = value;
    }
}

#[cfg(test)]
mod tests;
