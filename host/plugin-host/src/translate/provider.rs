//! Sandbox providers: declarations, results and listings into our words, targets and specifications into theirs.

use contract::common::Pair;
use contract::sandbox_types as theirs;
use domain::Timestamp;
use domain::provider::{
    Abilities, AllocationRef, Health, NativeState, NetworkPolicy, Outcome, Owned,
    ProviderDeclaration, ResourceUse, Resources, SandboxInfo, SandboxSpec,
};

/// Most facts of one record; they are for people.
const FACTS: usize = 32;

/// A declaration that the host cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeclarationError(&'static str);

/// Checks and takes a declaration.
///
/// # Errors
/// The first rule that it breaks.
pub fn declaration(
    from: theirs::ProviderDeclaration,
) -> Result<ProviderDeclaration, DeclarationError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=32).contains(&from.id.len()) || !from.id.bytes().all(allowed) {
        return Err(DeclarationError("the provider's id is not [a-z0-9-]{1,32}"));
    }
    if from.max_active == 0 || from.max_retained < from.max_active {
        return Err(DeclarationError(
            "max-retained is below max-active, or nothing may be active",
        ));
    }
    let size_known = |size: &String| from.sizes.iter().any(|offer| offer.id == *size);
    if !from
        .images
        .iter()
        .filter_map(|image| image.minimum_size.as_ref())
        .all(size_known)
    {
        return Err(DeclarationError(
            "an image needs a size that is not offered",
        ));
    }
    let theirs::ResourceSupport {
        cpus,
        memory,
        root_disk,
        environment_disk,
    } = from.resources;
    Ok(ProviderDeclaration {
        id: from.id,
        display_name: from.display_name,
        abilities: abilities(&from.abilities),
        resources: [cpus, memory, root_disk, environment_disk].map(resource_use),
        sizes: from
            .sizes
            .into_iter()
            .map(|offer| (offer.id, resources(&offer.resources)))
            .collect(),
        images: from
            .images
            .into_iter()
            .map(|offer| (offer.id, offer.minimum_size))
            .collect(),
        longest_lease_ms: from.longest_lease_ms,
        ephemeral_workspace_s: from.ephemeral_workspace_s,
        workspace_limit_bytes: from.workspace_limit_bytes,
        artifact_session_limit_bytes: from.artifact_session_limit_bytes,
        max_active: from.max_active,
        max_retained: from.max_retained,
        facts: facts(from.facts),
    })
}

fn abilities(from: &theirs::ProviderAbilities) -> Abilities {
    let theirs::ProviderAbilities {
        suspend_cold,
        suspend_warm,
        observe,
        settle_by_expiry,
        settle_by_name,
        finish_bootstrap,
        network_disabled,
        network_restricted,
        system_packages,
        public_core_url,
    } = *from;
    Abilities {
        suspend_cold,
        suspend_warm,
        observe,
        settle_by_expiry,
        settle_by_name,
        finish_bootstrap,
        network_disabled,
        network_restricted,
        system_packages,
        public_core_url,
    }
}

fn resource_use(from: theirs::ResourceUse) -> ResourceUse {
    match from {
        theirs::ResourceUse::Applied => ResourceUse::Applied,
        theirs::ResourceUse::Fixed => ResourceUse::Fixed,
        theirs::ResourceUse::Refused => ResourceUse::Refused,
    }
}

/// Resources into our words.
pub fn resources(from: &theirs::Resources) -> Resources {
    let theirs::Resources {
        cpus,
        memory_mib,
        root_disk_mib,
        environment_disk_mib,
    } = *from;
    Resources {
        cpus,
        memory_mib,
        root_disk_mib,
        environment_disk_mib,
    }
}

/// Resources into theirs.
pub fn wished(from: &Resources) -> theirs::Resources {
    let Resources {
        cpus,
        memory_mib,
        root_disk_mib,
        environment_disk_mib,
    } = *from;
    theirs::Resources {
        cpus,
        memory_mib,
        root_disk_mib,
        environment_disk_mib,
    }
}

fn facts(from: Vec<Pair>) -> Vec<(String, String)> {
    from.into_iter()
        .take(FACTS)
        .map(|pair| (pair.name, pair.value))
        .collect()
}

fn native_state(from: theirs::SandboxState) -> NativeState {
    match from {
        theirs::SandboxState::Starting => NativeState::Starting,
        theirs::SandboxState::Running => NativeState::Running,
        theirs::SandboxState::Suspended => NativeState::Suspended,
        theirs::SandboxState::Stopped => NativeState::Stopped,
        theirs::SandboxState::Tombstone => NativeState::Tombstone,
        theirs::SandboxState::Gone => NativeState::Gone,
        theirs::SandboxState::Other(name) => NativeState::Other(name),
    }
}

fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
}

fn info(from: theirs::SandboxInfo) -> SandboxInfo {
    SandboxInfo {
        native_id: from.native_id,
        state: native_state(from.state),
        bootstrap_complete: from.bootstrap_complete,
        create_settled: from.create_settled,
        lease_until: from.lease_until_ms.map(timestamp),
        operation: from.operation,
        facts: facts(from.facts),
    }
}

