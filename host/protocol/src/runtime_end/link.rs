//! The life of one connection: its greeting, its heartbeat, what is offered on it (RP-3, CAP-006).

use domain::run::HarnessOffer;

use super::{Notice, RuntimeEnd};
use crate::moment::Moment;
use crate::wire::{CloseReason, HELLO_AGAIN, Heartbeat, RuntimeFrame, Welcome, both_list};

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
    /// Core takes another `hello` (RP-3.5).
    pub hello_again: bool,
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
            hello_again: both_list(HELLO_AGAIN, &self.identity.features, &welcome.features),
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
        self.say_more();
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
        self.say_more();
    }

    /// Offers what this connection has not declared. A Core that does not know how hears of it on the next connection.
    fn say_more(&mut self) {
        if matches!(&self.link, Link::Up(up) if up.hello_again) && self.is_wider() {
            self.hello();
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
}
