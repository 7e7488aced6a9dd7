//! Resolves a Session creation into its frozen configuration: Template, saved Agent, harness, model, Vaults, sandbox; then execution admission
//! (S-SES-7 from the retry look-up on; sessions 2.2; models-harnesses 2 and 3).

use std::sync::Arc;

use domain::agent::{AgentConfiguration, Effective, SavedAgent, Tool, admission};
use domain::configuration::{EnvironmentConfiguration, SessionConfiguration, Source};
use domain::creation::{EnvironmentRequest, SessionCreation};
use domain::invalid::{Invalid, Path};
use domain::json::{Field, Opaque};
use domain::model::{ProviderBundle, ProviderView};
use domain::preparation::{Confidential, Preparation};
use domain::run::{HarnessDeclaration, Placement};
use domain::sandbox;
use domain::vault::{self, SelectFault};
use domain::{AgentId, ProjectId, Refusal, Secret, TemplateId, VaultId};

use super::error::ApiError;
use super::failure::read_failed;
use super::templates;
use crate::scheduler::misfit;
use crate::state::Core;

/// A creation with nothing left to look up.
pub(crate) struct Resolved {
    pub configuration: SessionConfiguration,
    /// Key of its provider, to be sealed with the row.
    pub provider_key: Option<Secret>,
    /// Attached Vaults, in the order of the request.
    pub vault_ids: Vec<VaultId>,
}

/// Where a model comes from.
struct Chosen {
    model: String,
    view: ProviderView,
    key: Secret,
    source: Source,
    /// Native parameters of the deployment default.
    defaults: Option<Opaque>,
}

/// Resolves and admits a creation. Nothing is written.
pub(crate) async fn resolve(
    core: &Core,
    project: ProjectId,
    creation: &SessionCreation,
) -> Result<Resolved, ApiError> {
    let prepared = prepared(core, project, creation).await?;
    let saved = saved_agent(core, project, creation).await?;
    let saved = saved.as_ref();
    // Whether it may be used is said after model and Vaults (S-SES-7).
    let declaration = harness(core, saved, creation);
    let harness = declaration.as_ref().ok().map(|found| &**found);
    let chosen = model(core, project, saved, creation, harness).await?;
    let mut effective = Effective::resolve(saved, creation.agent.clone());
    let vault_ids = attach(core, project, creation, &mut effective.configuration).await?;
    let declaration = declaration?;
    let declaration = &*declaration;
    let chosen = chosen.ok_or_else(Invalid::harness_required)?;
    effective.configuration.model.clone_from(&chosen.model);
    let agent = Path::root().member("agent");
    let placement = placement(&creation.environment);
    let functions = admission::takes_functions(declaration, placement);
    admission::check(&effective.configuration, &agent, functions)?;
    if let (EnvironmentRequest::OpenaiHosted(request), Some((whole, confidential))) =
        (&creation.environment, &prepared)
    {
        request.check_runnable(whole, confidential)?;
    }
    admission::check_declared(&effective.configuration, &agent, declaration, placement)?;
    if !declaration.models.protocols.contains(&chosen.view.protocol) {
        let message = format!(
            "The harness '{}' does not speak this model protocol.",
            declaration.id
        );
        let param = Some("x_agents_core.model_provider.protocol");
        return Err(Invalid::unsupported(param, message).into());
    }
    if declaration.models.needs_token_limits
        && !(chosen.view.context_window > Some(0) && chosen.view.max_output_tokens > Some(0))
    {
        let message = format!(
            "The harness '{}' needs positive token limits.",
            declaration.id
        );
        return Err(Invalid::unsupported(Some("x_agents_core.model_provider"), message).into());
    }
    let harness_config = parameters(saved, creation, declaration, &chosen);
    if let Err(reason) = admission::check_parameters(&harness_config, declaration) {
        return Err(Invalid::unsupported(Some("x_agents_core.harness_config"), reason).into());
    }
    if creation
        .input
        .iter()
        .any(domain::item::UserMessage::is_whitespace_only)
        && !declaration.messages.whitespace_only
    {
        return Err(Invalid::whitespace_only().into());
    }
    if placement == Placement::Hosted && !core.hosts() {
        // Unconfigured or unusable: refused before anything is stored (SP-2.1, LOC-002).
        return Err(ApiError::EXECUTION_UNAVAILABLE);
    }
    let agent_id = saved.map_or_else(|| AgentId::new(uuid::Uuid::new_v4()), |saved| saved.id);
    let configuration = SessionConfiguration {
        agent_id,
        agent_name: effective.name,
        agent: effective.configuration,
        harness: declaration.id.clone(),
        declaration_hash: declaration.hash(),
        harness_config,
        provider: Some(chosen.view),
        provider_source: chosen.source,
        shows_extension: shows_extension(saved, creation),
        environment: environment(saved, creation)?,
    };
    if let Some(member) = misfit(&configuration, &chosen.key) {
        let message = "The Session's configuration is too large to be sent to a Runtime.";
        return Err(Invalid::unsupported(Some(member), message).into());
    }
    Ok(Resolved {
        configuration,
        provider_key: Some(chosen.key),
        vault_ids,
    })
}

