//! The life of one connection: its greeting, its heartbeat, what is offered on it (RP-3, CAP-006).

use domain::run::HarnessOffer;

use super::{Notice, RuntimeEnd};
use crate::moment::Moment;
use crate::wire::{CloseReason, Heartbeat, RuntimeFrame, Welcome};

/// A connection without work for so long is at rest: between two pieces of one job, such as the steps of an initialization or
/// a Turn and its export, Core takes less.
const REST_MS: u64 = 1_000;
/// Core confirms the end of a Run by then, or never: it has given the Run up.
const CONFIRMED_MS: u64 = 30_000;

#[derive(Debug)]
pub(super) enum Link {
    /// No socket.
    Down,
    /// `hello` was sent; `welcome` must come until.
    Greeting(Moment),
    /// Working.
    Up(Up),
}

#[derive(Debug)]
pub(super) struct Up {
    pub heartbeat_ms: u64,
    pub idle_close_ms: u64,
    pub next_heartbeat: Moment,
    /// Heartbeats sent.
    pub beats: u64,
    /// More is offered than this connection has declared, so a new one must come.
    pub wider: bool,
    /// When something of a Session last crossed it.
    pub last_work: Moment,
}

impl RuntimeEnd {
    pub(super) fn welcome(&mut self, now: Moment, welcome: Welcome) {
        if welcome.owner_epoch < self.owner_epoch {
            return self.close(CloseReason::StaleOwner);
        }
        self.owner_epoch = welcome.owner_epoch;
        // The first heartbeat leaves at once (RP-3.2).
        let heartbeat_ms = welcome.heartbeat_ms.max(1);
        let up = Up {
            heartbeat_ms,
            idle_close_ms: welcome.idle_close_ms.max(heartbeat_ms),
            next_heartbeat: now.after(heartbeat_ms),
            beats: 0,
            wider: self.is_wider(),
            last_work: now,
        };
        self.link = Link::Up(up);
        let resumed: Vec<_> = welcome.resume.iter().map(|run| run.run_id).collect();
        let abandon = self.runs.abandon_all_but(&resumed);
        self.notice(Notice::Welcomed {
            connection_id: welcome.connection_id,
            limits: welcome.limits,
            abandon,
        });
        self.beat();
    }

    /// A heartbeat shows which Core process speaks; an older one than before has lost its right (RP-2).
    pub(super) fn owner(&mut self, epoch: u64) {
        if epoch < self.owner_epoch {
            self.close(CloseReason::StaleOwner);
        } else {
            self.owner_epoch = epoch;
        }
    }

    pub(super) fn beat(&mut self) {
        let (active, owner_epoch) = (self.active, self.owner_epoch);
        let narrowed = self.narrowed();
        let Link::Up(up) = &mut self.link else { return };
        up.beats += 1;
        let harnesses = (narrowed != self.declared).then(|| narrowed.clone());
        self.declared = narrowed;
        let beat = Heartbeat {
            n: up.beats,
            owner_epoch,
            active,
            harnesses,
        };
        self.send(&RuntimeFrame::Heartbeat(beat));
    }

    pub(super) fn offer(&mut self, offers: Vec<HarnessOffer>) {
        self.offers = offers;
        let wider = self.is_wider();
        if let Link::Up(up) = &mut self.link {
            up.wider = wider;
        }
    }

    /// What this connection may say of the offers: an earlier declaration, or less of it.
    fn narrowed(&self) -> Vec<HarnessOffer> {
        let narrow = |before: &HarnessOffer| {
            let now = self.offers.iter().find(|now| now.id == before.id)?;
            Some(if before.narrowed_by(now) {
                now.clone()
            } else if now.available {
                before.clone()
            } else {
                HarnessOffer {
                    available: false,
                    reason: now.reason.clone(),
                    ..before.clone()
                }
            })
        };
        self.declared.iter().filter_map(narrow).collect()
    }

    /// Whether only a new `hello` can say it all.
    fn is_wider(&self) -> bool {
        let declared = |offer| self.declared.iter().any(|before| before.narrowed_by(offer));
        !self.offers.iter().all(declared)
    }

    /// Something of a Session came or goes.
    pub(super) fn worked(&mut self, now: Moment) {
        if let Link::Up(up) = &mut self.link {
            up.last_work = now;
        }
    }

    /// When this connection can give way to one that offers more: nothing that a close would break is on it.
    pub(super) fn gives_way(&self) -> Option<Moment> {
        let Link::Up(up) = &self.link else {
            return None;
        };
        let works = !up.wider
            || self.runs.any_unsettled()
            || self.admissions.any_open()
            || self.memory.any_under_way();
        let rest = if self.runs.any_unacknowledged() {
            CONFIRMED_MS
        } else {
            REST_MS
        };
        (!works).then(|| up.last_work.after(rest))
    }
}
