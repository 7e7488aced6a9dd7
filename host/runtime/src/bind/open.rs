//! Makes the Executor of a Session out of a frozen configuration (RP-10.16).

use std::{io, sync::Arc, time::Duration};

use domain::{
    ExecutorId, Secret,
    run::{ExecutionConfiguration, History, Model, PrepareCode},
};
use net::ModelUrl;
use plugin_host::translate::harness::{Surroundings, configuration as translated, prepare_code};
use tokio::time::Instant;
use uuid::Uuid;

use super::session::{Live, State, Task};
use crate::{
    execute::{Executor, Setup},
    place::{OwnPlace, Place as _},
    relay::{Grant, ModelProtocol, Route},
};

impl Task {
    pub(super) async fn open(
        &mut self,
        configuration: ExecutionConfiguration,
    ) -> Result<(), PrepareCode> {
        let harness = &configuration.harness;
        // Both sides must hold the same adapter (RP-7.5).
        let Some(ready) = self
            .shared
            .declared(harness, &configuration.declaration_hash)
        else {
            let known = self.shared.catalogue().ready(harness).is_some();
            return Err(if known {
                PrepareCode::UnsupportedConfiguration
            } else {
                PrepareCode::ProgramMissing
            });
        };
        if !configuration.mcp.is_empty() {
            return Err(PrepareCode::UnsupportedConfiguration);
        }
        let declaration = &ready.harness.declaration;
        let env = self.environment().await?;
        let place = self.open_place().map_err(|error| {
            tracing::warn!(%error, "the private home cannot be opened");
            unopened(&error)
        })?;
        let relay = configuration
            .model
            .as_ref()
            .map(|model| self.relay(&place, model))
            .transpose()?;
        let id = ExecutorId::new(Uuid::now_v7());
        let around = Surroundings {
            executor: id,
            version: ready.version.clone(),
            home: place.home().to_string_lossy().into_owned(),
            workspace: place
                .workspace()
                .map(|path| path.to_string_lossy().into_owned()),
            settings: Vec::new(),
            host_features: Vec::new(),
        };
        let opened = ready
            .harness
            .adapter
            .open(translated(&configuration, around));
        let session = opened.map_err(|failure| {
            tracing::warn!(
                code = failure.code,
                detail = failure.detail,
                "the adapter refused the configuration"
            );
            prepare_code(&failure)
        })?;
        let setup = Setup {
            id,
            session,
            plugin: ready.harness.plugin.clone(),
            place,
            relay,
            programs: ready.programs.clone(),
            env,
            cancellation: declaration.cancellation,
            silence_limit_s: declaration.silence_limit_s,
            turn_limit_s: declaration.turn_limit_s,
        };
        let (declared, host) = (
            Duration::from_secs(declaration.idle_s.into()),
            self.shared.limits().executor_idle,
        );
        let idle = if declared.is_zero() {
            host
        } else {
            declared.min(host)
        };
        crash::crash_point!("daemon.open");
        let executor = Executor::spawn(setup, self.reporter.clone());
        // What it has open is a history of its own from now on; only the rest decides whom it serves (RP-10.2).
        let configuration = ExecutionConfiguration {
            history: History::Fresh,
            ..configuration
        };
        self.live = Some(Live {
            executor,
            configuration,
            state: State::Preparing {
                since: Instant::now(),
            },
            closed_at_work: false,
            idle,
        });
        Ok(())
    }

    /// Opens the Session's place. It belongs to one Executor or one removal: a Session without either holds no descriptor, so
    /// their number has no limit.
    pub(super) fn open_place(&self) -> io::Result<Arc<OwnPlace>> {
        let name = self.binding.session.to_string();
        let machine = self.shared.machine.clone();
        OwnPlace::open(machine, &name, self.workspace()).map(Arc::new)
    }

    /// The Session's variables. An Environment without its complete snapshot runs nothing (RP-9.24).
    async fn environment(&self) -> Result<Vec<(String, Secret)>, PrepareCode> {
        let Some(environment) = self.binding.environment else {
            return Ok(Vec::new());
        };
        self.shared
            .store
            .load(self.binding.session, environment)
            .await
            .map_err(|error| {
                tracing::warn!(%error, "the Environment's snapshot cannot be used");
                PrepareCode::PreparationFailed
            })
    }

    fn relay(&self, place: &OwnPlace, model: &Model) -> Result<(String, Grant), PrepareCode> {
        let loopback = self.shared.limits().loopback_models;
        let upstream = ModelUrl::parse(&model.base_url, loopback).map_err(|error| {
            tracing::warn!(%error, "the model provider's address is refused");
            PrepareCode::InvalidConfiguration
        })?;
        let protocol = ModelProtocol::from_name(model.protocol.as_str())
            .ok_or(PrepareCode::UnsupportedConfiguration)?;
        let route = Route {
            protocol,
            upstream,
            loopback,
            key: model.api_key.clone(),
        };
        place.relay(route).map_err(|error| {
            tracing::error!(%error, "no route through the model relay");
            PrepareCode::PreparationFailed
        })
    }
}

/// A lack that passes keeps the input waiting (RP-10.12).
fn unopened(error: &io::Error) -> PrepareCode {
    if machine::files::is_lack(error) {
        PrepareCode::Capacity
    } else {
        PrepareCode::PreparationFailed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_keeps_the_input() {
        for (error, keeps) in [
            (io::ErrorKind::StorageFull, true),
            (io::ErrorKind::QuotaExceeded, true),
            (io::ErrorKind::PermissionDenied, false),
            (io::ErrorKind::NotADirectory, false),
        ] {
            assert_eq!(
                !unopened(&error.into()).ends_pending_input(),
                keeps,
                "{error:?}"
            );
        }
    }
}
