//! System calls that need `unsafe`, or that only one platform has, behind small safe functions.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;
