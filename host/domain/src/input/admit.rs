//! Admission of a batch: gates in order, then one choice that no retry makes again (state-machines 1.3, S-EV-5, S-EV-8).

use super::{Batch, BatchKind, Receipt, ReceiptTarget, ResultInput};
use crate::call::{Answer, CallState, ResultOutput};
use crate::changes::{Context, Decided, Write};
use crate::content::{MAX_START_INPUT, start_bytes};
use crate::draft::Draft;
use crate::environment::{EnvironmentKind, EnvironmentStatus};
use crate::event::Cause;
use crate::item::{InputPart, UserMessage};
use crate::reservation::{self, Waiting};
use crate::session::Placement;
use crate::session_state::OpenFileWrite;
use crate::turn;
use crate::{BatchId, DeliveryId, Digest, ReceiptId, Refusal, ReservationId, SessionState, TurnId};

/// A parsed batch (G1 passed) on its way into a Session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admit {
    /// The events, all of one kind.
    pub batch: Batch,
    /// `Idempotency-Key`, if one was sent.
    pub key: Option<String>,
    /// Identity of the whole ordered batch as sent, field presence included (W-IDEM-9).
    pub digest: Digest,
    /// Execution is configured on this service (G4).
    pub execution: bool,
    /// What the Session's harness takes (G7).
    pub content: ContentRules,
}

/// What a harness declares about content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRules {
    /// Messages whose text is only whitespace (S-MSG-6).
    pub whitespace_only: bool,
    /// Images in messages.
    pub message_images: bool,
    /// Images in function results.
    pub result_images: bool,
}

/// An admitted batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// 202 at once.
    Stored {
        /// What it was admitted to.
        target: ReceiptTarget,
    },
    /// 202 or a 409 once this reservation is settled; the request waits (S-RES-3).
    Waits {
        /// The reservation.
        reservation_id: ReservationId,
    },
}

/// Admits a batch or refuses all of it (S-EV-1).
///
/// Events: T1, T4, T6, T7, T12, T13, T18 or R2 of the machines; none for results and repeats.
///
/// # Errors
/// The first gate that answers (G2–G9).
pub fn admit(
    state: &SessionState,
    admit: Admit,
    cx: &mut Context<'_>,
) -> Result<Decided<Admission>, Refusal> {
    if state.session.deleted_at.is_some() {
        return Err(Refusal::NotFound); // G2
    }
    if let Some(answer) = repeat(state, &admit)? {
        return Ok(Decided::unchanged(answer)); // G3
    }
    gates(state, &admit)?;
    let mut draft = Draft::of(state);
    let batch_id = BatchId::draw(cx.ids);
    let (kind, target) = match admit.batch {
        Batch::Messages(messages) => (
            BatchKind::Messages,
            messages_to(&mut draft, batch_id, messages, cx)?,
        ),
        Batch::Cancel => (BatchKind::Cancel, cancel(&mut draft, cx)),
        Batch::Results(results) => (
            BatchKind::Results,
            answer_calls(&mut draft, &results, &admit.content, cx)?,
        ),
    };
    draft.write(Write::AddReceipt(Receipt {
        id: ReceiptId::draw(cx.ids),
        session_id: state.session.id,
        batch_id,
        key: admit.key,
        digest: admit.digest,
        kind,
        target,
        at: cx.now,
    }));
    Ok(draft.decide(match target {
        ReceiptTarget::Reservation(reservation_id) => Admission::Waits { reservation_id },
        target => Admission::Stored { target },
    }))
}

/// G3: a known key answers what it answered, or waits again (W-IDEM-3, W-IDEM-10).
fn repeat(state: &SessionState, admit: &Admit) -> Result<Option<Admission>, Refusal> {
    let Some(retry) = state
        .retry
        .as_ref()
        .filter(|retry| admit.key.is_some() && retry.receipt.key == admit.key)
    else {
        return Ok(None);
    };
    if retry.receipt.digest != admit.digest {
        return Err(Refusal::KeyConflict);
    }
    let target = retry.receipt.target;
    let stored = Admission::Stored { target };
    let ReceiptTarget::Reservation(reservation_id) = target else {
        return Ok(Some(stored));
    };
    let reservation = retry
        .reservation
        .as_ref()
        .filter(|reservation| reservation.id == reservation_id);
    let reservation =
        reservation.ok_or(Refusal::Impossible("a receipt without its reservation"))?;
    match reservation::answer(reservation)? {
        Waiting::Pending => Ok(Some(Admission::Waits { reservation_id })),
        Waiting::Admitted { .. } => Ok(Some(stored)),
    }
}

/// G4–G8.
fn gates(state: &SessionState, admit: &Admit) -> Result<(), Refusal> {
    if !admit.execution {
        return Err(Refusal::ExecutionUnavailable); // G4
    }
    let messages = match &admit.batch {
        Batch::Messages(messages) => Some(messages),
        Batch::Cancel | Batch::Results(_) => None,
    };
    if let (Some(_), Some(write)) = (messages, state.file_write) {
        return Err(Refusal::FileWrite {
            unsettled: write == OpenFileWrite::Unsettled,
        }); // G5
    }
    if state.pending_reservation().is_some() {
        return Err(Refusal::InputPending); // G6, D36
    }
    let Some(messages) = messages else {
        return Ok(());
    };
    messages
        .iter()
        .try_for_each(|message| admit.content.check(message))?; // G7
    match &state.environment {
        Some(environment) => match (environment.status, environment.kind) {
            (EnvironmentStatus::Failed, EnvironmentKind::OpenaiHosted) => {
                Err(Refusal::HostedEnvironmentFailed)
            }
            (EnvironmentStatus::Failed, EnvironmentKind::SelfHosted)
            | (EnvironmentStatus::Expired, _) => Err(Refusal::EnvironmentUnavailable),
            _ => Ok(()),
        },
        None => Ok(()),
    } // G8, D10
}

