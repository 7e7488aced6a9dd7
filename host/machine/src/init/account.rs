//! Becoming the account of the sandbox (LOC-006): after the mounts, so that no parent folder of a workspace or harness
//! has to be opened to that account.

use std::io;

use rustix::process::{DumpableBehavior, Gid, Uid, getgid, getuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use super::plan::Plan;
use crate::sandbox::Level;
use crate::sys::{self, Spaces};

/// Takes the account and leaves every capability. One thread exists.
pub(super) fn assume(plan: &Plan) -> io::Result<()> {
    if let Some(real) = plan.real_uid {
        let (uid, gid) = (Uid::from_raw(real), Gid::from_raw(real));
        let namespaces = plan.level == Level::Namespaces;
        // Kept over the change for one reason: where ordinary users may not make user namespaces, root still may.
        set_keep_capabilities(namespaces)?;
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        if namespaces {
            set_capabilities(None, only(CapabilitySet::SYS_ADMIN))?;
            set_keep_capabilities(false)?;
        }
    }
    if plan.level == Level::Namespaces {
        // The mounts belong to the namespace that is left here, so nobody inside can change them.
        let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
        // A changed account makes a process unreadable, its own map included.
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        sys::unshare(Spaces::NEWUSER)?;
        sys::map_ids((plan.uid, uid), (plan.uid, gid))?;
    }
    Ok(set_capabilities(None, only(CapabilitySet::empty()))?)
}

fn only(kept: CapabilitySet) -> CapabilitySets {
    CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    }
}
