//! Connection, initialization, binding and failure of an Environment.

use domain::{
    BindingId, Context, Decided, DeviceId, Refusal, SessionId, SessionState,
    binding::{self, Binding},
    environment::{self, FailureReason, Observe, Observed},
};

use super::{SessionUnit, decide_and_apply, locked};
use crate::{
    error::UnitError,
    load::Parts,
    tx::Tx,
    unit::{Durability, Unit},
};

/// Stores what the gateway saw of a device's socket (1.7).
#[derive(Debug, Clone, Copy)]
pub struct ObserveConnection {
    /// The Session of the Environment.
    pub session: SessionId,
    /// What was seen.
    pub observe: Observe,
}

impl SessionUnit for ObserveConnection {
    const NAME: &'static str = "ObserveConnection";
    const LEASED: bool = true;
    type Answer = Observed;

    fn session(&self) -> SessionId {
        self.session
    }

    fn parts(&self) -> Parts {
        Parts {
            calls: true,
            ..Parts::default()
        }
    }

    fn durability(&self) -> Durability {
        Durability::Flushed
    }

    fn decide(
        &self,
        state: &SessionState,
        cx: &mut Context<'_>,
    ) -> Result<Decided<Observed>, Refusal> {
        environment::observe(state, self.observe, cx)
    }
}

/// Binds a `none` Session to a device, once (S-EV-10).
#[derive(Debug, Clone, Copy)]
pub struct BindDevice {
    /// The Session.
    pub session: SessionId,
    /// The device that the caller chose.
    pub device: DeviceId,
}

impl SessionUnit for BindDevice {
    const NAME: &'static str = "BindDevice";
    const LEASED: bool = true;
    type Answer = Option<Binding>;

    fn session(&self) -> SessionId {
        self.session
    }

    fn parts(&self) -> Parts {
        Parts {
            binding: true,
            ..Parts::default()
        }
    }

    fn decide(
        &self,
        state: &SessionState,
        cx: &mut Context<'_>,
    ) -> Result<Decided<Option<Binding>>, Refusal> {
        binding::choose(state, self.device, cx)
    }
}

/// The Runtime acknowledged a release (RP-8.5). The answer tells whether it was owed.
#[derive(Debug, Clone, Copy)]
pub struct AckRelease {
    /// The Session.
    pub session: SessionId,
    /// The binding.
    pub binding: BindingId,
    /// The epoch that was released.
    pub epoch: u64,
}

impl SessionUnit for AckRelease {
    const NAME: &'static str = "AckRelease";
    const LEASED: bool = true;
    type Answer = bool;

    fn session(&self) -> SessionId {
        self.session
    }

    fn parts(&self) -> Parts {
        Parts {
            binding: true,
            ..Parts::default()
        }
    }

    fn decide(&self, state: &SessionState, cx: &mut Context<'_>) -> Result<Decided<bool>, Refusal> {
        binding::released(state, self.binding, self.epoch, cx)
    }
}

/// The right to send the first initialization step (N3). The answer tells whether it was given.
#[derive(Debug, Clone, Copy)]
pub struct BeginInit {
    /// The Session of the Environment.
    pub session: SessionId,
    /// Connection generation of the peer.
    pub generation: u64,
}

impl Unit for BeginInit {
    const NAME: &'static str = "BeginInit";
    const LEASED: bool = true;
    type Answer = bool;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, UnitError<Refusal>> {
        let state = locked(tx, self.session, None, &Parts::default()).await?;
        let begin = environment::BeginInit {
            owner_epoch: tx.epoch()?,
            generation: self.generation,
        };
        Ok(decide_and_apply(tx, self.session, |cx| {
            environment::begin_init(&state, begin, cx)
        })
        .await?
        .0)
    }
}

/// Every initialization step was confirmed (N5). `false`: the attempt is to be failed.
#[derive(Debug, Clone, Copy)]
pub struct CompleteInit {
    /// The Session of the Environment.
    pub session: SessionId,
    /// Connection generation of the attempt.
    pub generation: u64,
    /// The binding it ran under.
    pub binding: BindingId,
    /// Its epoch.
    pub binding_epoch: u64,
}

impl Unit for CompleteInit {
    const NAME: &'static str = "CompleteInit";
    const LEASED: bool = true;
    type Answer = bool;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, UnitError<Refusal>> {
        let parts = Parts {
            binding: true,
            ..Parts::default()
        };
        let state = locked(tx, self.session, None, &parts).await?;
        let complete = environment::CompleteInit {
            owner_epoch: tx.epoch()?,
            generation: self.generation,
            binding_id: self.binding,
            binding_epoch: self.binding_epoch,
        };
        Ok(decide_and_apply(tx, self.session, |cx| {
            environment::complete_init(&state, complete, cx)
        })
        .await?
        .0)
    }
}

/// Provisioning or initialization failed (V4); the first failure wins. The answer tells whether this was it.
#[derive(Debug, Clone, Copy)]
pub struct FailEnvironment {
    /// The Session of the Environment.
    pub session: SessionId,
    /// Why.
    pub reason: FailureReason,
}

impl SessionUnit for FailEnvironment {
    const NAME: &'static str = "FailEnvironment";
    const LEASED: bool = true;
    type Answer = bool;

    fn session(&self) -> SessionId {
        self.session
    }

    fn parts(&self) -> Parts {
        Parts {
            calls: true,
            ..Parts::default()
        }
    }

    fn decide(&self, state: &SessionState, cx: &mut Context<'_>) -> Result<Decided<bool>, Refusal> {
        environment::fail(state, self.reason, cx)
    }
}
