//! `environment` of a creation, and its portable part in `x_agents_core.environment` (ENV-290 to ENV-297, S-SES-13).

use serde::Serialize;

use crate::configuration::SandboxSize;
use crate::invalid::{Invalid, Path};
use crate::json::{Field, Json, Object};
use crate::preparation::{self, Access, Confidential, Preparation, PreparationPatch};

const TEMPLATE: &str = "environment_template_id";

/// `environment` of a creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EnvironmentRequest {
    /// Conversation only.
    None,
    /// A machine of our provider.
    OpenaiHosted(Box<HostedRequest>),
}

/// A machine of our provider, and what is laid into its workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct HostedRequest {
    /// Explicit size (API-050).
    pub sandbox_size: Option<SandboxSize>,
    /// Explicit image (API-060).
    pub sandbox_image: Option<String>,
    /// The Template named, as text: it may name nothing (W-ID-4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// What the Session itself says, over the Template (ENV-450).
    pub preparation: PreparationPatch,
    /// The members that say it, with their places in the request.
    #[serde(skip)]
    given: Vec<(String, Path)>,
}

impl EnvironmentRequest {
    pub(super) fn hosted() -> Self {
        Self::OpenaiHosted(Box::default())
    }

    pub(super) fn parse(json: Json<'_>, path: &Path) -> Result<Self, Invalid> {
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
            "openai_hosted" | "hosted" => {
                HostedRequest::parse(&object).map(|request| Self::OpenaiHosted(Box::new(request)))
            }
            "self_hosted" => Err(Invalid::unsupported(
                kind_path.echo(),
                "Self-hosted environments are not supported by this service.",
            )),
            other => Err(Invalid::not_one_of(&kind_path, other, TYPES)),
        }
    }

    /// Takes the portable part in: the same parser, and no member in both places (ENV-291 to ENV-293).
    pub(super) fn add_portable(&mut self, json: Json<'_>, path: &Path) -> Result<(), Invalid> {
        let Self::OpenaiHosted(request) = self else {
            let message = "A Session without an environment prepares nothing.";
            return Err(Invalid::unsupported(path.echo(), message));
        };
        let mut known = vec![TEMPLATE];
        // Policies are no part of it (ENV-296).
        known.extend(
            preparation::MEMBERS
                .iter()
                .copied()
                .filter(|name| *name != "network"),
        );
        let object = Object::open(json, path, &known)?;
        for (name, value, path) in object.iter() {
            if request.given.iter().any(|(other, _)| other == name) {
                let message = format!("'{name}' is given in 'environment' and in '{path}'.");
                return Err(Invalid::other(path.echo(), message));
            }
            request.read(name, value, &path)?;
        }
        Ok(())
    }

    /// Drops what says nothing: without a Template there is nothing that an empty member could replace, so leaving it out is
    /// the same request (ENV-459, W-IDEM-6).
    pub(super) fn settle(&mut self) {
        if let Self::OpenaiHosted(request) = self
            && request.template.is_none()
        {
            request.preparation.settle();
        }
    }
}

impl HostedRequest {
    fn parse(object: &Object<'_>) -> Result<Self, Invalid> {
        let mut known = vec!["type", TEMPLATE, "sandbox_size", "sandbox_image"];
        known.extend(preparation::MEMBERS);
        object.only(&known)?;
        let mut request = Self::default();
        for (name, value, path) in object.iter() {
            match name {
                "sandbox_size" => {
                    request.sandbox_size = Field::read(value, |value| size(value, &path))?.value();
                }
                "sandbox_image" => {
                    request.sandbox_image =
                        Field::read(value, |value| value.to_text(&path))?.value();
                }
                "type" => {}
                _ => request.read(name, value, &path)?,
            }
        }
        Ok(request)
    }

    fn read(&mut self, name: &str, value: Json<'_>, path: &Path) -> Result<(), Invalid> {
        if !self.preparation.read(name, value, path)? {
            self.template = Some(value.to_text(path)?);
        }
        self.given.push((name.to_owned(), path.clone()));
        Ok(())
    }

    /// Where a member was given.
    pub fn place(&self, name: &str) -> Option<&Path> {
        let given = self.given.iter().find(|(other, _)| other == name);
        given.map(|(_, path)| path)
    }

    /// Refuses what would have to be prepared while no Runtime prepares it, before anything is stored. What the Session gave
    /// is named by its own place, what it inherits by the Template's.
    ///
    /// # Errors
    /// E400-23 (ENV-066, ENV-474, S-ADM-6).
    pub fn check_runnable(
        &self,
        whole: &Preparation,
        confidential: &Confidential,
    ) -> Result<(), Invalid> {
        let own = &self.preparation;
        let needs = [
            (
                "capability_directories",
                !whole.capability_directories.is_empty(),
                gives(&own.capability_directories),
            ),
            ("env", !confidential.env.is_empty(), gives(&own.env)),
            ("files", !whole.files.is_empty(), gives(&own.files)),
            (
                "network",
                whole.network.access != Access::Enabled,
                gives(&own.network),
            ),
            (
                "packages",
                whole.packages != preparation::Packages::default(),
                gives(&own.packages),
            ),
            ("plugins", !whole.plugins.is_empty(), gives(&own.plugins)),
            (
                "setup_commands",
                !confidential.setup_commands.is_empty(),
                gives(&own.setup_commands),
            ),
            ("skills", !whole.skills.is_empty(), gives(&own.skills)),
        ];
        let Some((name, _, own)) = needs.into_iter().find(|(_, needed, _)| *needed) else {
            return Ok(());
        };
        let mut param = self.place(if own { name } else { TEMPLATE }).cloned();
        let message = match name {
            "network" => "Only network access 'enabled' is supported for execution.".to_owned(),
            _ => format!("'{name}' of an environment is not supported by this service."),
        };
        if own && name == "network" {
            param = param.map(|path| path.member("access"));
        }
        Err(Invalid::unsupported(
            param.as_ref().and_then(Path::echo),
            message,
        ))
    }
}

fn gives<T>(field: &Field<T>) -> bool {
    matches!(field, Field::Value(_))
}

fn size(json: Json<'_>, path: &Path) -> Result<SandboxSize, Invalid> {
    let word = json.to_text(path)?;
    let size = SandboxSize::from_word(&word);
    size.ok_or_else(|| Invalid::not_one_of(path, &word, SandboxSize::WORDS))
}
