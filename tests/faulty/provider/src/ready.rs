//! What it asks of its service and of its helper, both with a key that it never sees.

use sdk::Host;
use sdk::common::Encoding;
use sdk::host_types::{
    Body, Command, Header, ProgramVariable, ReadMode, Request, SecretPiece, SecretRef, TextPiece,
};
use sdk::sandbox_types::{
    Outcome, ProviderAbilities, ProviderDeclaration, ResourceSupport, ResourceUse, SandboxInfo,
    SandboxState,
};

fn key() -> TextPiece {
    TextPiece::Secret(SecretPiece {
        secret: SecretRef::Setting("api-key".to_owned()),
        encoding: Encoding::Raw,
    })
}

/// Status of the service's answer, or the code of the failure.
pub(super) fn service(host: &dyn Host, path: &str) -> String {
    let authorization = Header {
        name: "authorization".to_owned(),
        value: vec![TextPiece::Text("Bearer ".to_owned()), key()],
    };
    let request = Request {
        endpoint: "service".to_owned(),
        labels: Vec::new(),
        method: "GET".to_owned(),
        path: path.to_owned(),
        headers: vec![authorization],
        body: Body::Empty,
        read: ReadMode::Whole,
        captures: Vec::new(),
        max_body_bytes: 1024,
        timeout_ms: 5_000,
    };
    match host.http().send(&request) {
        Ok(answer) => format!("status_{}", answer.status),
        Err(failure) => failure.code,
    }
}

/// What the helper says, or how it ended.
pub(super) fn helper(host: &dyn Host, word: &str) -> String {
    let command = Command {
        program: "helper".to_owned(),
        args: vec!["ask".to_owned(), word.to_owned()],
        env: vec![ProgramVariable {
            name: "KEY".to_owned(),
            value: vec![key()],
        }],
        stdin: Vec::new(),
        timeout_ms: 1_000,
        max_output_bytes: 1024,
    };
    match host.program().run(&command) {
        Ok(ended) if ended.exit_code == Some(0) => {
            String::from_utf8_lossy(&ended.stdout).trim().to_owned()
        }
        Ok(ended) => format!("exit_{}", ended.exit_code.unwrap_or(-1)),
        Err(failure) => failure.code,
    }
}

/// Why it is not ready, as both say.
pub(super) fn problem(host: &dyn Host) -> Option<String> {
    let said = service(host, "/ready");
    if said != "status_200" {
        return Some(said);
    }
    let said = helper(host, "ready");
    (said != "ready").then_some(said)
}

/// It can do nothing.
pub(super) fn declaration() -> ProviderDeclaration {
    ProviderDeclaration {
        id: "faulty-provider".to_owned(),
        display_name: "Faulty".to_owned(),
        abilities: ProviderAbilities {
            suspend_cold: false,
            suspend_warm: false,
            observe: false,
            settle_by_expiry: false,
            settle_by_name: false,
            finish_bootstrap: false,
            network_disabled: false,
            network_restricted: false,
            system_packages: false,
            public_core_url: false,
        },
        resources: ResourceSupport {
            cpus: ResourceUse::Refused,
            memory: ResourceUse::Refused,
            root_disk: ResourceUse::Refused,
            environment_disk: ResourceUse::Refused,
        },
        sizes: Vec::new(),
        images: Vec::new(),
        longest_lease_ms: None,
        ephemeral_workspace_s: None,
        workspace_limit_bytes: None,
        artifact_session_limit_bytes: None,
        max_active: 1,
        max_retained: 1,
        facts: Vec::new(),
        more: Vec::new(),
    }
}

/// Whatever it made is gone, since it makes nothing.
pub(super) fn gone() -> Outcome {
    Outcome::Done(SandboxInfo {
        native_id: None,
        state: SandboxState::Gone,
        bootstrap_complete: false,
        create_settled: true,
        lease_until_ms: None,
        operation: None,
        facts: Vec::new(),
    })
}
