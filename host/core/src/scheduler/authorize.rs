//! Opens the Credentials of a Session's MCP servers for one preparation, and renews expired grants on the way (SEL-019 to
//! SEL-021, OAU-001 to OAU-009). Of all Sessions that need one grant at the same time, one asks its issuer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::agent::tools::{Tool, Transport};
use domain::run::{Binding, ExecutionConfiguration, McpBearer, PrepareCode};
use domain::{CredentialId, PrepareId, Secret, SessionId};
use store::renewals::{
    AbandonRenewal, BeginRenewal, Begun, CommitRenewal, CredentialUse, Opened, Renewal, UseFault,
};
use store::{Store, StoreError, WriteError};
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio_util::task::TaskTracker;

use super::Shared;
use super::facts::Facts;
use crate::issuers::{ExchangeFault, Issuers};
use crate::peer::{Peer, PrepareFeed, PrepareSignal, Unanswered};

/// A renewal may find that the Credential was replaced meanwhile; then the new one counts.
const ATTEMPTS: u32 = 3;

/// Why a Credential gives no token.
#[derive(Debug, thiserror::Error)]
enum Denied {
    /// The work fails (SEL-021).
    #[error(transparent)]
    Unusable(#[from] UseFault),
    /// The work fails; nothing is asked again for it (OAU-007).
    #[error(transparent)]
    Exchange(#[from] ExchangeFault),
    /// A sealed value that does not open: the work fails.
    #[error("the credential cannot be opened")]
    Sealed,
    /// The preparation is tried again later.
    #[error("the credential is not at hand now")]
    NotNow,
}

impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Seal(_) => Self::Sealed,
            _ => Self::NotNow,
        }
    }
}

/// Opens Credentials.
pub(super) struct Authorizer {
    issuers: Issuers,
    /// One holder for each Credential that is being renewed.
    renewing: Mutex<HashMap<CredentialId, Arc<tokio::sync::Mutex<()>>>>,
    tasks: TaskTracker,
}

impl Authorizer {
    pub(super) fn new(issuers: Issuers) -> Self {
        Self {
            issuers,
            renewing: Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Waits until every exchange in flight is kept; an issuer has its deadline.
    pub(super) async fn settled(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The tokens of these servers, each Credential once.
    async fn bearers(
        &self,
        store: &Store,
        wanted: &[CredentialUse],
    ) -> Result<Vec<McpBearer>, (CredentialId, Denied)> {
        let mut bearers: Vec<McpBearer> = Vec::new();
        for wanted in wanted {
            // Two servers may share one; each of them is checked.
            let token = self.token(store, wanted).await;
            let token = token.map_err(|denied| (wanted.id, denied))?;
            if !bearers.iter().any(|known| known.credential == wanted.id) {
                let credential = wanted.id;
                bearers.push(McpBearer { credential, token });
            }
        }
        Ok(bearers)
    }

    async fn token(&self, store: &Store, wanted: &CredentialUse) -> Result<Secret, Denied> {
        if let Opened::Ready(token) = store.read().open_credential(wanted).await?? {
            return Ok(token);
        }
        let _alone = self.alone(wanted.id).await;
        for _ in 0..ATTEMPTS {
            let begin = BeginRenewal {
                wanted: wanted.clone(),
            };
            let begun = store.write(begin).await.map_err(denied)?;
            let (renewal, exchange) = match begun {
                Begun::Exchange(renewal, exchange) => (renewal, exchange),
                Begun::Otherwise(Opened::Ready(token)) => return Ok(token),
                Begun::Otherwise(_) => return Err(Denied::NotNow),
            };
            let grant = match self.issuers.ask(&exchange).await {
                Ok(grant) => grant,
                Err(fault) => {
                    if fault.is_certain() {
                        abandon(store, renewal).await;
                    }
                    return Err(fault.into());
                }
            };
            let commit = CommitRenewal { renewal, grant };
            if let Some(token) = store.write(commit).await.map_err(denied)? {
                tracing::info!(credential = %wanted.id, "a grant was renewed");
                return Ok(token);
            }
        }
        Err(Denied::NotNow)
    }

    /// Waits until nobody else of this process renews the Credential.
    async fn alone(&self, id: CredentialId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut renewing = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
            renewing.retain(|_, turn| Arc::strong_count(turn) > 1);
            renewing.entry(id).or_default().clone()
        };
        turn.lock_owned().await
    }
}

fn denied(error: WriteError<UseFault>) -> Denied {
    match error {
        WriteError::Refused(fault) => fault.into(),
        WriteError::Store(error) => error.into(),
    }
}

async fn abandon(store: &Store, renewal: Renewal) {
    if let Err(error) = store.write(AbandonRenewal { renewal }).await {
        // Then it counts as unknown, which is safe.
        tracing::warn!(%error, "a failed renewal was not noted");
    }
}

impl Facts {
    /// The Credentials that this Session's servers use.
    pub(super) fn credentials(&self) -> Vec<CredentialUse> {
        let session = &self.state.session;
        let used = |tool: &Tool| {
            let Tool::Mcp(server) = tool else { return None };
            let id = server.credential_id.as_ref()?;
            let server_url = match &server.transport {
                Transport::Http { server_url, .. } => server_url.clone(),
                Transport::Stdio { .. } => String::new(),
            };
            Some(CredentialUse {
                project: session.project_id,
                attached: session.vault_ids.clone(),
                // Selection froze an id that exists; anything else is missing (SEL-021).
                id: id.parse().unwrap_or(CredentialId::NEVER),
                server_url,
            })
        };
        self.configuration
            .agent
            .tools
            .iter()
            .filter_map(used)
            .collect()
    }
}

/// A preparation whose tokens are missing.
pub(super) struct Request {
    pub(super) session: SessionId,
    pub(super) binding: Binding,
    pub(super) prepare: PrepareId,
    pub(super) configuration: ExecutionConfiguration,
    pub(super) wanted: Vec<CredentialUse>,
}

/// → `execution_prepare`, once every Credential is open. It goes on by itself: an issuer may take its time, and a Session must
/// hear a cancel meanwhile. An exchange is finished and kept also if nobody waits for it any more.
pub(super) fn prepare(shared: Arc<Shared>, peer: Arc<dyn Peer>, request: Request) -> PrepareFeed {
    let (sender, feed) = mpsc::channel(8);
    let Request {
        session,
        binding,
        prepare,
        mut configuration,
        wanted,
    } = request;
    let tasks = shared.authorizer.tasks.clone();
    tasks.spawn(async move {
        let bearers = shared.authorizer.bearers(&shared.store, &wanted).await;
        configuration.bearers = match bearers {
            Ok(bearers) => bearers,
            Err((credential, denied)) => {
                tracing::warn!(%session, %credential, %denied, "a credential gives no token");
                let signal = match denied {
                    Denied::NotNow => PrepareSignal::Unanswered(Unanswered::NotSent),
                    _ => PrepareSignal::Rejected(PrepareCode::PreparationFailed),
                };
                let _ = sender.send(signal).await;
                return;
            }
        };
        // Given up meanwhile: nothing of it reaches the Runtime.
        if sender.is_closed() {
            return;
        }
        let mut answers = peer.prepare(binding, prepare, Box::new(configuration));
        loop {
            let signal = tokio::select! {
                signal = answers.recv() => signal,
                () = sender.closed() => return,
            };
            let Some(signal) = signal else { return };
            if sender.send(signal).await.is_err() {
                return;
            }
        }
    });
    feed
}

#[cfg(test)]
mod tests;
