//! The addresses of an earlier run: programs that were written against them keep working.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::Path;

const FILE: &str = "demo.json";

/// The ports that the demo used last.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// Of the server.
    pub server: Option<u16>,
    /// Of the scripted model.
    pub model: Option<u16>,
}

impl Ports {
    /// Reads them; without a readable file there are none.
    pub fn load(folder: &Path) -> Self {
        std::fs::read(folder.join(FILE))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    /// Keeps them for the next run.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn save(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::write(folder.join(FILE), serde_json::to_vec(self)?)
            .with_context(|| format!("cannot write to {}", folder.display()))
    }
}

/// The port, if nobody took it meanwhile; else 0, for any free one.
pub fn still_free(port: Option<u16>) -> u16 {
    port.filter(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_kept_and_given_up_when_taken() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Ports::load(folder.path()), Ports::default());
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let ports = Ports {
            server: Some(port),
            model: None,
        };
        ports.save(folder.path()).unwrap();
        assert_eq!(Ports::load(folder.path()), ports);
        assert_eq!(still_free(Some(port)), 0);
        assert_eq!(still_free(None), 0);
    }
}
