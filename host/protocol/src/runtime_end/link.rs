//! The life of one connection: its greeting, its heartbeat, what is offered on it (RP-3, CAP-006).

use domain::run::HarnessOffer;

use super::{Notice, RuntimeEnd};
use crate::moment::Moment;
use crate::wire::{CloseReason, Heartbeat, RuntimeFrame, Welcome};

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
    /// The offers changed since the last heartbeat.
    pub changed: bool,
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
            changed: false,
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
        let Link::Up(up) = &mut self.link else { return };
        up.beats += 1;
        let harnesses = std::mem::take(&mut up.changed).then(|| self.offers.clone());
        if let Some(offers) = &harnesses {
            self.declared.clone_from(offers);
        }
        let beat = Heartbeat {
            n: up.beats,
            owner_epoch,
            active,
            harnesses,
        };
        self.send(&RuntimeFrame::Heartbeat(beat));
    }

    pub(super) fn offer(&mut self, offers: Vec<HarnessOffer>) {
        let narrows = offers
            .iter()
            .all(|offer| self.declared.iter().any(|before| before.narrowed_by(offer)));
        self.offers = offers;
        match &mut self.link {
            Link::Up(up) if narrows => up.changed = true,
            Link::Down | Link::Greeting(_) => {}
            // A new `hello` is the only way to offer more.
            Link::Up(_) => self.close(CloseReason::Replaced),
        }
    }
}
