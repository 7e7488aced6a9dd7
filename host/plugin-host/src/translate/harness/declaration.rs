//! What an adapter declares.

use contract::harness_declaration as theirs;
use domain::run::{
    Abilities, Cancellation, Capability, Conflict, FunctionLimits, HarnessDeclaration,
    HistoryRecovery, McpLimits, MessageLimits, ModelProtocol, ModelSupport, PerPlacement, Support,
};

/// Why a declaration is refused as a whole (RP-7.1).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeclarationError {
    /// Its id is no harness id.
    #[error("{0:?} is not a harness id")]
    Id(String),
    /// A name that the catalogue does not have.
    #[error("ability {0:?} is not in the catalogue")]
    UnknownAbility(String),
    /// A name of the catalogue that is not there.
    #[error("ability {0:?} is missing")]
    MissingAbility(&'static str),
    /// A name that is there twice.
    #[error("ability {0:?} is there twice")]
    RepeatedAbility(String),
    /// A protocol that no relay speaks.
    #[error("model protocol {0:?} is unknown")]
    Protocol(String),
    /// A number outside of its bounds.
    #[error("{0} is out of bounds")]
    Bounds(&'static str),
}

/// Checks and takes a declaration over.
///
/// # Errors
/// The first [`DeclarationError`].
pub fn declaration(declared: theirs::Declaration) -> Result<HarnessDeclaration, DeclarationError> {
    let id = declared
        .id
        .parse()
        .map_err(|_| DeclarationError::Id(declared.id.clone()))?;
    if declared.cancellation.settles_within_ms > 8_000 {
        return Err(DeclarationError::Bounds("settles-within-ms"));
    }
    if declared.functions.max_count > 64 || declared.functions.max_name_bytes > 512 {
        return Err(DeclarationError::Bounds("functions"));
    }
    Ok(HarnessDeclaration {
        id,
        display_name: declared.display_name,
        rank: declared.rank,
        install: declared.install,
        abilities: abilities(declared.abilities)?,
        conflicts: declared
            .conflicts
            .into_iter()
            .map(conflict)
            .collect::<Result<_, _>>()?,
        models: models(declared.models)?,
        parameters_schema: declared.parameters_schema,
        functions: FunctionLimits {
            max_count: declared.functions.max_count,
            max_name_bytes: declared.functions.max_name_bytes,
            name_pattern: declared.functions.name_pattern,
            reserved_names: declared.functions.reserved_names,
            object_root: declared.functions.object_root,
            exact_numbers: declared.functions.exact_numbers,
            result_images: declared.functions.result_images,
            result_images_on_success_only: declared.functions.result_images_on_success_only,
        },
        mcp: McpLimits {
            label_pattern: declared.mcp.label_pattern,
            reserved_labels: declared.mcp.reserved_labels,
            tool_pattern: declared.mcp.tool_pattern,
            allow_lists: declared.mcp.allow_lists,
            literal_headers: declared.mcp.literal_headers,
            bearer_needs_https: declared.mcp.bearer_needs_https,
        },
        messages: MessageLimits {
            images: declared.messages.images,
            whitespace_only: declared.messages.whitespace_only,
            max_messages_per_turn: declared.messages.max_messages_per_turn,
        },
        cancellation: Cancellation {
            keeps_process: declared.cancellation.keeps_process,
            settles_within_ms: declared.cancellation.settles_within_ms,
        },
        recovery: match declared.recovery {
            theirs::HistoryRecovery::Unsupported => HistoryRecovery::Unsupported,
            theirs::HistoryRecovery::NativeListing => HistoryRecovery::NativeListing,
            theirs::HistoryRecovery::HomeFiles => HistoryRecovery::HomeFiles,
        },
        platform_prompt: declared.platform_prompt,
        idle_s: declared.idle_s,
        silence_limit_s: declared.silence_limit_s,
        turn_limit_s: declared.turn_limit_s,
    })
}

fn abilities(declared: Vec<theirs::Ability>) -> Result<Abilities, DeclarationError> {
    let mut abilities = Abilities::REFUSED;
    let mut seen = Vec::with_capacity(declared.len());
    for ability in declared {
        let capability = known(&ability.name)?;
        let unknown = || DeclarationError::UnknownAbility(ability.name.clone());
        let place = abilities.get_mut(capability).ok_or_else(unknown)?;
        if seen.contains(&capability) {
            return Err(DeclarationError::RepeatedAbility(ability.name));
        }
        seen.push(capability);
        *place = PerPlacement {
            none: support(ability.none),
            hosted: support(ability.hosted),
            self_hosted: support(ability.self_hosted),
        };
    }
    match Capability::OF_ADAPTERS
        .iter()
        .find(|name| !seen.contains(name))
    {
        Some(missing) => Err(DeclarationError::MissingAbility(missing.as_str())),
        None => Ok(abilities),
    }
}

fn known(name: &str) -> Result<Capability, DeclarationError> {
    Capability::from_name(name).ok_or_else(|| DeclarationError::UnknownAbility(name.to_owned()))
}

fn conflict(declared: theirs::Conflict) -> Result<Conflict, DeclarationError> {
    let excludes = declared
        .excludes
        .iter()
        .map(|name| known(name))
        .collect::<Result<_, _>>()?;
    Ok(Conflict {
        ability: known(&declared.ability)?,
        excludes,
    })
}

fn models(declared: theirs::ModelSupport) -> Result<ModelSupport, DeclarationError> {
    let protocol = |name: String| {
        let all = [
            ModelProtocol::Responses,
            ModelProtocol::Anthropic,
            ModelProtocol::ChatCompletions,
        ];
        all.into_iter()
            .find(|p| p.as_str() == name)
            .ok_or(DeclarationError::Protocol(name))
    };
    Ok(ModelSupport {
        protocols: declared
            .protocols
            .into_iter()
            .map(protocol)
            .collect::<Result<_, _>>()?,
        needs_token_limits: declared.needs_token_limits,
        own_model: declared.own_model,
        verbosities: declared.verbosities,
        efforts: declared.efforts,
        service_tiers: declared.service_tiers,
    })
}

fn support(declared: theirs::Support) -> Support {
    match declared {
        theirs::Support::Refused => Support::Refused,
        theirs::Support::Admitted => Support::Admitted,
        theirs::Support::Verified => Support::Verified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<theirs::Ability> {
        let ability = |name: &Capability| theirs::Ability {
            name: name.as_str().to_owned(),
            none: theirs::Support::Refused,
            hosted: theirs::Support::Verified,
            self_hosted: theirs::Support::Admitted,
        };
        Capability::OF_ADAPTERS.iter().map(ability).collect()
    }

    // RP-7.1
    #[test]
    fn every_name_must_be_there_once() {
        assert_eq!(
            abilities(all()).unwrap().streaming.hosted,
            Support::Verified
        );
        let mut missing = all();
        missing.pop();
        assert_eq!(
            abilities(missing),
            Err(DeclarationError::MissingAbility("remote_tools"))
        );
        let mut twice = all();
        twice.push(twice[0].clone());
        assert_eq!(
            abilities(twice),
            Err(DeclarationError::RepeatedAbility("streaming".to_owned()))
        );
        for stranger in ["telepathy", "durable_turns"] {
            let mut strange = all();
            strange[0].name = stranger.to_owned();
            assert_eq!(
                abilities(strange),
                Err(DeclarationError::UnknownAbility(stranger.to_owned()))
            );
        }
    }

    // RP-7.3
    #[test]
    fn what_every_session_takes_is_what_the_contract_says() {
        let of_adapters = |name: &&Capability| Capability::OF_ADAPTERS.contains(*name);
        let needs = domain::run::EXECUTION_NEEDS.iter().filter(of_adapters);
        let mut needs: Vec<&str> = needs.map(|name| name.as_str()).collect();
        let mut said = contract::catalogue::EVERY_SESSION.to_vec();
        needs.sort_unstable();
        said.sort_unstable();
        assert_eq!(needs, said);
    }
}
