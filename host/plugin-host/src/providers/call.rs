//! What one call is about.

use std::sync::Arc;
use std::time::Duration;

use contract::common::Pair;
use contract::host_types::ArtifactRef;
use contract::sandbox_types as theirs;
use domain::Secret;
use domain::provider::{AllocationRef, SandboxSpec};
use machine::sandbox::Seen;

use crate::translate::provider as translate;

/// Makes the bytes of the bootstrap file when its places, as the daemon will see them, are known (SP-5.2, LOC-011).
pub type BootstrapFile = Arc<dyn Fn(&Seen<'_>) -> Secret + Send + Sync>;

/// The target of an operation (SP-2.6, SP-3.2).
#[derive(Debug, Clone)]
pub struct Target {
    /// Identity.
    pub allocation: AllocationRef,
    /// Settings of the allocation's own generation, without the secret ones.
    pub settings: Vec<(String, String)>,
    /// What it was created with.
    pub spec: SandboxSpec,
    /// Native id, once known.
    pub native_id: Option<String>,
    /// Budget; the call is given up then and its result is unknown (SP-3.4).
    pub budget: Duration,
}

/// How the daemon gets into the sandbox.
#[derive(Clone)]
pub struct DaemonStart {
    /// The bootstrap file.
    pub file: BootstrapFile,
    /// Core's address as the sandbox sees it (SP-5.10).
    pub core_url: String,
}

/// Where things are inside a sandbox, the same for every provider (SP-5.5).
const BOOTSTRAP: &str = "/berth/bootstrap.json";
const PROGRAM: &str = "/opt/berth/bin/berth";
const ACCOUNT: (&str, u32) = ("agent", 1000);

pub(super) fn pairs(from: &[(String, String)]) -> Vec<Pair> {
    from.iter()
        .map(|(name, value)| Pair {
            name: name.clone(),
            value: value.clone(),
        })
        .collect()
}

impl Target {
    pub(super) fn theirs(&self) -> theirs::Target {
        theirs::Target {
            allocation: translate::allocation(&self.allocation),
            settings: pairs(&self.settings),
            spec: translate::spec(&self.spec),
            native_id: self.native_id.clone(),
            budget_ms: u32::try_from(self.budget.as_millis()).unwrap_or(u32::MAX),
        }
    }
}

impl DaemonStart {
    pub(super) fn theirs(&self) -> theirs::Bootstrap {
        theirs::Bootstrap {
            path: BOOTSTRAP.to_owned(),
            program: PROGRAM.to_owned(),
            args: vec![
                "daemon".to_owned(),
                "--bootstrap".to_owned(),
                BOOTSTRAP.to_owned(),
            ],
            artifact: ArtifactRef {
                name: "berth-runtime".to_owned(),
                os: "linux".to_owned(),
                arch: std::env::consts::ARCH.to_owned(),
            },
            account: ACCOUNT.0.to_owned(),
            uid: ACCOUNT.1,
            core_url: self.core_url.clone(),
        }
    }
}
