//! A harness declaration from what differs from "nothing but text".

use contract::catalogue::ABILITIES;
use contract::harness_declaration::{
    Ability, Cancellation, Declaration, FunctionLimits, HistoryRecovery, McpLimits, MessageLimits,
    ModelSupport, Support,
};

/// A declaration of a harness with these abilities, each with its level in the placements none, hosted, self-hosted.
/// Every other name of the catalogue is refused; change the fields of the answer for more.
#[must_use]
pub fn harness(id: &str, display_name: &str, offered: &[(&str, [Support; 3])]) -> Declaration {
    let ability = |name: &&str| {
        let level = offered.iter().find(|(known, _)| known == name);
        let [none, hosted, self_hosted] = level.map_or([Support::Refused; 3], |(_, level)| *level);
        Ability {
            name: (*name).to_owned(),
            none,
            hosted,
            self_hosted,
        }
    };
    Declaration {
        id: id.to_owned(),
        display_name: display_name.to_owned(),
        rank: 1000,
        install: id.to_owned(),
        abilities: ABILITIES.iter().map(ability).collect(),
        conflicts: Vec::new(),
        models: ModelSupport {
            protocols: vec!["responses".to_owned()],
            needs_token_limits: false,
            own_model: false,
            verbosities: Vec::new(),
            efforts: Vec::new(),
            service_tiers: Vec::new(),
        },
        parameters_schema: "{\"type\":\"object\",\"additionalProperties\":false}".to_owned(),
        functions: FunctionLimits {
            max_count: 0,
            max_name_bytes: 64,
            name_pattern: None,
            reserved_names: Vec::new(),
            object_root: false,
            exact_numbers: false,
            result_images: Vec::new(),
            result_images_on_success_only: false,
        },
        mcp: McpLimits {
            label_pattern: None,
            reserved_labels: Vec::new(),
            tool_pattern: None,
            allow_lists: false,
            literal_headers: false,
            bearer_needs_https: true,
        },
        messages: MessageLimits {
            images: Vec::new(),
            whitespace_only: false,
            max_messages_per_turn: Some(1),
        },
        cancellation: Cancellation {
            keeps_process: false,
            settles_within_ms: 5_000,
        },
        recovery: HistoryRecovery::Unsupported,
        platform_prompt: false,
        idle_s: 60,
        silence_limit_s: 600,
        turn_limit_s: 0,
        more: Vec::new(),
    }
}
