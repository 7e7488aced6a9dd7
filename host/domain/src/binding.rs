//! Bindings of Sessions to devices, and their release (state-machines 1.16).

use serde::{Deserialize, Serialize};

use crate::{BindingId, DeviceId, Digest, EnvironmentId, SessionId, Timestamp};

/// A Session on one device; never moved (ENV-085, S-EV-10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// Identity.
    pub id: BindingId,
    /// The Session.
    pub session_id: SessionId,
    /// Its Environment, if it has one.
    pub environment_id: Option<EnvironmentId>,
    /// The device.
    pub device_id: DeviceId,
    /// Grows with each change of the desired state (RP-2.4).
    pub epoch: u64,
    /// The release that Core asked for, once it did.
    pub release: Option<Release>,
}

/// A release that Core owes to the device until it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Also remove the private home.
    pub remove_home: bool,
    /// When the Runtime confirmed it; terminal.
    pub acknowledged_at: Option<Timestamp>,
}

/// A Runtime identity with its credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Identity.
    pub id: DeviceId,
    /// The Environment it serves; none = a shared Runtime of the installation.
    pub environment_id: Option<EnvironmentId>,
    /// Digest of its credential.
    pub credential: Digest,
    /// When its authority ended.
    pub revoked_at: Option<Timestamp>,
}

mod decide;

pub use decide::{choose, released};
