//! How what `core_end` says reads in the words of the scheduler's port.

use domain::run::{PrepareCode, RefusalCode};
use protocol::core_end::{self, NotSent, Settled};
use protocol::wire::{self, Code, Proof, RequestType};

use crate::peer::{Answer, PrepareSignal, RunBreak, RunSignal, Unanswered};

/// The answer of an operation whose effect is one fact.
pub(super) fn answer(of: RequestType, settled: Settled) -> Answer<Proof> {
    match settled {
        Settled::Receipt(wire::Answer::Ok(proof)) => Answer::Done(proof),
        Settled::Receipt(wire::Answer::Rejected(code)) => Answer::Rejected(refusal(code)),
        Settled::Receipt(wire::Answer::Failed { code, exit_code }) => Answer::Failed {
            code: refusal(code),
            exit_code,
        },
        // A receipt that says "unknown" is still a receipt: the cancel of F01 ends as `cancel_outcome_unavailable`, not as
        // `cancel_unconfirmed`.
        Settled::Receipt(wire::Answer::Unknown(code)) if of == RequestType::RunCancel => {
            Answer::Failed {
                code: refusal(code),
                exit_code: None,
            }
        }
        Settled::NotSent(_) => Answer::Unanswered(Unanswered::NotSent),
        Settled::Receipt(wire::Answer::Unknown(_) | wire::Answer::Progress(_))
        | Settled::Started
        | Settled::Lost
        | Settled::TimedOut => Answer::Unanswered(Unanswered::Unknown),
    }
}

/// The fact that was asked for; another one proves nothing.
pub(super) fn fact<T>(answer: Answer<Proof>, fact: impl FnOnce(Proof) -> Option<T>) -> Answer<T> {
    match answer {
        Answer::Done(proof) => {
            fact(proof).map_or(Answer::Unanswered(Unanswered::Unknown), Answer::Done)
        }
        Answer::Rejected(code) => Answer::Rejected(code),
        Answer::Failed { code, exit_code } => Answer::Failed { code, exit_code },
        Answer::Unanswered(why) => Answer::Unanswered(why),
    }
}

/// The end of `execution_prepare` that no status tells.
pub(super) fn preparation(settled: Settled) -> PrepareSignal {
    match settled {
        Settled::Receipt(wire::Answer::Rejected(code)) => PrepareSignal::Rejected(prepare(code)),
        // No socket will ever take it (RP-10.12).
        Settled::NotSent(NotSent::TooLong) => {
            PrepareSignal::Rejected(PrepareCode::InvalidConfiguration)
        }
        Settled::NotSent(_) => PrepareSignal::Unanswered(Unanswered::NotSent),
        Settled::Receipt(_) | Settled::Started | Settled::Lost | Settled::TimedOut => {
            PrepareSignal::Unanswered(Unanswered::Unknown)
        }
    }
}

/// The end of `execution_start`.
pub(super) fn start(settled: Settled) -> RunSignal {
    match settled {
        Settled::Started => RunSignal::Started,
        Settled::Receipt(wire::Answer::Rejected(code)) => RunSignal::Rejected(prepare(code)),
        Settled::NotSent(NotSent::TooLong) => RunSignal::TooLong,
        Settled::NotSent(_) => RunSignal::NotSent,
        // The end of the connection follows, and says how far the Run had got.
        Settled::Lost => RunSignal::Broken(RunBreak::Lost),
        // Nothing follows: without this nobody would ever end the Turn.
        Settled::TimedOut
        | Settled::Receipt(
            wire::Answer::Ok(_)
            | wire::Answer::Failed { .. }
            | wire::Answer::Unknown(_)
            | wire::Answer::Progress(_),
        ) => RunSignal::Unknown,
    }
}

/// Why a Run's observation ended.
pub(super) fn broken(why: core_end::RunBreak) -> RunBreak {
    match why {
        core_end::RunBreak::Lost => RunBreak::Lost,
        core_end::RunBreak::Gap => RunBreak::Gap,
        core_end::RunBreak::Overflow => RunBreak::Overflow,
    }
}

/// Execution requests are refused in their own words; a body that this Runtime cannot use is an invalid configuration.
fn prepare(code: Code) -> PrepareCode {
    match code {
        Code::Prepare(code) => code,
        Code::Refusal(RefusalCode::BindingStale) => PrepareCode::BindingStale,
        Code::Refusal(RefusalCode::BindingConflict) => PrepareCode::BindingConflict,
        Code::Refusal(RefusalCode::Draining) => PrepareCode::Draining,
        Code::Refusal(RefusalCode::Unsupported) => PrepareCode::UnsupportedPreparation,
        Code::Refusal(_) => PrepareCode::InvalidConfiguration,
    }
}

fn refusal(code: Code) -> RefusalCode {
    match code {
        Code::Refusal(code) => code,
        Code::Prepare(PrepareCode::BindingStale) => RefusalCode::BindingStale,
        Code::Prepare(PrepareCode::BindingConflict) => RefusalCode::BindingConflict,
        Code::Prepare(PrepareCode::Draining) => RefusalCode::Draining,
        Code::Prepare(_) => RefusalCode::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every end of a start reaches the Turn: only after the loss of the socket something else follows (RP-10.7, RP-17.1).
    #[test]
    fn every_end_of_a_start_is_told() {
        let refused = Code::Refusal(RefusalCode::Unavailable);
        let failed = wire::Answer::Failed {
            code: refused,
            exit_code: None,
        };
        for (settled, signal) in [
            (Settled::Started, RunSignal::Started),
            (Settled::NotSent(NotSent::Closed), RunSignal::NotSent),
            (Settled::NotSent(NotSent::TooLong), RunSignal::TooLong),
            (Settled::Lost, RunSignal::Broken(RunBreak::Lost)),
            (
                Settled::Receipt(wire::Answer::Rejected(Code::Prepare(PrepareCode::Busy))),
                RunSignal::Rejected(PrepareCode::Busy),
            ),
            (Settled::TimedOut, RunSignal::Unknown),
            (
                Settled::Receipt(wire::Answer::Ok(Proof::Bound)),
                RunSignal::Unknown,
            ),
            (Settled::Receipt(failed), RunSignal::Unknown),
            (
                Settled::Receipt(wire::Answer::Unknown(refused)),
                RunSignal::Unknown,
            ),
        ] {
            assert_eq!(start(settled.clone()), signal, "{settled:?}");
        }
    }

    // RP-10.12: what can never be sent is not tried again, what was not sent this time is.
    #[test]
    fn a_configuration_that_fits_no_frame_is_refused_for_good() {
        use NotSent::{Closed, NotBound, Repeated, TooLong, TooManyAdmissions};
        for why in [Closed, NotBound, Repeated, TooLong, TooManyAdmissions] {
            let told = preparation(Settled::NotSent(why));
            let expected = match why {
                TooLong => PrepareSignal::Rejected(PrepareCode::InvalidConfiguration),
                _ => PrepareSignal::Unanswered(Unanswered::NotSent),
            };
            assert_eq!(told, expected, "{why:?}");
        }
    }
}
