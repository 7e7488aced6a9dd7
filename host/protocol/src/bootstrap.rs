//! How a daemon learns where Core is and who it is itself: the bootstrap file (SP-5.2) and the bootstrap request (RP-3.2).

use std::path::{Path, PathBuf};

use domain::{DeviceId, EnvironmentId, InstallationId, Secret};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Longest bootstrap file in bytes (SP-5.2).
pub const FILE_LIMIT: usize = 16 * 1024;
/// Begins an address of Core that is a Unix socket's absolute path on the Runtime's own machine.
const SOCKET_SCHEME: &str = "unix:";
/// Version of the file.
const FILE_VERSION: u32 = 1;

/// Below Core's public address.
pub const BOOTSTRAP_PATH: &str = "/api/v1/agent-daemon/bootstrap";
/// The WebSocket below Core's public address.
pub const SOCKET_PATH: &str = "/api/v1/agent-daemon/ws";

/// The bootstrap file. Members that it does not know, repeats and missing ones are refused; errors never show a value (SP-5.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootstrapFile {
    /// Always 1.
    pub version: u32,
    /// Core's address: `http` or `https` without a trailing slash, or [`socket_address`] for a Runtime of Core's own machine.
    pub core_url: String,
    /// The installation that this Runtime belongs to for ever.
    pub installation_id: InstallationId,
    /// Its device.
    pub device_id: DeviceId,
    /// The device's credential.
    #[serde(
        serialize_with = "write_credential",
        deserialize_with = "read_credential"
    )]
    pub credential: Secret,
    /// The only Environment that it serves; absent for an engine host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<EnvironmentId>,
    /// Absolute path of the workspace as the daemon sees it; absent for an engine host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
}

/// The file cannot be used. The text never shows what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadBootstrap {
    /// Longer than 16 KiB.
    #[error("the bootstrap file is longer than 16 KiB")]
    TooLong,
    /// Not exactly the members of this version.
    #[error("the bootstrap file does not have exactly the expected members")]
    Malformed,
    /// Another version.
    #[error("the bootstrap file is of another version")]
    Version,
    /// An Environment without a workspace, or the other way round, or a workspace that is not absolute.
    #[error("the bootstrap file names no usable workspace for its environment")]
    Workspace,
    /// The address of Core is neither an `http` or `https` address without trailing slash nor a socket's.
    #[error("the bootstrap file names no usable address of Core")]
    CoreUrl,
}

impl BootstrapFile {
    /// A file of the present version.
    #[must_use]
    pub fn new(
        core_url: String,
        installation_id: InstallationId,
        device_id: DeviceId,
        credential: Secret,
        served: Option<(EnvironmentId, PathBuf)>,
    ) -> Self {
        let (environment_id, workspace) = served.unzip();
        Self {
            version: FILE_VERSION,
            core_url,
            installation_id,
            device_id,
            credential,
            environment_id,
            workspace,
        }
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// See [`BadBootstrap`].
    pub fn read(bytes: &[u8]) -> Result<Self, BadBootstrap> {
        if bytes.len() > FILE_LIMIT {
            return Err(BadBootstrap::TooLong);
        }
        let file: Self = serde_json::from_slice(bytes).map_err(|_| BadBootstrap::Malformed)?;
        if file.version != FILE_VERSION {
            return Err(BadBootstrap::Version);
        }
        let pair = file.environment_id.is_some() == file.workspace.is_some();
        if !pair
            || file
                .workspace
                .as_ref()
                .is_some_and(|path| !path.is_absolute())
        {
            return Err(BadBootstrap::Workspace);
        }
        let url = file.core_url.starts_with("https://") || file.core_url.starts_with("http://");
        let socket = socket_of(&file.core_url).is_some_and(Path::is_absolute);
        if !(url || socket) || file.core_url.ends_with('/') {
            return Err(BadBootstrap::CoreUrl);
        }
        Ok(file)
    }

    /// Where Core's socket is, if it is reached through one.
    #[must_use]
    pub fn core_socket(&self) -> Option<&Path> {
        socket_of(&self.core_url)
    }

    /// The bytes of the file: a secret, for its credential.
    ///
    /// # Errors
    /// A credential or path that is not UTF-8.
    pub fn write(&self) -> Result<Secret, serde_json::Error> {
        serde_json::to_vec(self).map(Secret::new)
    }
}

/// The address of a Core that waits at a Unix socket.
#[must_use]
pub fn socket_address(path: &str) -> String {
    format!("{SOCKET_SCHEME}{path}")
}

/// The socket's path, if the address is one.
#[must_use]
pub fn socket_of(core_url: &str) -> Option<&Path> {
    core_url.strip_prefix(SOCKET_SCHEME).map(Path::new)
}

/// Body of the bootstrap request; the credential is in the Authorization header only (RP-3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootstrapRequest {
    /// The device.
    pub device_id: DeviceId,
}

/// Answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootstrapAnswer {
    /// The device.
    pub device_id: DeviceId,
    /// Where to dial, from Core's public address only (RP-3.1).
    pub ws_url: String,
    /// Heartbeat interval in milliseconds.
    pub heartbeat_ms: u64,
    /// The wire version that Core speaks (RP-3.4).
    pub protocol_version: u32,
}

fn write_credential<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    let text = secret
        .as_str()
        .ok_or_else(|| serde::ser::Error::custom("a credential is UTF-8 text"))?;
    serializer.serialize_str(text)
}

fn read_credential<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    let text = String::deserialize(deserializer)?;
    let usable = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    if usable {
        Ok(Secret::from(text))
    } else {
        Err(de::Error::custom("not a credential"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> BootstrapFile {
        BootstrapFile::new(
            "https://core.test".to_owned(),
            InstallationId::new(uuid::Uuid::nil()),
            DeviceId::new(uuid::Uuid::nil()),
            Secret::from("canary".to_owned()),
            Some((EnvironmentId::new(uuid::Uuid::nil()), "/workspace".into())),
        )
    }

    // SP-5.2
    #[test]
    fn exactly_the_members_of_the_version_are_taken() {
        let written = file().write().unwrap();
        assert_eq!(BootstrapFile::read(written.expose()), Ok(file()));
        let text = written.as_str().unwrap();
        for bad in [
            text.replace("\"version\":1", "\"version\":1,\"version\":1"),
            text.replace("\"version\"", "\"Version\""),
            text.replace("\"workspace\":\"/workspace\"", "\"more\":1"),
            text.replace("canary", ""),
        ] {
            assert_eq!(
                BootstrapFile::read(bad.as_bytes()),
                Err(BadBootstrap::Malformed),
                "{bad}"
            );
        }
        let version = text.replace("\"version\":1", "\"version\":2");
        assert_eq!(
            BootstrapFile::read(version.as_bytes()),
            Err(BadBootstrap::Version)
        );
        for bad in [
            text.replace(",\"workspace\":\"/workspace\"", ""),
            text.replace("\"/workspace\"", "null"),
            text.replace("\"/workspace\"", "\"workspace\""),
        ] {
            assert_eq!(
                BootstrapFile::read(bad.as_bytes()),
                Err(BadBootstrap::Workspace),
                "{bad}"
            );
        }
        let of = |address: &str| text.replace("https://core.test", address);
        for good in [
            "http://127.0.0.1:1",
            &socket_address("/berth/core/core.sock"),
        ] {
            BootstrapFile::read(of(good).as_bytes()).unwrap();
        }
        for bad in [
            "core.test",
            "https://core.test/",
            "unix:",
            "unix:core.sock",
            "unix:/x/",
        ] {
            let refused = BootstrapFile::read(of(bad).as_bytes());
            assert_eq!(refused, Err(BadBootstrap::CoreUrl), "{bad}");
        }
        let long = format!("{text}{}", " ".repeat(FILE_LIMIT));
        assert_eq!(
            BootstrapFile::read(long.as_bytes()),
            Err(BadBootstrap::TooLong)
        );
        assert!(!format!("{:?}", file()).contains("canary"));
    }
}
