//! One provider, called: a thread for each call, a deadline, and a plugin that breaks is an answer and no accident.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use contract::manifest::Capability;
use contract::sandbox_types as theirs;
use contract::{Host, SandboxProvider};
use domain::provider::{Health, Outcome, Owned, ProviderDeclaration, Resources};
use domain::run::PluginIdentity;
use domain::{AllocationId, Secret};
use machine::process::Spawner;
use machine::sandbox::Sandboxes;
use tokio::runtime::Handle;
use tokio::sync::Mutex as AsyncMutex;

use super::Provider;
use super::call::{BootstrapFile, DaemonStart, Target, pairs};
use super::host::{CallHost, ProviderMemory};
use super::http::Clients;
use super::machine::MachineCall;
use crate::translate::provider as translate;

/// Budget of the calls that are about no allocation.
const LOOK: Duration = Duration::from_secs(30);

/// Why a call that is about no allocation has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the provider has no answer: {code}")]
pub struct ProviderFailure {
    /// Fixed code.
    pub code: String,
}

/// A provider with what it was granted. Clones share the locks of its allocations.
#[derive(Clone)]
pub struct ProviderHandle {
    shared: Arc<Shared>,
}

/// What the deployment chose for a provider (SP-2.1).
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// Its settings with the defaults of the rest, without secrets.
    pub settings: Vec<(String, String)>,
    /// Its secret settings.
    pub secrets: SecretSettings,
    /// Resources (SP-2.4).
    pub resources: Resources,
}

/// Where the values of secret settings are. They never enter a plugin; the host fills them in (architecture 5).
#[derive(Debug, Clone)]
pub enum SecretSettings {
    /// Here: a selection that is judged and not stored yet.
    Given(Arc<BTreeMap<String, Secret>>),
    /// In what the provider remembers, under [`secret_key`] of this generation.
    Stored(u64),
}

impl Default for SecretSettings {
    fn default() -> Self {
        Self::Given(Arc::default())
    }
}

/// The name under which a secret setting is remembered. No plugin can ask for it: its own names hold no dot.
#[must_use]
pub fn secret_key(generation: u64, setting: &str) -> String {
    format!("setting.{generation}.{setting}")
}

pub(super) struct Shared {
    pub(super) provider: Provider,
    pub(super) granted: BTreeSet<Capability>,
    pub(super) memory: Arc<dyn ProviderMemory>,
    sandboxes: Option<Arc<Sandboxes>>,
    /// Starts granted programs; none where nothing may be started.
    pub(super) spawner: Option<Spawner>,
    pub(super) chosen: Chosen,
    pub(super) clients: Clients,
    locks: Mutex<HashMap<AllocationId, Weak<AsyncMutex<()>>>>,
}

