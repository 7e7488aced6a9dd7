//! Credentials of the Runtimes that Core starts itself, and the file that hands them over (SP-5.2, SP-5.3).
//!
//! A credential is derived from a key of the installation and the device's id: nothing secret is stored, and a create that
//! was interrupted can be finished with the same file (SP-5.8).

use domain::{DeviceId, Digest, EnvironmentId, InstallationId, Secret};
use seal::{Fingerprinter, SealError};
use serde::Serialize;
use url::Url;

/// Prefix by which a device credential is recognised, here and in a log that should not have it.
const PREFIX: &str = "berth_device_";
/// Keeps this use of the key apart from every other.
const PURPOSE: &[u8] = b"device-credential";

/// The credential of a device.
pub(super) fn credential(keys: &Fingerprinter, device: DeviceId) -> Result<Secret, SealError> {
    let derived = keys.fingerprint(&[PURPOSE, device.to_string().as_bytes()])?;
    Ok(Secret::from(format!("{PREFIX}{derived}")))
}

/// What the database keeps of it (EC-1).
pub(super) fn digest(credential: &Secret) -> Digest {
    Digest::of(credential.expose())
}

/// The bootstrap file: one JSON object of exactly these members.
#[derive(Serialize)]
struct File<'a> {
    version: u32,
    core_url: &'a str,
    installation_id: InstallationId,
    device_id: DeviceId,
    credential: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment_id: Option<EnvironmentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<&'a str>,
}

/// The file's content. `environment` and `workspace` are absent for the shared Runtime of the installation.
pub(super) fn file(
    core: &Url,
    installation: InstallationId,
    device: DeviceId,
    credential: &Secret,
    environment: Option<EnvironmentId>,
    workspace: Option<&str>,
) -> Secret {
    let file = File {
        version: 1,
        core_url: core.as_str().trim_end_matches('/'),
        installation_id: installation,
        device_id: device,
        credential: credential.as_str().unwrap_or_default(),
        environment_id: environment,
        workspace,
    };
    // Strings, numbers and ids always have a JSON form; without one the daemon refuses an empty file.
    serde_json::to_string(&file)
        .map(Secret::from)
        .unwrap_or_else(|_| Secret::from(String::new()))
}
