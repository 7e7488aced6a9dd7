//! When a Turn is over: the server ended it, no command of it runs, no message of it waits (TRN-005).

use sdk::harness_events::{NativeFailure, TurnStatus};
use sdk::harness_io::{Afterwards, Settlement};

use crate::out::Out;
use crate::run::{Native, Run};

/// Number of the timer that bounds the wait for late ends.
pub const DRAIN_TIMER: u32 = 1;
/// Killed commands report their end within milliseconds; this leaves room for a loaded machine and stays well inside
/// the declared time of a cancel.
pub const DRAIN_MS: u32 = 3_000;

/// The wait between the end of a Turn and its settlement.
pub struct Drain {
    /// Commands were asked to go and the server has not confirmed it.
    pub terminals: bool,
    /// The wait is over.
    pub expired: bool,
}

impl Drain {
    pub fn new(terminals: bool) -> Self {
        Self {
            terminals,
            expired: false,
        }
    }
}

impl Run {
    /// The server cleared the commands; their ends may still come.
    pub fn on_terminals_cleaned(&mut self) {
        if let Some(drain) = &mut self.drain {
            drain.terminals = false;
        }
    }

    /// The wait is over, whatever is missing.
    pub fn on_drain_timer(&mut self) {
        if let Some(drain) = &mut self.drain {
            drain.expired = true;
        }
    }

    /// Settles if nothing is open; true if it did.
    pub fn settle_if_over(&mut self, out: &mut Out) -> bool {
        let (cleaning, expired) = match &self.drain {
            Some(drain) => (drain.terminals, drain.expired),
            None => (false, false),
        };
        let open = cleaning || self.items.has_open() || self.awaits_steers();
        if !matches!(self.native, Native::Ended { .. }) || (open && !expired) {
            return false;
        }
        let Native::Ended {
            status, failure, ..
        } = std::mem::replace(&mut self.native, Native::Asked)
        else {
            return false;
        };
        if self.drain.take().is_some() && !expired {
            out.clear_timer(DRAIN_TIMER);
        }
        let afterwards = if open {
            Afterwards::Retire("work_left_open".into())
        } else {
            Afterwards::Reusable
        };
        self.settle(status, failure, afterwards, "turn_ended", out);
        true
    }

    /// The process is gone, and everything it left has been killed; `clean` tells whether that is certain (RP-16.6).
    pub fn on_process_end(&mut self, clean: bool, detail: &str, out: &mut Out) {
        if self.drain.take().is_some() {
            out.clear_timer(DRAIN_TIMER);
        }
        if self.unanswered {
            self.unanswered = false;
            out.unknown(self.id.clone(), "process_ended");
        }
        let native = std::mem::replace(&mut self.native, Native::Asked);
        let (status, failure) = match native {
            _ if !clean => (TurnStatus::Unknown, None),
            Native::Ended {
                status, failure, ..
            } => (status, failure),
            _ if !self.cancels.is_empty() => (TurnStatus::Cancelled, None),
            _ => (
                TurnStatus::Failed,
                Some(NativeFailure {
                    code: None,
                    http_status: None,
                    detail: detail.to_owned(),
                }),
            ),
        };
        let afterwards = Afterwards::Retire("process_ended".into());
        self.settle(status, failure, afterwards, "process_ended", out);
    }

    /// The last words on the run, in the order that Core relies on: Items, messages, the settlement, cancels.
    fn settle(
        &mut self,
        status: TurnStatus,
        failure: Option<NativeFailure>,
        afterwards: Afterwards,
        code: &str,
        out: &mut Out,
    ) {
        self.items.close_all(out);
        self.give_up_messages(code, out);
        out.settled(Settlement {
            run: self.id.clone(),
            status,
            failure,
            afterwards,
        });
        for cancel in self.cancels.drain(..) {
            match status {
                TurnStatus::Cancelled => out.done(cancel),
                TurnStatus::Unknown => out.unknown(cancel, code),
                TurnStatus::Completed | TurnStatus::Failed => out.rejected(cancel, "not_running"),
            }
        }
    }
}