impl ProviderHandle {
    /// Grants a provider everything that its manifest asks for and that is in `granted`.
    pub fn new(
        provider: Provider,
        granted: &BTreeSet<Capability>,
        memory: Arc<dyn ProviderMemory>,
        sandboxes: Option<Arc<Sandboxes>>,
    ) -> Self {
        let granted = provider.wanted().intersection(granted).copied().collect();
        let shared = Shared {
            provider,
            granted,
            memory,
            sandboxes,
            spawner: None,
            chosen: Chosen::default(),
            clients: Clients::default(),
            locks: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The same provider under a deployment's selection (SP-2.2, SP-2.4).
    #[must_use]
    pub fn with_selection(self, chosen: Chosen) -> Self {
        self.but(|shared| shared.chosen = chosen)
    }

    /// The same provider, whose granted programs are started under this program of ours.
    #[must_use]
    pub fn with_programs(self, own_program: &Path) -> Self {
        self.but(|shared| shared.spawner = Some(Spawner::new(own_program)))
    }

    /// Another handle, which shares nothing with this one.
    fn but(self, change: impl FnOnce(&mut Shared)) -> Self {
        let Shared {
            provider,
            granted,
            memory,
            sandboxes,
            spawner,
            chosen,
            ..
        } = &*self.shared;
        let mut shared = Shared {
            provider: provider.clone(),
            granted: granted.clone(),
            memory: memory.clone(),
            sandboxes: sandboxes.clone(),
            spawner: spawner.clone(),
            chosen: chosen.clone(),
            clients: Clients::default(),
            locks: Mutex::default(),
        };
        change(&mut shared);
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Its manifest's id.
    pub fn id(&self) -> &str {
        &self.shared.provider.manifest.id
    }

    /// The plugin that it is.
    pub fn plugin(&self) -> PluginIdentity {
        let provider = &self.shared.provider;
        PluginIdentity {
            id: provider.manifest.id.clone(),
            version: provider.manifest.version.clone(),
            digest: provider.digest.clone(),
        }
    }

    /// What it was granted.
    pub fn granted(&self) -> &BTreeSet<Capability> {
        &self.shared.granted
    }

    /// What it is under its selection.
    ///
    /// # Errors
    /// Its code for invalid settings, or `declaration_invalid`, `panicked`, `deadline_exceeded`.
    pub async fn describe(&self) -> Result<ProviderDeclaration, ProviderFailure> {
        let selection = self.selection();
        let described = self
            .look(move |provider, host| provider.describe(host, &selection))
            .await?;
        let described = described.map_err(|failure| ProviderFailure {
            code: translate::code(failure.code),
        })?;
        translate::declaration(described).map_err(|error| {
            tracing::error!(provider = self.id(), %error, "the provider's declaration is wrong");
            ProviderFailure {
                code: "declaration_invalid".to_owned(),
            }
        })
    }

    /// Whether sandboxes can be made; a provider without an answer is not ready.
    pub async fn check(&self) -> Health {
        let selection = self.selection();
        match self
            .look(move |provider, host| provider.check(host, &selection))
            .await
        {
            Ok(found) => translate::health(found),
            Err(failure) => Health {
                ready: false,
                code: Some(failure.code),
                resolved: Resources::default(),
                facts: Vec::new(),
            },
        }
    }

    /// One native create and the start of the daemon. Once for each allocation, ever (SP-4.3).
    pub async fn create(&self, target: Target, daemon: DaemonStart) -> Outcome {
        self.start(target, daemon, theirs::CreateKind::New).await
    }

    /// Finishes the hand-off of what is there; never creates (SP-5.8).
    pub async fn finish(&self, target: Target, daemon: DaemonStart) -> Outcome {
        self.start(target, daemon, theirs::CreateKind::Finish).await
    }

    async fn start(
        &self,
        target: Target,
        daemon: DaemonStart,
        kind: theirs::CreateKind,
    ) -> Outcome {
        let bootstrap = daemon.theirs();
        self.operate(target, Some(daemon.file), move |provider, host, on| {
            provider.create(host, on, kind, &bootstrap)
        })
        .await
    }

    /// Reads only.
    pub async fn inspect(&self, target: Target) -> Outcome {
        self.operate(target, None, |provider, host, on| {
            provider.inspect(host, on)
        })
        .await
    }

    /// Extends the native lease to that time, or only observes (SP-7.3).
    pub async fn renew(&self, target: Target, until: domain::Timestamp) -> Outcome {
        let until = u64::try_from(until.millis()).unwrap_or_default();
        self.operate(target, None, move |provider, host, on| {
            provider.renew(host, on, until)
        })
        .await
    }

    /// Removes compute and every disk and confirms it; with `fence_name` a lost create can never land (SP-4.6).
    pub async fn kill(&self, target: Target, fence_name: bool) -> Outcome {
        self.operate(target, None, move |provider, host, on| {
            provider.kill(host, on, fence_name)
        })
        .await
    }

    /// One page of what carries the installation's label (SP-9.8).
    ///
    /// # Errors
    /// Its code.
    pub async fn list_owned(
        &self,
        installation: domain::InstallationId,
        cursor: Option<String>,
    ) -> Result<(Vec<Owned>, Option<String>), ProviderFailure> {
        let selection = self.selection();
        let installation = installation.to_string();
        let page = self
            .look(move |provider, host| {
                provider.list_owned(host, &selection, &installation, cursor.as_deref())
            })
            .await?;
        let page = page.map_err(|failure| ProviderFailure {
            code: translate::code(failure.code),
        })?;
        Ok((
            page.entries.into_iter().map(translate::owned).collect(),
            page.next,
        ))
    }

    fn selection(&self) -> theirs::Selection {
        theirs::Selection {
            settings: pairs(&self.shared.chosen.settings),
            resources: translate::wished(&self.shared.chosen.resources),
            host_features: Vec::new(),
        }
    }

    /// An operation on one allocation. Those of one allocation come one after another (SP-3.5): the lock belongs to the
    /// native call and not to the caller, so it is held until the call ends even when its budget ran out (SP-3.4).
    async fn operate<F>(&self, target: Target, bootstrap: Option<BootstrapFile>, call: F) -> Outcome
    where
        F: FnOnce(&dyn SandboxProvider, &dyn Host, &theirs::Target) -> theirs::Outcome
            + Send
            + 'static,
    {
        let deadline = Instant::now() + target.budget;
        let budget = target.budget;
        let lock = self.lock(target.allocation.id);
        let held = match tokio::time::timeout(budget, lock.lock_owned()).await {
            Ok(held) => held,
            // An earlier call still runs, so this one was never made.
            Err(_) => return unknown("busy"),
        };
        let shared = Arc::clone(&self.shared);
        let work = tokio::task::spawn_blocking(move || {
            let _held = held;
            let host = shared.host(Some(&target), bootstrap, deadline);
            let on = target.theirs();
            guarded(|| call(&*shared.provider.plugin, &host, &on))
        });
        let left = deadline.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, work).await {
            Ok(Ok(Some(outcome))) => translate::outcome(outcome),
            Ok(Ok(None) | Err(_)) => unknown("panicked"),
            Err(_) => unknown("deadline_exceeded"),
        }
    }

    /// A call that is about no allocation.
    async fn look<T, F>(&self, call: F) -> Result<T, ProviderFailure>
    where
        T: Send + 'static,
        F: FnOnce(&dyn SandboxProvider, &dyn Host) -> T + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        let work = tokio::task::spawn_blocking(move || {
            let host = shared.host(None, None, Instant::now() + LOOK);
            guarded(|| call(&*shared.provider.plugin, &host))
        });
        let code = match tokio::time::timeout(LOOK, work).await {
            Ok(Ok(Some(answer))) => return Ok(answer),
            Ok(Ok(None) | Err(_)) => "panicked",
            Err(_) => "deadline_exceeded",
        };
        Err(ProviderFailure {
            code: code.to_owned(),
        })
    }

    fn lock(&self, allocation: AllocationId) -> Arc<AsyncMutex<()>> {
        let mut locks = self
            .shared
            .locks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(&allocation).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(AsyncMutex::new(()));
        locks.insert(allocation, Arc::downgrade(&lock));
        lock
    }
}

impl Shared {
    /// Call it on a thread of the runtime that may block.
    fn host(
        self: &Arc<Self>,
        target: Option<&Target>,
        bootstrap: Option<BootstrapFile>,
        deadline: Instant,
    ) -> CallHost {
        let system = self
            .provider
            .manifest
            .machine
            .as_ref()
            .map(|machine| machine.system.clone());
        let machine = self.sandboxes.clone().map(|sandboxes| MachineCall {
            sandboxes,
            system: system.unwrap_or_default(),
            bootstrap: bootstrap.clone(),
        });
        let settings = target.map_or(&self.chosen.settings, |target| &target.settings);
        CallHost {
            shared: Arc::clone(self),
            allocation: target.map(|target| target.allocation),
            settings: settings.clone(),
            bootstrap,
            machine,
            runtime: Handle::current(),
            deadline,
            lines: 0.into(),
        }
    }
}

fn unknown(code: &str) -> Outcome {
    Outcome::Unknown {
        code: code.to_owned(),
        evidence: None,
    }
}

/// A provider keeps nothing between calls, so one that panicked can be called again.
fn guarded<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
