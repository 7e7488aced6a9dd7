//! Linux: pidfds, subreapers, descriptors over sockets, namespaces.

mod files;
mod keys;
mod namespaces;
mod processes;

pub(crate) use files::{keep_to_ourselves, receive_files, send_files};
pub(crate) use keys::leave_session_keys;
pub(crate) use namespaces::{Spaces, map_ids, unshare};
pub(crate) use processes::{
    Process, accounts, become_subreaper, before_exec, boot_id, children, descendants,
    descendants_of, die_with_parent, kill_child, open_process, process, reap_child, reap_ended,
    signal, usage_below, wait_any,
};