/// The preparation of a hosted Session: its Template's under its own (ENV-444, ENV-450 to ENV-453). Missing, malformed and
/// foreign Templates are one answer.
async fn prepared(
    core: &Core,
    project: ProjectId,
    creation: &SessionCreation,
) -> Result<Option<(Preparation, Confidential)>, ApiError> {
    let EnvironmentRequest::OpenaiHosted(request) = &creation.environment else {
        return Ok(None);
    };
    let template = match &request.template {
        None => None,
        Some(text) => {
            let id = text.parse().unwrap_or(TemplateId::NEVER);
            let found = core.store.read().template_opened(project, id).await;
            let found = found.map_err(|error| match error {
                // What does not open is no client's fault; nothing was written (ENV-443).
                store::StoreError::Seal(error) => {
                    tracing::error!(%error, "a Template could not be opened");
                    ApiError::CredentialStorageUnavailable
                }
                error => read_failed(error),
            })?;
            let (template, confidential) = found.ok_or(ApiError::NotFound)?;
            Some((template.preparation, confidential))
        }
    };
    let own = request.preparation.clone();
    let own = own.with(|content| templates::unstored(project, &content));
    let whole = Preparation::inherit(template, own).map_err(|widening| {
        let place = request.place("network").and_then(Path::echo);
        Invalid::other(place, widening.to_string())
    })?;
    Ok(Some(whole))
}

/// Attaches Vaults, each once, and selects the Credential of each MCP server (SEL-001 to SEL-014).
async fn attach(
    core: &Core,
    project: ProjectId,
    creation: &SessionCreation,
    agent: &mut AgentConfiguration,
) -> Result<Vec<VaultId>, ApiError> {
    let mut vaults: Vec<VaultId> = Vec::new();
    for text in &creation.vault_ids {
        let id = text.parse().unwrap_or(VaultId::NEVER);
        let found = core.store.read().vault(project, id).await;
        found.map_err(read_failed)?.ok_or(ApiError::NotFound)?;
        if !vaults.contains(&id) {
            vaults.push(id);
        }
    }
    let mut credentials = Vec::new();
    if agent.tools.iter().any(|tool| matches!(tool, Tool::Mcp(_))) {
        for vault in &vaults {
            let found = core.store.read().active_credentials(*vault).await;
            credentials.extend(found.map_err(read_failed)?);
        }
    }
    let attached = (!vaults.is_empty()).then_some(credentials.as_slice());
    match vault::select(&mut agent.tools, attached) {
        Ok(()) => Ok(vaults),
        Err(SelectFault::Invalid(invalid)) => Err(invalid.into()),
        Err(SelectFault::Several(server_url)) => {
            Err(Refusal::SeveralCredentials { server_url }.into())
        }
    }
}

/// The saved Agent that is named; missing, malformed and foreign ones are one answer (W-ID-4).
async fn saved_agent(
    core: &Core,
    project: ProjectId,
    creation: &SessionCreation,
) -> Result<Option<SavedAgent>, ApiError> {
    let Some(text) = &creation.agent_id else {
        return Ok(None);
    };
    let id = text.parse().unwrap_or(AgentId::NEVER);
    let found = core
        .store
        .read()
        .agent(project, id)
        .await
        .map_err(read_failed)?;
    found.map(Some).ok_or(ApiError::NotFound)
}

/// SLC-003 to SLC-005: the request's choice, the saved Agent's, the deployment's; never another one instead.
fn harness(
    core: &Core,
    saved: Option<&SavedAgent>,
    creation: &SessionCreation,
) -> Result<Arc<HarnessDeclaration>, ApiError> {
    let inline = match &creation.agent.extension {
        Field::Value(extension) => extension.harness.as_ref(),
        Field::Null => Field::Null,
        Field::Omitted => Field::Omitted,
    };
    let inherited = saved.and_then(|saved| saved.extension.harness.as_ref());
    let named = match (inline, inherited) {
        (Field::Value(name), _) => Some((
            name,
            Path::root()
                .member("agent")
                .member("x_agents_core")
                .member("harness"),
        )),
        (Field::Omitted, Some(name)) => {
            Some((name, Path::root().member("x_agents_core").member("harness")))
        }
        (Field::Null, _) | (Field::Omitted, None) => None,
    };
    match named {
        Some((name, path)) => Ok(core.harnesses.select(name, &path)?),
        None => Ok(core
            .harnesses
            .default()
            .ok_or_else(Invalid::harness_required)?),
    }
}

