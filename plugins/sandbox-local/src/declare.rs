//! What the provider says about itself on this machine (LOC-003), and whether it is ready (LOC-002).

use sdk::common::{Effect, Failure, Pair};
use sdk::machine_types::MachineFacts;
use sdk::sandbox_types::{
    Health, ProviderAbilities, ProviderDeclaration, ResourceSupport, ResourceUse, Resources,
    Selection,
};

/// Sandboxes that run at once (SP-10.1). An idle one costs little, and each Session keeps its own until it is deleted: a small number
/// here is a small number of Sessions.
const MAX_ACTIVE: u32 = 100;
/// All that are kept: as many, because an idle one is not suspended yet (SP-13.4).
const MAX_RETAINED: u32 = MAX_ACTIVE;

fn enforces(facts: &MachineFacts, limit: &str) -> bool {
    facts.enforced.iter().any(|name| name == limit)
}

fn support(facts: &MachineFacts) -> ResourceSupport {
    let of = |limit| {
        if enforces(facts, limit) {
            ResourceUse::Applied
        } else {
            ResourceUse::Refused
        }
    };
    ResourceSupport {
        cpus: of("cpus"),
        memory: of("memory"),
        root_disk: ResourceUse::Refused,
        environment_disk: ResourceUse::Refused,
    }
}

fn told(facts: &MachineFacts) -> Vec<Pair> {
    let isolation = if facts.level.is_empty() {
        "unavailable"
    } else {
        &facts.level
    };
    let mut told = vec![
        Pair {
            name: "isolation".to_owned(),
            value: isolation.to_owned(),
        },
        Pair {
            name: "enforced_limits".to_owned(),
            value: facts.enforced.join(" "),
        },
    ];
    if let Some(problem) = &facts.problem {
        told.push(Pair {
            name: "problem".to_owned(),
            value: problem.clone(),
        });
    }
    told
}

pub(crate) fn describe(
    facts: &MachineFacts,
    on: &Selection,
) -> Result<ProviderDeclaration, Failure> {
    if !on.settings.is_empty() {
        let detail = "local has no settings".to_owned();
        return Err(Failure {
            code: "setting_unknown".to_owned(),
            detail,
            effect: Effect::None,
        });
    }
    if let Some(code) = unusable(facts, &on.resources) {
        return Err(Failure {
            code: code.to_owned(),
            detail: String::new(),
            effect: Effect::None,
        });
    }
    Ok(ProviderDeclaration {
        id: "local".to_owned(),
        display_name: "This machine".to_owned(),
        abilities: ProviderAbilities {
            suspend_cold: false,
            suspend_warm: false,
            observe: true,
            settle_by_expiry: false,
            // A create ends with the Core that made it, and the name is taken by the folder.
            settle_by_name: true,
            finish_bootstrap: true,
            network_disabled: false,
            network_restricted: false,
            system_packages: false,
            public_core_url: false,
        },
        resources: support(facts),
        sizes: Vec::new(),
        images: Vec::new(),
        longest_lease_ms: None,
        ephemeral_workspace_s: None,
        workspace_limit_bytes: None,
        artifact_session_limit_bytes: None,
        max_active: MAX_ACTIVE,
        max_retained: MAX_RETAINED,
        facts: told(facts),
        more: Vec::new(),
    })
}

/// The first wish that this machine cannot keep (SP-2.5, SP-12.1).
pub(crate) fn unusable(facts: &MachineFacts, wished: &Resources) -> Option<&'static str> {
    if wished.root_disk_mib.is_some() || wished.environment_disk_mib.is_some() {
        return Some("resource_unsupported");
    }
    let unenforced = (wished.cpus.is_some() && !enforces(facts, "cpus"))
        || (wished.memory_mib.is_some() && !enforces(facts, "memory"));
    if unenforced {
        return Some("limits_unsupported");
    }
    let too_much = wished.cpus.is_some_and(|cpus| cpus > facts.cpus)
        || wished
            .memory_mib
            .is_some_and(|memory| memory > facts.memory_mib);
    too_much.then_some("capacity_insufficient")
}

pub(crate) fn check(facts: &MachineFacts, on: &Selection) -> Health {
    let missing = if facts.level.is_empty() {
        Some(
            facts
                .problem
                .clone()
                .unwrap_or_else(|| "isolation_unavailable".to_owned()),
        )
    } else {
        unusable(facts, &on.resources).map(str::to_owned)
    };
    Health {
        ready: missing.is_none(),
        code: missing,
        resolved: on.resources.clone(),
        facts: told(facts),
    }
}
