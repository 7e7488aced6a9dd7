//! Creation of a Session by the winner of its retry identity (S-SES-10, S-SES-11, ENV-038).

use super::{Connector, Placement, Session, SessionStatus, WorkSeq, project};
use crate::changes::{Context, Decided, Hint};
use crate::draft::Draft;
use crate::environment::{
    Environment, EnvironmentKind, EnvironmentStatus, Initialization, Observation,
};
use crate::event::{Cause, EnvironmentEvent};
use crate::item::UserMessage;
use crate::metadata::Metadata;
use crate::reservation;
use crate::turn::{self, TurnState};
use crate::usage::UsageSum;
use crate::{
    AgentId, BatchId, ConfigurationId, EnvironmentId, ProjectId, Refusal, SessionId, SessionState,
    VaultId,
};

/// A Session to be made, everything resolved and admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Identity, already entered into the retry identity if there is a key.
    pub id: SessionId,
    /// Owner.
    pub project_id: ProjectId,
    /// Saved or inline Agent.
    pub agent_id: AgentId,
    /// Frozen configuration, written before.
    pub configuration: ConfigurationId,
    /// Where it runs.
    pub placement: Placement,
    /// How the machine connects.
    pub connector: Connector,
    /// Metadata.
    pub metadata: Metadata,
    /// Attached Vaults.
    pub vault_ids: Vec<VaultId>,
    /// First messages; empty = none.
    pub input: Vec<UserMessage>,
}

/// Makes the Session, its Environment, and its first Turn (`none`, T1) or reservation (R1).
///
/// Events: `S.created`; then T1's on `none`, or `S.requires_action` for self-hosted input (S-SEQ-8); last `E.pending` (D19, V1).
/// The answer is the state as created.
///
/// # Errors
/// E400-18 for `none` without input.
pub fn create(new: NewSession, cx: &mut Context<'_>) -> Result<Decided<SessionState>, Refusal> {
    if new.placement == Placement::None && new.input.is_empty() {
        return Err(Refusal::InputRequired);
    }
    let input = new.input;
    let session = Session {
        id: new.id,
        project_id: new.project_id,
        agent_id: new.agent_id,
        configuration: new.configuration,
        placement: new.placement,
        connector: new.connector,
        metadata: new.metadata,
        vault_ids: new.vault_ids,
        created_at: cx.now,
        last_active_at: cx.now,
        deleted_at: None,
        work_seq: WorkSeq(0),
        item_position: 0,
        usage: UsageSum::Nothing,
    };
    let loaded = SessionState::of(session);
    let mut draft = Draft::of(&loaded);
    let batch_id = BatchId::draw(cx.ids);
    match kind_of(new.placement) {
        None => {
            let items = turn::begin(&mut draft, batch_id, input, TurnState::Queued, cx);
            draft.created();
            turn::announce_begin(&mut draft, items)?;
            draft.hint(Hint::Queued(new.id));
        }
        Some(kind) => {
            draft.state.environment = Some(environment(kind, new.id, cx));
            if !input.is_empty() {
                reservation::reserve(&mut draft, batch_id, input, true, cx);
            }
            draft.created();
            if project(&draft.state).status == SessionStatus::RequiresAction
                && draft.state.reservation.is_some()
            {
                draft.announce_always(Cause::Other);
            }
            draft.environment_event(EnvironmentEvent::Pending);
            // No wake: its actor has nothing to do before a machine is there.
            if let Some(environment) = &draft.state.environment {
                let hint = Hint::Provision(environment.id);
                if kind == EnvironmentKind::OpenaiHosted {
                    draft.hint(hint);
                }
            }
        }
    }
    let state = draft.state.clone();
    Ok(draft.decide_new(state))
}

fn kind_of(placement: Placement) -> Option<EnvironmentKind> {
    match placement {
        Placement::None => None,
        Placement::OpenaiHosted => Some(EnvironmentKind::OpenaiHosted),
        Placement::SelfHosted => Some(EnvironmentKind::SelfHosted),
    }
}

fn environment(kind: EnvironmentKind, session_id: SessionId, cx: &mut Context<'_>) -> Environment {
    Environment {
        id: EnvironmentId::draw(cx.ids),
        session_id,
        kind,
        status: EnvironmentStatus::Pending, // ENV-040
        failure: None,
        observation: Observation::default(),
        initialization: Initialization::Pending,
        created_at: cx.now,
    }
}
