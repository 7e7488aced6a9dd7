//! Linux: pidfds, subreapers, descriptors over sockets, namespaces.

mod files;
mod namespaces;
mod processes;

pub(crate) use files::{receive_files, send_files};
pub(crate) use namespaces::{Spaces, map_self, unshare};
pub(crate) use processes::{
    become_subreaper, before_exec, children, descendants, kill_child, reap_child, signal, wait_any,
};