/// S-ADM-3, MDL-006, MDL-010, MDL-012, MDL-034: one complete bundle, and the model that belongs to it; none where the deployment's
/// default is asked for and there is no harness that it belongs to.
async fn model(
    core: &Core,
    project: ProjectId,
    saved: Option<&SavedAgent>,
    creation: &SessionCreation,
    harness: Option<&HarnessDeclaration>,
) -> Result<Option<Chosen>, ApiError> {
    let path = Path::root()
        .member("x_agents_core")
        .member("model_provider");
    let own = creation.extension.model_provider.as_ref();
    let inherited = saved.and_then(|saved| {
        saved
            .extension
            .model_provider
            .clone()
            .map(|view| (saved.id, view))
    });
    if creation.environment == EnvironmentRequest::None && (own.is_some() || inherited.is_some()) {
        let message = "A Session without an environment uses the deployment's model; it takes no model_provider.";
        return Err(Invalid::unsupported(path.echo(), message).into());
    }
    let named = creation
        .agent
        .model
        .clone()
        .or_else(|| saved.map(|saved| saved.configuration.model.clone()));
    let required = || Invalid::missing(&Path::root().member("agent").member("model"));
    if let Some(ProviderBundle { view, api_key }) = own {
        own.into_iter()
            .try_for_each(|bundle| bundle.check(&path, core.allow_loopback_model_urls))?;
        let model = named.ok_or_else(required)?;
        let (view, key) = (view.clone(), api_key.clone());
        return Ok(Some(Chosen {
            model,
            view,
            key,
            source: Source::Session,
            defaults: None,
        }));
    }
    if let Some((agent, view)) = inherited {
        let key = core
            .store
            .read()
            .agent_provider_key(project, agent)
            .await
            .map_err(read_failed)?;
        let key = key.ok_or(ApiError::CredentialStorageUnavailable)?;
        let model = named.ok_or_else(required)?;
        return Ok(Some(Chosen {
            model,
            view,
            key,
            source: Source::Agent,
            defaults: None,
        }));
    }
    let Some(harness) = harness else {
        return Ok(None);
    };
    let default = core.store.read().model_default(harness.id.as_str()).await;
    let default = default.map_err(|error| {
        tracing::error!(%error, "the deployment default could not be opened");
        ApiError::CredentialStorageUnavailable
    })?;
    let (default, key) = default.ok_or_else(Invalid::model_provider_required)?;
    Ok(Some(Chosen {
        model: named.unwrap_or(default.model),
        view: default.provider,
        key,
        source: Source::Deployment,
        defaults: Some(default.harness_config),
    }))
}

/// NAT-005 to NAT-007: the Session's own, the inline extension's, then what was inherited with the model and harness it was
/// chosen for.
fn parameters(
    saved: Option<&SavedAgent>,
    creation: &SessionCreation,
    declaration: &HarnessDeclaration,
    chosen: &Chosen,
) -> Opaque {
    if let Some(own) = &creation.extension.harness_config {
        return own.clone();
    }
    if let Field::Value(extension) = &creation.agent.extension
        && let Some(inline) = &extension.harness_config
    {
        return inline.clone();
    }
    let chose = creation.agent.model.is_some() || creation.extension.model_provider.is_some();
    let saved_harness = saved.and_then(|saved| saved.extension.harness.as_deref());
    let same_harness = saved_harness.is_none_or(|name| name == declaration.id.as_str());
    let inherited = saved
        .and_then(|saved| saved.extension.harness_config.clone())
        .filter(|_| !chose && same_harness);
    let defaults = chosen
        .defaults
        .clone()
        .filter(|_| creation.agent.model.is_none());
    inherited.or(defaults).unwrap_or_else(Opaque::empty_object)
}

/// S-SES-6: present when the effective Agent carries the extension.
fn shows_extension(saved: Option<&SavedAgent>, creation: &SessionCreation) -> bool {
    let inline = matches!(creation.agent.extension, Field::Value(_));
    let own =
        creation.extension.model_provider.is_some() || creation.extension.harness_config.is_some();
    inline
        || own
        || (creation.agent.extension.is_omitted()
            && saved.is_some_and(|saved| !saved.extension.is_empty()))
}

fn placement(environment: &EnvironmentRequest) -> Placement {
    match environment {
        EnvironmentRequest::None => Placement::None,
        EnvironmentRequest::OpenaiHosted(_) => Placement::Hosted,
    }
}

/// API-052, API-062.
fn environment(
    saved: Option<&SavedAgent>,
    creation: &SessionCreation,
) -> Result<EnvironmentConfiguration, Invalid> {
    match &creation.environment {
        EnvironmentRequest::None => Ok(EnvironmentConfiguration::None),
        EnvironmentRequest::OpenaiHosted(request) => {
            let hints = [Some(&creation.metadata), saved.map(|saved| &saved.metadata)];
            let hints: Vec<_> = hints.into_iter().flatten().collect();
            let sandbox = sandbox::resolve(
                request.sandbox_size,
                request.sandbox_image.as_deref(),
                &hints,
            )?;
            Ok(EnvironmentConfiguration::OpenaiHosted(
                domain::configuration::HostedConfiguration {
                    capability_directories: Vec::new(),
                    sandbox_size: sandbox.size,
                    sandbox_image: sandbox.image,
                },
            ))
        }
    }
}
