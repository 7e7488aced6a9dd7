//! Abilities by name. Every name of the catalogue is an explicit field: a missing, null or unknown one invalidates the whole
//! declaration (RP-7.1).

use serde::{Deserialize, Serialize};

/// Where a Session's tools run. Data for admission; no frame names it (RP-1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Environment type `none`.
    None,
    /// `openai_hosted`.
    Hosted,
    /// `self_hosted`.
    SelfHosted,
}

/// How far an ability is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// Refused at admission.
    Refused,
    /// Offered, not proven by a test with the real program.
    Admitted,
    /// Offered and proven.
    Verified,
}

impl Support {
    /// The declaration does not refuse it.
    pub const fn offered(self) -> bool {
        !matches!(self, Self::Refused)
    }
}

/// One ability in each placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerPlacement {
    /// Environment type `none`.
    pub none: Support,
    /// `openai_hosted`.
    pub hosted: Support,
    /// `self_hosted`.
    pub self_hosted: Support,
}

impl PerPlacement {
    /// Refused everywhere.
    pub const REFUSED: Self = Self::all(Support::Refused);

    /// The same everywhere.
    pub const fn all(support: Support) -> Self {
        Self {
            none: support,
            hosted: support,
            self_hosted: support,
        }
    }

    /// In one placement.
    pub const fn at(self, placement: Placement) -> Support {
        match placement {
            Placement::None => self.none,
            Placement::Hosted => self.hosted,
            Placement::SelfHosted => self.self_hosted,
        }
    }
}

