//! The execution lease: one row, one owner, growing epochs (state-machines 1.15).

use serde::{Deserialize, Serialize};

use crate::{OwnerId, Timestamp, time};

/// Generation of the lease; a lower one can do nothing (SC-2.5). Zero = nobody ever held it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// The lease row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// Generation.
    pub epoch: Epoch,
    /// Who holds it; none after a clean release.
    pub owner: Option<OwnerId>,
    /// Database time at which others may take it.
    pub expires_at: Option<Timestamp>,
}

/// How a process may take the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// Only when the lease is free or has expired.
    Expiry,
    /// This process holds the lock of the data folder that the owner id stands for: whoever held the lease under that id
    /// is proved dead, and the lease need not expire (D31).
    Folder,
}

/// Takes the lease, epoch + 1. None if another owner holds it (SC-2.1).
pub fn acquire(
    lease: &Lease,
    owner: OwnerId,
    authority: Authority,
    now: Timestamp,
) -> Option<Lease> {
    let free = lease.owner.is_none() || lease.expires_at.is_none_or(|expires_at| expires_at <= now);
    let of_a_dead_process = authority == Authority::Folder && lease.owner == Some(owner);
    (free || of_a_dead_process).then(|| Lease {
        epoch: Epoch(lease.epoch.0 + 1),
        owner: Some(owner),
        expires_at: Some(now + time::LEASE_TTL),
    })
}

/// Prolongs the lease: the first statement of every execution batch. None if the row names another epoch: the lease is lost,
/// the batch rolls back (SC-2.5).
pub fn renew(lease: &Lease, epoch: Epoch, now: Timestamp) -> Option<Lease> {
    let held = lease.epoch == epoch && lease.owner.is_some();
    held.then(|| Lease {
        expires_at: Some(now + time::LEASE_TTL),
        ..*lease
    })
}

/// Gives the lease back after a drain, so that the next owner need not wait (SC-2.9). None if it is not held in this epoch.
pub fn release(lease: &Lease, epoch: Epoch) -> Option<Lease> {
    let held = lease.epoch == epoch && lease.owner.is_some();
    held.then_some(Lease {
        epoch: lease.epoch,
        owner: None,
        expires_at: None,
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn owner(number: u128) -> OwnerId {
        OwnerId::new(Uuid::from_u128(number))
    }

    #[test]
    fn a_lease_passes_on_by_expiry_release_or_the_folder_lock() {
        // 1.15
        let first = acquire(&Lease::default(), owner(1), Authority::Expiry, NOW).unwrap();
        assert_eq!(first.epoch, Epoch(1));
        let before = NOW + time::LEASE_TTL - std::time::Duration::from_millis(1);
        assert_eq!(
            acquire(&first, owner(2), Authority::Expiry, before),
            None,
            "SC-2.1"
        );
        let at_expiry =
            acquire(&first, owner(2), Authority::Expiry, NOW + time::LEASE_TTL).unwrap();
        assert_eq!(at_expiry.epoch, Epoch(2));
        assert_eq!(
            acquire(&first, owner(1), Authority::Folder, NOW)
                .unwrap()
                .epoch,
            Epoch(2),
            "D31"
        );
        assert_eq!(
            acquire(&first, owner(2), Authority::Folder, before),
            None,
            "the lock of one folder says nothing about the owner in another"
        );
        assert_eq!(
            acquire(&first, owner(1), Authority::Expiry, before),
            None,
            "without the lock the owner may be alive"
        );
        let free = release(&first, Epoch(1)).unwrap();
        assert_eq!(
            acquire(&free, owner(2), Authority::Expiry, NOW)
                .unwrap()
                .epoch,
            Epoch(2),
            "SC-2.9"
        );
    }

    #[test]
    fn a_former_owner_can_do_nothing() {
        // SC-2.5, I21
        let first = acquire(&Lease::default(), owner(1), Authority::Expiry, NOW).unwrap();
        let second = acquire(&first, owner(1), Authority::Folder, NOW).unwrap();
        assert_eq!(renew(&second, first.epoch, NOW), None);
        assert_eq!(release(&second, first.epoch), None);
        assert!(renew(&second, second.epoch, NOW).unwrap().expires_at > Some(NOW));
        let free = release(&second, second.epoch).unwrap();
        assert_eq!(renew(&free, second.epoch, NOW), None, "released is over");
    }
}
