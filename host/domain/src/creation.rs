//! The request that creates a Session: its members, their defaults, and the identity by which a retry is recognised
//! (`sessions.md` 2.1, `wire.md` 10).

use serde::Serialize;

use crate::agent::{self, AgentPatch, AgentShape};
use crate::configuration::SandboxSize;
use crate::content;
use crate::digest::Digest;
use crate::invalid::{Invalid, Path};
use crate::item::UserMessage;
use crate::json::{FREE_FORM, Field, Json, Kind, Object, Opaque};
use crate::metadata::Metadata;
use crate::model::ProviderBundle;

/// A parsed creation. Its serialized form is canonical: defaults of the placement are filled in, so the omitted environment,
/// `hosted` and `openai_hosted` are one request (`wire.md` WC1); `stream` is not part of it (W-IDEM-4).
#[derive(Debug, Clone, Serialize)]
pub struct SessionCreation {
    /// Where it runs.
    pub environment: EnvironmentRequest,
    /// The saved Agent named, as text: it may name nothing (W-ID-4).
    pub agent_id: Option<String>,
    /// Inline members.
    pub agent: AgentPatch,
    /// First messages; empty = none.
    pub input: Vec<UserMessage>,
    /// Opaque pairs.
    pub metadata: Metadata,
    /// The Session's own extension.
    pub extension: SessionExtension,
    /// Answer with the event stream.
    #[serde(skip)]
    pub stream: bool,
}

/// `environment` of a creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EnvironmentRequest {
    /// Conversation only.
    None,
    /// A machine of our provider.
    OpenaiHosted {
        /// Clean absolute paths inside `/workspace`.
        capability_directories: Vec<String>,
        /// Explicit size (API-050).
        sandbox_size: Option<SandboxSize>,
        /// Explicit image (API-060).
        sandbox_image: Option<String>,
    },
}

/// `x_agents_core` of a creation (MDL-023 to MDL-026).
#[derive(Debug, Clone, Default, Serialize)]
pub struct SessionExtension {
    /// Complete provider bundle.
    pub model_provider: Option<ProviderBundle>,
    /// Native parameters.
    pub harness_config: Option<Opaque>,
}

impl SessionCreation {
    /// Reads the body in the order of S-SES-7: body and metadata types, members with the inline Agent, initial input, then
    /// the input that a placement needs.
    ///
    /// # Errors
    /// E400-03 to E400-26 with the path of the member.
    pub fn parse(body: Json<'_>) -> Result<Self, Invalid> {
        Metadata::check_values(body)?;
        const KNOWN: &[&str] = &[
            "environment",
            "agent_id",
            "agent",
            "input",
            "metadata",
            "vault_ids",
            "stream",
            "x_agents_core",
        ];
        let object = Object::open(body, &Path::root(), KNOWN)?;
        let mut creation = Self {
            environment: EnvironmentRequest::hosted(),
            agent_id: None,
            agent: AgentPatch::default(),
            input: Vec::new(),
            metadata: Metadata::default(),
            extension: SessionExtension::default(),
            stream: false,
        };
        let mut input = None;
        for (name, value, path) in object.iter() {
            match name {
                "environment" => creation.environment = EnvironmentRequest::parse(value, &path)?,
                "agent_id" => creation.agent_id = Some(value.to_text(&path)?),
                "agent" => creation.agent = agent::parse(value, &path, AgentShape::Inline)?,
                "input" => input = (!value.is_null()).then_some((value, path)),
                "metadata" => {
                    creation.metadata = Metadata::field(value, &path)?.value().unwrap_or_default()
                }
                "vault_ids" => refuse_vaults(value, &path)?,
                "stream" => creation.stream = value.to_bool(&path)?,
                _ => creation.extension = SessionExtension::parse(value, &path)?,
            }
        }
        if let Some((value, path)) = input {
            creation.input = content::parse_initial(value, &path)?;
        }
        if creation.environment == EnvironmentRequest::None && creation.input.is_empty() {
            return Err(Invalid::input_required());
        }
        Ok(creation)
    }

