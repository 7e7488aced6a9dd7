//! Credentials of the Runtimes that Core starts itself, and the file that hands them over (SP-5.2, SP-5.3).
//!
//! A credential is derived from a key of the installation and the device's id: nothing secret is stored, and a create that
//! was interrupted can be finished with the same file (SP-5.8).

use std::path::PathBuf;

use domain::{DeviceId, Digest, EnvironmentId, InstallationId, Secret};
use protocol::bootstrap::BootstrapFile;
use seal::{Fingerprinter, SealError};

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

/// The file's content. `environment` and `workspace` are absent for the shared Runtime of the installation.
pub(super) fn file(
    core_url: &str,
    installation: InstallationId,
    device: DeviceId,
    credential: &Secret,
    environment: Option<EnvironmentId>,
    workspace: Option<&str>,
) -> Secret {
    let served = environment.zip(workspace.map(PathBuf::from));
    let core_url = core_url.trim_end_matches('/').to_owned();
    let file = BootstrapFile::new(core_url, installation, device, credential.clone(), served);
    // Text, numbers and ids always have a JSON form; without one the daemon refuses an empty file.
    file.write().unwrap_or_else(|_| Secret::from(String::new()))
}