/// A code as the contract wants it; anything else could carry native text outside (SP-3.7).
pub fn code(from: String) -> String {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=64).contains(&from.len()) && from.bytes().all(allowed) {
        from
    } else {
        "invalid_code".to_owned()
    }
}

/// One of the six results.
pub fn outcome(from: theirs::Outcome) -> Outcome {
    match from {
        theirs::Outcome::Done(found) => Outcome::Done(info(found)),
        theirs::Outcome::Rejected(rejection) => Outcome::Rejected {
            code: code(rejection.code),
            remains: rejection.remains.map(info),
        },
        theirs::Outcome::Exists(found) => Outcome::Exists(info(found)),
        theirs::Outcome::NotFound => Outcome::NotFound,
        theirs::Outcome::NotOurs => Outcome::NotOurs,
        theirs::Outcome::Unknown(doubt) => Outcome::Unknown {
            code: code(doubt.code),
            evidence: doubt.evidence.map(info),
        },
    }
}

/// Readiness.
pub fn health(from: theirs::Health) -> Health {
    Health {
        ready: from.ready,
        code: from.code.map(code),
        resolved: resources(&from.resolved),
        facts: facts(from.facts),
    }
}

/// One listed resource. Labels that are no ids of ours leave it without an allocation, so it is only reported.
pub fn owned(from: theirs::Owned) -> Owned {
    let allocation = from.allocation.and_then(|labels| {
        Some((
            labels.id.parse().ok()?,
            labels.tenant.parse().ok()?,
            labels.environment.parse().ok()?,
        ))
    });
    Owned {
        allocation,
        native_id: from.native_id,
        state: native_state(from.state),
        created_at: from.created_at_ms.map(timestamp),
    }
}

/// The identity of an allocation in the plugin's words.
pub fn allocation(from: &AllocationRef) -> theirs::Allocation {
    let installation = from.installation.to_string();
    // Two installations on one machine differ in their first digits; the allocation's id is unique by itself.
    let short: String = installation
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(8)
        .collect();
    let id = from.id.to_string();
    let digits: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    theirs::Allocation {
        installation,
        tenant: from.project.to_string(),
        environment: from.environment.to_string(),
        id,
        generation: u32::try_from(from.generation).unwrap_or(u32::MAX),
        name: format!("berth-{short}-{digits}").to_ascii_lowercase(),
    }
}

/// A specification in the plugin's words.
pub fn spec(from: &SandboxSpec) -> theirs::SandboxSpec {
    theirs::SandboxSpec {
        resources: wished(&from.resources),
        size: from.size.clone(),
        image: from.image.clone(),
        network: match &from.network {
            NetworkPolicy::Enabled => theirs::NetworkPolicy::Enabled,
            NetworkPolicy::Disabled => theirs::NetworkPolicy::Disabled,
            NetworkPolicy::Restricted(hosts) => {
                theirs::NetworkPolicy::Restricted(theirs::AllowedHosts {
                    hosts: hosts.clone(),
                })
            }
        },
        system_packages: Vec::new(),
        lease_ms: from.lease_ms,
        more: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference() -> AllocationRef {
        let uuid = "0f0e0d0c-0b0a-4908-8706-050403020100";
        AllocationRef {
            installation: uuid.parse().unwrap(),
            project: uuid.parse().unwrap(),
            session: uuid.parse().unwrap(),
            environment: "env_0f0e0d0c0b0a49088706050403020100".parse().unwrap(),
            id: uuid.parse().unwrap(),
            generation: 3,
        }
    }

    // SP-3.2: the native name is a DNS label.
    #[test]
    fn the_name_of_an_allocation_is_a_dns_label_and_its_labels_come_back() {
        let named = allocation(&reference());
        assert_eq!(
            named.name,
            "berth-0f0e0d0c-0f0e0d0c0b0a49088706050403020100"
        );
        assert!(named.name.len() <= 63);
        let listed = theirs::Owned {
            allocation: Some(named),
            native_id: "x".into(),
            state: theirs::SandboxState::Running,
            created_at_ms: Some(5),
        };
        let found = owned(listed.clone());
        let AllocationRef {
            id,
            project,
            environment,
            ..
        } = reference();
        assert_eq!(found.allocation, Some((id, project, environment)));
        let mut foreign = listed;
        if let Some(labels) = &mut foreign.allocation {
            labels.environment = "made-by-hand".into();
        }
        assert_eq!(owned(foreign).allocation, None);
    }

    // SP-3.7
    #[test]
    fn only_fixed_codes_leave_a_plugin() {
        for (given, expected) in [
            ("size_mismatch", "size_mismatch"),
            ("Error: no such host 10.0.0.1", "invalid_code"),
            ("", "invalid_code"),
        ] {
            assert_eq!(code(given.to_owned()), expected);
        }
    }
}
