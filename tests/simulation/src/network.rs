//! One socket as the two ends see it: ordered in each direction, delayed, sometimes repeated, and some day cut.

use std::collections::VecDeque;

use protocol::wire::{CoreFrame, Message, RuntimeFrame};
use rand::RngExt;

use crate::Random;

/// One direction.
#[derive(Debug, Default)]
pub struct Lane {
    /// When a message arrives, in order.
    messages: VecDeque<(u64, Message)>,
    /// No earlier than this, or order would be lost.
    latest: u64,
}

impl Lane {
    /// Puts a message on its way. `repeat` puts it there twice: a peer that is not ours may repeat a frame.
    pub fn send(&mut self, random: &mut Random, now: u64, message: Message, repeat: bool) {
        let delay = if random.random_bool(0.05) {
            random.random_range(0..4_000)
        } else {
            random.random_range(0..30)
        };
        self.latest = self.latest.max(now + delay);
        if repeat {
            self.messages.push_back((self.latest, message.clone()));
        }
        self.messages.push_back((self.latest, message));
    }

    /// The next message that has arrived.
    pub fn receive(&mut self, now: u64) -> Option<Message> {
        let (at, _) = self.messages.front()?;
        if *at > now {
            None
        } else {
            self.messages.pop_front().map(|(_, message)| message)
        }
    }

    /// When the next message arrives.
    pub fn next(&self) -> Option<u64> {
        self.messages.front().map(|(at, _)| *at)
    }

    /// The connection breaks: what is on its way arrives up to some point and no further.
    pub fn cut(&mut self, random: &mut Random) {
        let kept = random.random_range(0..=self.messages.len());
        self.messages.truncate(kept);
    }
}

/// Frames that may be repeated: a repeat of these must change nothing. A greeting or a heartbeat that comes twice is a
/// broken peer, which is closed.
pub fn repeatable(message: &Message) -> bool {
    let Message::Text(text) = message else {
        return false;
    };
    let core = matches!(
        CoreFrame::decode(text),
        Ok(CoreFrame::Request(_) | CoreFrame::RunAck(..))
    );
    let runtime = matches!(
        RuntimeFrame::decode(text),
        Ok(RuntimeFrame::PrepareStatus(..) | RuntimeFrame::RunEvents(..))
    );
    // A final receipt may come twice; progress may not.
    let receipt = matches!(RuntimeFrame::decode(text), Ok(RuntimeFrame::Receipt(receipt)) if receipt.answer.is_final());
    core || runtime || receipt
}