macro_rules! catalogue {
    (
        adapter { $($(#[$adapter_doc:meta])* $adapter:ident $adapter_field:ident,)* }
        runtime { $($(#[$runtime_doc:meta])* $runtime:ident $runtime_field:ident,)* }
    ) => {
        /// A name of the catalogue.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Capability {
            $($(#[$adapter_doc])* $adapter,)*
            $($(#[$runtime_doc])* $runtime,)*
        }

        impl Capability {
            /// Every name.
            pub const ALL: &'static [Capability] = &[$(Capability::$adapter,)* $(Capability::$runtime,)*];
            /// The names that a harness adapter declares.
            pub const OF_ADAPTERS: &'static [Capability] = &[$(Capability::$adapter,)*];

            /// The name as it is written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Capability::$adapter => stringify!($adapter_field),)*
                    $(Capability::$runtime => stringify!($runtime_field),)*
                }
            }

            /// The capability of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|capability| capability.as_str() == name)
            }
        }

        /// What an adapter declares, ability by ability and placement by placement.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Abilities { $($(#[$adapter_doc])* pub $adapter_field: PerPlacement,)* }

        impl Abilities {
            /// Nothing is offered.
            pub const REFUSED: Self = Self { $($adapter_field: PerPlacement::REFUSED,)* };

            /// The declared support; none for the names that the Runtime adds by itself.
            pub const fn get(&self, capability: Capability) -> Option<PerPlacement> {
                match capability {
                    $(Capability::$adapter => Some(self.$adapter_field),)*
                    $(Capability::$runtime => None,)*
                }
            }

            /// The place of a name of the adapter's part of the catalogue.
            pub fn get_mut(&mut self, capability: Capability) -> Option<&mut PerPlacement> {
                match capability {
                    $(Capability::$adapter => Some(&mut self.$adapter_field),)*
                    $(Capability::$runtime => None,)*
                }
            }
        }

        /// What one Runtime offers with one harness in its own placement: true = not refused (RP-7.1).
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct CapabilityFlags {
            $($(#[$adapter_doc])* pub $adapter_field: bool,)*
            $($(#[$runtime_doc])* pub $runtime_field: bool,)*
        }

        impl CapabilityFlags {
            /// Nothing is offered.
            pub const NONE: Self = Self { $($adapter_field: false,)* $($runtime_field: false,)* };

            /// The flag of a name.
            pub const fn has(&self, capability: Capability) -> bool {
                match capability {
                    $(Capability::$adapter => self.$adapter_field,)*
                    $(Capability::$runtime => self.$runtime_field,)*
                }
            }

            /// Sets the flag of a name.
            pub fn set(&mut self, capability: Capability, offered: bool) {
                match capability {
                    $(Capability::$adapter => self.$adapter_field = offered,)*
                    $(Capability::$runtime => self.$runtime_field = offered,)*
                }
            }
        }
    };
}

catalogue! {
    adapter {
        /// Events arrive while the Turn runs.
        Streaming streaming,
        /// A message for an active Turn.
        Steering steering,
        /// Tools are reported as Items.
        ToolObservations tool_observations,
        /// Messages are reported as Items.
        MessageItems message_items,
        /// Environment type `none`.
        EnvironmentNone environment_none,
        /// History is found without a stored id (RP-10.19).
        NativeSessionRecovery native_session_recovery,
        /// Cancel and settlement are confirmed.
        ExecutionControls execution_controls,
        /// Web search can be enabled.
        WebSearch web_search,
        /// Web search can be controlled.
        WebSearchControl web_search_control,
        /// Programmatic tool calling can be enabled.
        ProgrammaticToolCalling programmatic_tool_calling,
        /// Programmatic tool calling can be disabled.
        ProgrammaticToolCallingDisable programmatic_tool_calling_disable,
        /// `text.verbosity` other than `medium`.
        TextVerbosity text_verbosity,
        /// Explicit `reasoning`.
        ReasoningOptions reasoning_options,
        /// `service_tier` other than `auto`.
        ServiceTiers service_tiers,
        /// A JSON schema for the answer.
        StructuredOutput structured_output,
        /// Deferred function discovery.
        ToolSearch tool_search,
        /// Public functions.
        FunctionTools function_tools,
        /// Pictures in messages.
        MessageImages message_images,
        /// Pictures by URL.
        ImageUrls image_urls,
        /// Pictures in function results.
        FunctionResultImages function_result_images,
        /// Subagents.
        Subagents subagents,
        /// Subagents are reported.
        SubagentObservations subagent_observations,
        /// Subagents can be switched off.
        SubagentControl subagent_control,
        /// HTTP MCP servers.
        McpHttpTools mcp_http_tools,
        /// Required HTTP MCP servers.
        McpHttpRequired mcp_http_required,
        /// Bearer credentials for HTTP MCP servers.
        McpHttpBearerAuth mcp_http_bearer_auth,
        /// MCP servers reached from Core's side.
        McpServiceOrigin mcp_service_origin,
        /// MCP servers reached from the workspace.
        McpEnvironmentOrigin mcp_environment_origin,
        /// Declared stdio MCP servers.
        McpStdio mcp_stdio,
        /// HTTP MCP servers of Plugins.
        PluginMcpHttp plugin_mcp_http,
        /// Stdio MCP servers of Plugins.
        PluginMcpStdio plugin_mcp_stdio,
        /// Skills.
        Skills skills,
        /// Plugins.
        Plugins plugins,
        /// Capability directories.
        CapabilityDirectories capability_directories,
        /// Public token usage.
        TokenUsage token_usage,
        /// Tools served by the host for a runner.
        RemoteTools remote_tools,
    }
    runtime {
        /// A Turn's events and outcome are kept until acknowledged.
        DurableTurns durable_turns,
        /// Each input has a receipt.
        DurableInputReceipts durable_input_receipts,
        /// Execution admission (RP-10).
        Preparation preparation,
        /// The workspace is on this machine.
        LocalEnvironment local_environment,
        /// Read-only workspace preparation (RP-10.20).
        WorkspaceReadPreparation workspace_read_preparation,
        /// `workspace_export` (RP-15.14).
        WorkspaceOutputExport workspace_output_export,
    }
}

/// What every execution needs, whatever it asks for (RP-7.3).
pub const EXECUTION_NEEDS: &[Capability] = &[
    Capability::Streaming,
    Capability::DurableTurns,
    Capability::DurableInputReceipts,
    Capability::Preparation,
    Capability::ExecutionControls,
    Capability::ToolObservations,
];

impl CapabilityFlags {
    /// The first of `needs` that is not offered.
    pub fn missing<'a>(
        &self,
        needs: impl IntoIterator<Item = &'a Capability>,
    ) -> Option<Capability> {
        needs.into_iter().copied().find(|need| !self.has(*need))
    }

    /// `later` offers nothing that this one does not (CAP-006: a heartbeat may only narrow).
    pub fn narrowed_by(&self, later: &CapabilityFlags) -> bool {
        Capability::ALL
            .iter()
            .all(|capability| self.has(*capability) || !later.has(*capability))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_the_same_everywhere() {
        let flags = serde_json::to_value(CapabilityFlags::NONE).unwrap();
        assert_eq!(flags.as_object().unwrap().len(), Capability::ALL.len());
        for capability in Capability::ALL {
            assert_eq!(
                serde_json::to_value(capability).unwrap(),
                capability.as_str()
            );
            assert_eq!(flags[capability.as_str()], false);
            assert_eq!(
                Capability::from_name(capability.as_str()),
                Some(*capability)
            );
        }
    }

    #[test]
    fn a_missing_null_or_unknown_flag_invalidates_the_declaration() {
        // RP-7.1
        let whole = serde_json::to_value(CapabilityFlags::NONE).unwrap();
        assert!(serde_json::from_value::<CapabilityFlags>(whole.clone()).is_ok());
        let mut missing = whole.clone();
        missing.as_object_mut().unwrap().remove("steering");
        let mut null = whole.clone();
        null["steering"] = serde_json::Value::Null;
        let mut unknown = whole;
        unknown["telepathy"] = true.into();
        for broken in [missing, null, unknown] {
            assert!(serde_json::from_value::<CapabilityFlags>(broken).is_err());
        }
    }

    #[test]
    fn a_heartbeat_may_only_narrow() {
        // CAP-006
        let mut declared = CapabilityFlags::NONE;
        declared.set(Capability::Steering, true);
        assert!(declared.narrowed_by(&CapabilityFlags::NONE));
        assert!(declared.narrowed_by(&declared));
        assert!(!CapabilityFlags::NONE.narrowed_by(&declared));
    }
}