    /// Identity of the request for its idempotency key. The provider's key enters as a keyed fingerprint (W-IDEM-7).
    pub fn identity(&self, provider_key_fingerprint: Option<&str>) -> Digest {
        // Maps of text cannot fail to serialize; an empty text would only make two requests equal that both are empty.
        let canonical = serde_json::to_vec(self).unwrap_or_default();
        let fingerprint = provider_key_fingerprint.unwrap_or_default();
        Digest::of_parts([
            b"session-create-1".as_slice(),
            &canonical,
            fingerprint.as_bytes(),
        ])
    }
}

impl EnvironmentRequest {
    fn hosted() -> Self {
        Self::OpenaiHosted {
            capability_directories: Vec::new(),
            sandbox_size: None,
            sandbox_image: None,
        }
    }

    fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        const TYPES: &[&str] = &["none", "openai_hosted", "self_hosted"];
        let object = Object::any(json, path)?;
        let kind_path = object.path("type");
        let kind = object
            .get("type")
            .map(|kind| kind.to_text(&kind_path))
            .transpose()?;
        match object.required(kind, "type")?.as_str() {
            "none" => {
                // API-010: a supplied network is accepted and dropped.
                object.only(&["type", "network"])?;
                Ok(Self::None)
            }
            // WC1: `hosted` is an alias.
            "openai_hosted" | "hosted" => Self::parse_hosted(&object),
            "self_hosted" => Err(Invalid::unsupported(
                kind_path.echo(),
                "Self-hosted environments are not supported by this service.",
            )),
            other => Err(Invalid::not_one_of(&kind_path, other, TYPES)),
        }
    }

    fn parse_hosted(object: &Object<'_>) -> Result<Self, Invalid> {
        object.only(&[
            "type",
            "environment_template_id",
            "capability_directories",
            "env",
            "files",
            "network",
            "packages",
            "plugins",
            "setup_commands",
            "skills",
            "sandbox_size",
            "sandbox_image",
        ])?;
        let (mut sandbox_size, mut sandbox_image) = (None, None);
        for (name, value, path) in object.iter() {
            match name {
                "type" => {}
                "network" => check_network(value, &path)?,
                "packages" => check_packages(value, &path)?,
                "sandbox_size" if !value.is_null() => {
                    let word = value.to_text(&path)?;
                    let size = SandboxSize::from_word(&word);
                    sandbox_size =
                        Some(size.ok_or_else(|| {
                            Invalid::not_one_of(&path, &word, SandboxSize::WORDS)
                        })?);
                }
                "sandbox_image" if !value.is_null() => sandbox_image = Some(value.to_text(&path)?),
                "sandbox_size" | "sandbox_image" => {}
                "environment_template_id" => {
                    value.to_text(&path)?;
                    return Err(Invalid::unsupported(
                        path.echo(),
                        "Environment Templates are not supported by this service.",
                    ));
                }
                "env" => refuse_filled(value, &path, Kind::Object)?,
                _ => refuse_filled(value, &path, Kind::Array)?,
            }
        }
        Ok(Self::OpenaiHosted {
            capability_directories: Vec::new(),
            sandbox_size,
            sandbox_image,
        })
    }
}

impl SessionExtension {
    fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
        let mut extension = Self::default();
        if json.is_null() {
            return Ok(extension); // MDL-023
        }
        let object = Object::open(
            json,
            path,
            &["model_provider", "harness_config", "environment"],
        )?;
        if object.is_empty() {
            return Err(Invalid::empty(path)); // MDL-025
        }
        for (name, value, path) in object.iter() {
            match name {
                "model_provider" => {
                    extension.model_provider =
                        Field::read(value, |value| ProviderBundle::parse(value, &path))?.value();
                }
                "harness_config" => {
                    extension.harness_config = Some(value.to_opaque_object(&path, FREE_FORM)?)
                }
                _ => {
                    let message =
                        "Portable environment preparation is not supported by this service.";
                    return Err(Invalid::unsupported(path.echo(), message));
                }
            }
        }
        Ok(extension)
    }
}

