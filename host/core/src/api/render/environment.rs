//! Environments as a resource, and inside a Session (ENV-004, S-SES-3).

use domain::EnvironmentId;
use domain::configuration::{EnvironmentConfiguration, SandboxSize};
use domain::environment::{Environment, EnvironmentKind, EnvironmentStatus};
use serde::Serialize;

/// `GET /agents/environments/{id}`.
#[derive(Serialize)]
pub(crate) struct EnvironmentJson {
    id: String,
    object: &'static str,
    #[serde(rename = "type")]
    kind: EnvironmentKind,
    status: EnvironmentStatus,
    files: [(); 0],
    plugins: [(); 0],
    skills: [(); 0],
}

/// `environment` of a Session.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum SessionEnvironmentJson<'a> {
    None,
    OpenaiHosted {
        id: String,
        capability_directories: &'a [String],
        files: [(); 0],
        network: NetworkJson,
        packages: PackagesJson,
        plugins: [(); 0],
        skills: [(); 0],
        sandbox_size: SandboxSize,
        sandbox_image: &'a str,
    },
}

#[derive(Serialize)]
pub(crate) struct NetworkJson {
    access: &'static str,
    allowed_domains: [(); 0],
}

#[derive(Serialize)]
pub(crate) struct PackagesJson {
    npm: [(); 0],
    python: [(); 0],
    system: [(); 0],
}

/// Shows an Environment.
pub(crate) fn resource(environment: &Environment) -> EnvironmentJson {
    EnvironmentJson {
        id: environment.id.to_string(),
        object: "agent.environment",
        kind: environment.kind,
        status: environment.status,
        files: [],
        plugins: [],
        skills: [],
    }
}

/// Shows the Environment of a Session; `id` is absent on `none` only.
pub(crate) fn of_session(
    configuration: &EnvironmentConfiguration,
    id: Option<EnvironmentId>,
) -> SessionEnvironmentJson<'_> {
    match configuration {
        EnvironmentConfiguration::None => SessionEnvironmentJson::None,
        EnvironmentConfiguration::OpenaiHosted(hosted) => SessionEnvironmentJson::OpenaiHosted {
            id: id.map(|id| id.to_string()).unwrap_or_default(),
            capability_directories: &hosted.capability_directories,
            files: [],
            network: NetworkJson {
                access: "enabled",
                allowed_domains: [],
            },
            packages: PackagesJson {
                npm: [],
                python: [],
                system: [],
            },
            plugins: [],
            skills: [],
            sandbox_size: hosted.sandbox_size,
            sandbox_image: &hosted.sandbox_image,
        },
    }
}