impl ContentRules {
    /// G7 for one message.
    ///
    /// # Errors
    /// E400-23 for an image, E400-24 for whitespace only.
    pub fn check(&self, message: &UserMessage) -> Result<(), Refusal> {
        if message.has_image() && !self.message_images {
            let message = "This Session's harness does not accept images in messages.".to_owned();
            return Err(Refusal::UnsupportedContent {
                param: None,
                message,
            });
        }
        if !self.whitespace_only && message.is_whitespace_only() {
            return Err(Refusal::WhitespaceOnly);
        }
        Ok(())
    }

    fn check_result(&self, result: &ResultInput) -> Result<(), Refusal> {
        let Some(ResultOutput::Parts(parts)) = &result.result.output else {
            return Ok(());
        };
        if !self.result_images
            && parts
                .iter()
                .any(|part| matches!(part, InputPart::InputImage { .. }))
        {
            let message =
                "This Session's harness does not accept images in function results.".to_owned();
            return Err(Refusal::UnsupportedContent {
                param: None,
                message,
            });
        }
        Ok(())
    }
}

/// The one choice: join the active Turn, start one, or reserve (S-EV-8).
fn messages_to(
    draft: &mut Draft<'_>,
    batch_id: BatchId,
    messages: Vec<UserMessage>,
    cx: &mut Context<'_>,
) -> Result<ReceiptTarget, Refusal> {
    draft.wake();
    match draft.state.live_turn() {
        Some(turn) if !turn.is_capturing() => {
            if turn.cancel.is_some() {
                return Err(Refusal::TurnState { final_: false }); // D5
            }
            let whole = turn.start_bytes.saturating_add(start_bytes(&messages));
            if turn.state == turn::TurnState::Queued && whole > MAX_START_INPUT {
                return Err(Refusal::TooMuchWaits);
            }
            let turn_id = turn.id;
            turn::join(draft, batch_id, messages, cx); // T6, T7
            Ok(ReceiptTarget::Turn(turn_id))
        }
        Some(_) if draft.state.session.placement == Placement::None => Err(Refusal::Impossible(
            "a capture on a Session without Environment",
        )),
        None if draft.state.session.placement == Placement::None => {
            let items = turn::begin(draft, batch_id, messages, turn::TurnState::Queued, cx); // T1
            turn::announce_begin(draft, items)?;
            let turn = draft
                .state
                .turn
                .as_ref()
                .ok_or(Refusal::Impossible("a beginning without a Turn"))?;
            Ok(ReceiptTarget::Turn(turn.id))
        }
        _ => {
            let reservation_id = reservation::reserve(draft, batch_id, messages, false, cx); // R2
            draft.announce(Cause::Other);
            Ok(ReceiptTarget::Reservation(reservation_id))
        }
    }
}

fn cancel(draft: &mut Draft<'_>, cx: &mut Context<'_>) -> ReceiptTarget {
    match draft.state.live_turn().map(|turn| turn.id) {
        Some(turn_id) => {
            turn::request_cancel(draft, cx.now); // T4, T12, T13, T18
            ReceiptTarget::Turn(turn_id)
        }
        None => ReceiptTarget::None, // S-CAN-2
    }
}

/// Results in order; one bad result refuses all (1.5).
fn answer_calls(
    draft: &mut Draft<'_>,
    results: &[ResultInput],
    content: &ContentRules,
    cx: &mut Context<'_>,
) -> Result<ReceiptTarget, Refusal> {
    let mut target = ReceiptTarget::None;
    for result in results {
        let turn_id = answer_call(draft, result, content, cx)?;
        if target == ReceiptTarget::None {
            target = ReceiptTarget::Turn(turn_id);
        }
    }
    Ok(target)
}

fn answer_call(
    draft: &mut Draft<'_>,
    result: &ResultInput,
    content: &ContentRules,
    cx: &mut Context<'_>,
) -> Result<TurnId, Refusal> {
    let known = draft
        .state
        .calls
        .iter()
        .any(|call| call.call_id == result.call_id);
    let cancelled = draft
        .state
        .live_turn()
        .is_some_and(|turn| turn.cancel.is_some());
    let call = draft
        .state
        .calls
        .iter_mut()
        .find(|call| call.call_id == result.call_id && Some(call.turn_id) == result.turn_id);
    let Some(call) = call else {
        return Err(if known {
            Refusal::OtherTurn
        } else {
            Refusal::UnknownCall(result.call_id.clone())
        });
    };
    let turn_id = call.turn_id;
    match &call.state {
        CallState::Pending if cancelled => Err(Refusal::TurnState { final_: true }),
        CallState::Pending => {
            content.check_result(result)?;
            call.state = CallState::Answered(Answer {
                digest: result.digest,
                result: result.result.clone(),
                delivery_id: DeliveryId::draw(cx.ids),
                at: cx.now,
            });
            draft.touch(cx.now);
            draft.wake();
            Ok(turn_id)
        }
        CallState::Answered(answer) | CallState::Applied(answer) | CallState::Kept(answer) => {
            if answer.digest == result.digest {
                Ok(turn_id)
            } else {
                Err(Refusal::DifferentResult)
            }
        }
        CallState::Closed => Err(Refusal::TurnState { final_: true }),
    }
}