/// `null` and `[]` attach none; a `null` entry is a type error (W-BODY-12).
fn refuse_vaults(json: Json<'_>, path: &Path) -> Result<(), Invalid> {
    if json.is_null() || json.to_texts(path)?.is_empty() {
        return Ok(());
    }
    Err(Invalid::unsupported(
        path.echo(),
        "Vaults are not supported by this service.",
    ))
}

/// Empty and null preparation means none; anything else is refused by its path.
fn refuse_filled(json: Json<'_>, path: &Path, expected: Kind) -> Result<(), Invalid> {
    match json.kind() {
        Kind::Null => Ok(()),
        kind if kind != expected => Err(Invalid::mistyped(path, expected, kind)),
        Kind::Array if json.elements().is_some_and(|elements| elements.is_empty()) => Ok(()),
        Kind::Object if json.members().is_some_and(|members| members.is_empty()) => Ok(()),
        _ => Err(Invalid::unsupported(
            path.echo(),
            format!("'{path}' is not supported by this service."),
        )),
    }
}

/// Only the open network is executed (ENV-065, ENV-066, S-ADM-6).
fn check_network(json: Json<'_>, path: &Path) -> Result<(), Invalid> {
    if json.is_null() {
        return Ok(());
    }
    const MODES: &[&str] = &["enabled", "disabled", "restricted"];
    let object = Object::open(json, path, &["access", "allowed_domains"])?;
    let (mut access, mut domains) = (None, Vec::new());
    for (name, value, path) in object.iter() {
        match name {
            "access" => {
                let word = value.to_text(&path)?;
                if !MODES.contains(&word.as_str()) {
                    return Err(Invalid::not_one_of(&path, &word, MODES));
                }
                access = Some(word);
            }
            _ => {
                domains = Field::read(value, |value| value.to_texts(&path))?
                    .value()
                    .unwrap_or_default()
            }
        }
    }
    if object.required(access, "access")? != "enabled" {
        let message = "Only network access 'enabled' is supported for execution.";
        return Err(Invalid::unsupported(object.path("access").echo(), message));
    }
    if domains.is_empty() {
        return Ok(());
    }
    Err(Invalid::other(
        None,
        "allowed_domains requires network access 'restricted'.",
    ))
}

/// `packages.system` is refused in every form (ENV-324, E400-31); the other managers while they are not empty.
fn check_packages(json: Json<'_>, path: &Path) -> Result<(), Invalid> {
    if json.is_null() {
        return Ok(());
    }
    let object = Object::open(json, path, &["npm", "python", "system"])?;
    for (name, value, path) in object.iter() {
        if name == "system" {
            let message = "System packages cannot be installed; use an image that has them.";
            return Err(Invalid::other(Some("packages.system"), message));
        }
        refuse_filled(value, &path, Kind::Array)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SessionCreation, Invalid> {
        SessionCreation::parse(Json::new(text))
    }

    fn refused(text: &str) -> (String, Option<String>) {
        let invalid = parse(text).expect_err(text);
        (invalid.message, invalid.param)
    }

    fn identity(text: &str) -> Digest {
        parse(text).unwrap().identity(None)
    }

    #[test]
    fn the_omitted_environment_and_the_alias_are_one_request() {
        // wire.md WC1, W-IDEM-4, S-ADM-2
        let plain = identity(r#"{"agent":{"model":"m"},"input":"hi"}"#);
        for same in [
            r#"{"environment":{"type":"openai_hosted"},"agent":{"model":"m"},"input":"hi"}"#,
            r#"{"environment":{"type":"hosted"},"input":"hi","agent":{"model":"m"},"stream":true}"#,
            r#"{"environment":{"type":"hosted","files":null,"skills":[],"env":{},"network":{"access":"enabled"}},"agent":{"model":"m"},"input":"hi"}"#,
            r#"{"agent":{"model":"m"},"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"metadata":null,"vault_ids":[]}"#,
        ] {
            assert_eq!(identity(same), plain, "{same}");
        }
        for other in [
            r#"{"environment":{"type":"none"},"agent":{"model":"m"},"input":"hi"}"#,
            r#"{"agent":{"model":"m"},"input":"hi "}"#,
            r#"{"agent":{"model":"m"},"input":"hi","metadata":{"a":"b"}}"#,
            r#"{"agent":{"model":"m","tools":null},"input":"hi"}"#,
        ] {
            assert_ne!(identity(other), plain, "{other}");
        }
        assert_eq!(
            identity(r#"{"agent":{"model":"m","text":{"verbosity":"medium"}}}"#),
            identity(r#"{"agent":{"model":"m","text":{"verbosity":null}}}"#)
        );
        assert_ne!(
            parse("{}").unwrap().identity(Some("a")),
            parse("{}").unwrap().identity(Some("b"))
        );
    }

    #[test]
    fn errors_come_in_the_order_of_the_rule() {
        // S-SES-7, S-SES-8, W-META-2
        assert_eq!(
            refused(r#"{"environment":5,"metadata":{"a":1}}"#)
                .1
                .as_deref(),
            Some("metadata.a")
        );
        assert_eq!(
            refused(r#"{"environment":{"type":"none"},"agent":{"model":5}}"#)
                .1
                .as_deref(),
            Some("agent.model")
        );
        assert_eq!(
            refused(r#"{"environment":{"type":"none"},"agent":{"model":"m"}}"#),
            (
                "conversation-only sessions currently require initial input".into(),
                None
            )
        );
        assert_eq!(
            refused(r#"{"input":"","environment":{"type":"x"}}"#).0,
            "Invalid value: 'x'. Supported values are: 'none', 'openai_hosted', and 'self_hosted'."
        );
        assert_eq!(
            refused(r#"{"environment":null}"#).0,
            "Invalid type for 'environment': expected an object, but got null instead."
        );
        assert_eq!(
            refused(r#"{"stream":null}"#).0,
            "Invalid type for 'stream': expected a boolean, but got null instead."
        );
    }

    #[test]
    fn unbuilt_members_are_refused_by_their_path() {
        for (text, param) in [
            (r#"{"vault_ids":["x"]}"#, "vault_ids"),
            (
                r#"{"environment":{"type":"openai_hosted","files":[1]}}"#,
                "environment.files",
            ),
            (
                r#"{"environment":{"type":"openai_hosted","env":{"A":"b"}}}"#,
                "environment.env",
            ),
            (
                r#"{"environment":{"type":"openai_hosted","packages":{"npm":["x"]}}}"#,
                "environment.packages.npm",
            ),
            (
                r#"{"environment":{"type":"openai_hosted","packages":{"system":[]}}}"#,
                "packages.system",
            ),
            (
                r#"{"environment":{"type":"openai_hosted","network":{"access":"disabled"}}}"#,
                "environment.network.access",
            ),
            (
                r#"{"environment":{"type":"openai_hosted","environment_template_id":"x"}}"#,
                "environment.environment_template_id",
            ),
            (
                r#"{"environment":{"type":"self_hosted","workspace_directory":"/w"}}"#,
                "environment.type",
            ),
            (
                r#"{"x_agents_core":{"environment":{}}}"#,
                "x_agents_core.environment",
            ),
            (
                r#"{"environment":{"type":"openai_hosted","sandbox_size":"XL"}}"#,
                "environment.sandbox_size",
            ),
        ] {
            assert_eq!(refused(text).1.as_deref(), Some(param), "{text}");
        }
        assert_eq!(
            refused(r#"{"environment":{"type":"none","packages":{}},"input":"x"}"#).0,
            "Unknown parameter: 'environment.packages'."
        );
        parse(r#"{"environment":{"type":"none","network":{"access":"disabled"}},"input":"x"}"#)
            .unwrap();
    }

    #[test]
    fn the_extension_is_strict() {
        // MDL-023, MDL-025, MDL-026
        parse(r#"{"x_agents_core":null}"#).unwrap();
        parse(r#"{"x_agents_core":{"model_provider":null}}"#).unwrap();
        assert_eq!(
            refused(r#"{"x_agents_core":{}}"#).0,
            "'x_agents_core' must not be empty."
        );
        assert_eq!(
            refused(r#"{"x_agents_core":{"node":"x"}}"#).0,
            "Unknown parameter: 'x_agents_core.node'."
        );
    }
}
