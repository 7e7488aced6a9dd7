//! Who holds an Executor, and who may have one (RP-10.13, RP-10.21).
//!
//! An idle Executor is kept for its Session's next Turn, so it holds a seat for minutes. It never keeps another Session out:
//! when every seat is taken, the one that has been idle longest is asked to go, and the admission waits for its end.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use domain::SessionId;
use protocol::wire::{Active, Capacity};
use tokio::{sync::mpsc::WeakUnboundedSender, time::Instant};

use super::session::Order;

/// What one Session holds at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Occupancy {
    pub(super) preparing: bool,
    pub(super) executor: bool,
    pub(super) closing: bool,
    pub(super) run: bool,
    /// It has the place of a Run: for an admission that has not ended, for a Run, or for one that is closed with its Executor.
    pub(super) admitted: bool,
    /// The processes of a former Executor are not confirmed gone: it closes for ever.
    pub(super) unconfirmed: bool,
    /// Since when the Executor has no work.
    pub(super) idle_since: Option<Instant>,
    /// An admission waits for a seat.
    pub(super) waits: bool,
}

#[derive(Debug)]
struct Seat {
    occupancy: Occupancy,
    /// It was asked to give its Executor up.
    asked: bool,
    orders: WeakUnboundedSender<Order>,
}

impl Seat {
    /// Its Executor will be gone soon.
    fn leaves(&self) -> bool {
        let Occupancy {
            closing,
            unconfirmed,
            ..
        } = self.occupancy;
        self.asked || (closing && !unconfirmed)
    }

    fn tell(&self, order: Order) {
        // A Session that is over holds nothing and waits for nothing.
        if let Some(orders) = self.orders.upgrade() {
            let _ = orders.send(order);
        }
    }
}

/// What becomes of the wish for a new Executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// It may be made now; the seat is taken.
    Granted,
    /// An idle Executor makes room; ask again at [`Order::Room`].
    Wait,
    /// Everything is at work.
    Full,
}

/// The seats of one daemon.
#[derive(Debug)]
pub(super) struct Seats {
    capacity: Capacity,
    board: Mutex<HashMap<SessionId, Seat>>,
}

impl Seats {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            board: Mutex::default(),
        }
    }

    /// A Session begins; `orders` reaches it.
    pub(super) fn enter(&self, session: SessionId, orders: WeakUnboundedSender<Order>) {
        let seat = Seat {
            occupancy: Occupancy::default(),
            asked: false,
            orders,
        };
        self.board().insert(session, seat);
    }

    /// The counters of a heartbeat: a hint (RP-10.21).
    pub(super) fn active(&self) -> Active {
        active(&self.board())
    }

    /// Asks for the right to make a new Executor; closing and uncertain ones count (RP-10.13).
    pub(super) fn claim(&self, session: SessionId) -> Claim {
        let mut board = self.board();
        let held = active(&board);
        let own = board
            .get(&session)
            .is_some_and(|seat| seat.occupancy.executor);
        if held.preparing >= self.capacity.preparing {
            return Claim::Full;
        }
        if held.executors - u32::from(own) < self.capacity.executors {
            if let Some(seat) = board.get_mut(&session) {
                seat.occupancy.executor = true;
                seat.occupancy.preparing = true;
                seat.occupancy.waits = false;
            }
            return Claim::Granted;
        }
        let others = || board.iter().filter(|(id, _)| **id != session);
        let leaving = others().filter(|(_, seat)| seat.leaves()).count();
        let waiting = others().filter(|(_, seat)| seat.occupancy.waits).count();
        if waiting < leaving {
            await_room(&mut board, session);
            return Claim::Wait;
        }
        let idle = others().filter(|(_, seat)| !seat.leaves());
        let idle = idle.filter_map(|(id, seat)| Some((seat.occupancy.idle_since?, *id)));
        let Some(longest) = idle.min().map(|(_, id)| id) else {
            return Claim::Full;
        };
        if let Some(seat) = board.get_mut(&longest) {
            tracing::debug!(session = %longest, "an idle Executor makes room for another Session");
            seat.asked = true;
            seat.tell(Order::MakeRoom);
        }
        await_room(&mut board, session);
        Claim::Wait
    }

    /// Gives an admission the place of the Run that it is for, if one is free: a start needs no place of its own, so it is
    /// never refused for one (RP-10.10, SC-4.6).
    pub(super) fn admit(&self, session: SessionId) -> bool {
        let mut board = self.board();
        let others = board
            .iter()
            .filter(|(id, seat)| **id != session && seat.occupancy.admitted);
        let free = u32::try_from(others.count()).is_ok_and(|taken| taken < self.capacity.runs);
        if free && let Some(seat) = board.get_mut(&session) {
            seat.occupancy.admitted = true;
        }
        free
    }

    /// Records what a Session holds; true if that is news.
    pub(super) fn occupy(&self, session: SessionId, occupancy: Occupancy) -> bool {
        let mut board = self.board();
        let Some(seat) = board.get_mut(&session) else {
            return false;
        };
        let (left, held) = (seat.leaves(), seat.occupancy.executor);
        let news = seat.occupancy != occupancy;
        seat.occupancy = occupancy;
        // One that has work again, or is gone, is not about to go.
        seat.asked &=
            !occupancy.unconfirmed && (occupancy.idle_since.is_some() || occupancy.closing);
        if (held && !occupancy.executor) || (left && !seat.leaves()) {
            wake(&board);
        }
        news
    }

    /// The Session is over.
    pub(super) fn leave(&self, session: SessionId) {
        let mut board = self.board();
        if board.remove(&session).is_some() {
            wake(&board);
        }
    }

    fn board(&self) -> MutexGuard<'_, HashMap<SessionId, Seat>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn active(board: &HashMap<SessionId, Seat>) -> Active {
    let count = |pick: fn(&Occupancy) -> bool| {
        let picked = board.values().filter(|seat| pick(&seat.occupancy));
        u32::try_from(picked.count()).unwrap_or(u32::MAX)
    };
    Active {
        runs: count(|o| o.run),
        executors: count(|o| o.executor),
        preparing: count(|o| o.preparing),
        closing: count(|o| o.closing),
    }
}

/// It is woken from now on: were this told only later, room that comes meanwhile would wake nobody.
fn await_room(board: &mut HashMap<SessionId, Seat>, session: SessionId) {
    if let Some(seat) = board.get_mut(&session) {
        seat.occupancy.waits = true;
    }
}

/// Whoever waits asks again.
fn wake(board: &HashMap<SessionId, Seat>) {
    board
        .values()
        .filter(|seat| seat.occupancy.waits)
        .for_each(|seat| seat.tell(Order::Room));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
    use uuid::Uuid;

    use super::*;

    struct Guest {
        id: SessionId,
        orders: UnboundedReceiver<Order>,
        _sender: UnboundedSender<Order>,
    }

    impl Guest {
        fn enter(seats: &Seats) -> Self {
            let (sender, orders) = mpsc::unbounded_channel();
            let id = SessionId::new(Uuid::now_v7());
            seats.enter(id, sender.downgrade());
            Self {
                id,
                orders,
                _sender: sender,
            }
        }

        fn told(&mut self) -> Option<Order> {
            self.orders.try_recv().ok()
        }
    }

    fn idle(since: Instant) -> Occupancy {
        Occupancy {
            executor: true,
            idle_since: Some(since),
            ..Occupancy::default()
        }
    }

    const RUNNING: Occupancy = Occupancy {
        executor: true,
        run: true,
        admitted: true,
        preparing: false,
        closing: false,
        unconfirmed: false,
        idle_since: None,
        waits: false,
    };
    const CLOSING: Occupancy = Occupancy {
        run: false,
        admitted: false,
        closing: true,
        ..RUNNING
    };
    const WAITING: Occupancy = Occupancy {
        executor: false,
        run: false,
        waits: true,
        ..RUNNING
    };

    fn seats() -> Seats {
        Seats::new(Capacity {
            runs: 2,
            executors: 2,
            preparing: 2,
        })
    }

    // RP-10.13: the one that has been idle longest goes, one for each that waits.
    #[tokio::test]
    async fn the_longest_idle_executor_makes_room() {
        let seats = seats();
        let now = Instant::now();
        let [mut old, mut new, mut first, mut second, third] =
            std::array::from_fn(|_| Guest::enter(&seats));
        assert_eq!(seats.claim(old.id), Claim::Granted);
        seats.occupy(old.id, idle(now));
        seats.occupy(new.id, idle(now + Duration::from_secs(1)));

        assert_eq!(seats.claim(first.id), Claim::Wait);
        seats.occupy(first.id, WAITING);
        assert!(matches!(old.told(), Some(Order::MakeRoom)) && new.told().is_none());
        assert_eq!(seats.claim(second.id), Claim::Wait);
        seats.occupy(second.id, WAITING);
        assert!(matches!(new.told(), Some(Order::MakeRoom)) && old.told().is_none());
        assert_eq!(seats.claim(third.id), Claim::Full, "nobody else is idle");

        seats.occupy(old.id, CLOSING);
        assert!(first.told().is_none(), "it still holds its seat");
        seats.occupy(old.id, Occupancy::default());
        assert!(matches!(first.told(), Some(Order::Room)));
        assert!(matches!(second.told(), Some(Order::Room)));
        assert_eq!(seats.claim(first.id), Claim::Granted);
        assert_eq!(seats.claim(second.id), Claim::Wait);
    }

    // Room that comes right after the claim, before the Session has told that it waits, is not missed.
    #[tokio::test]
    async fn room_that_comes_at_once_wakes_who_has_just_asked() {
        let seats = seats();
        let [leaver, worker, idler, mut first, mut second] =
            std::array::from_fn(|_| Guest::enter(&seats));
        seats.occupy(worker.id, RUNNING);
        seats.occupy(leaver.id, CLOSING);
        assert_eq!(seats.claim(first.id), Claim::Wait);
        seats.occupy(leaver.id, Occupancy::default());
        assert!(matches!(first.told(), Some(Order::Room)));
        assert_eq!(seats.claim(first.id), Claim::Granted);

        seats.occupy(first.id, Occupancy::default());
        seats.occupy(idler.id, idle(Instant::now()));
        assert_eq!(seats.claim(second.id), Claim::Wait);
        seats.occupy(idler.id, Occupancy::default());
        assert!(matches!(second.told(), Some(Order::Room)));
        assert_eq!(seats.claim(second.id), Claim::Granted);
    }

    // RP-10.10, SC-4.6: the place of a Run is decided at its admission, whatever the admission waits for.
    #[tokio::test]
    async fn an_admission_has_the_place_of_its_run() {
        let seats = seats();
        let [one, two, three] = std::array::from_fn(|_| Guest::enter(&seats));
        assert!(seats.admit(one.id) && seats.admit(two.id));
        assert!(
            !seats.admit(three.id),
            "both are taken before anything runs"
        );
        assert!(seats.admit(one.id), "its own is no other's");
        seats.occupy(one.id, RUNNING);
        assert!(!seats.admit(three.id));
        // Its Run is closed with its Executor, and is not gone yet.
        let closed_at_work = Occupancy {
            admitted: true,
            ..CLOSING
        };
        seats.occupy(one.id, closed_at_work);
        assert!(!seats.admit(three.id));
        seats.occupy(one.id, Occupancy::default());
        assert!(seats.admit(three.id));
        seats.leave(two.id);
        assert!(seats.admit(one.id));
    }

    // One that takes work before it is asked stays, and who waited for it asks anew.
    #[tokio::test]
    async fn an_executor_that_works_again_or_never_ends_makes_no_room() {
        for end in [
            RUNNING,
            Occupancy {
                unconfirmed: true,
                ..CLOSING
            },
        ] {
            let seats = seats();
            let [idler, worker, mut waiter] = std::array::from_fn(|_| Guest::enter(&seats));
            seats.occupy(idler.id, idle(Instant::now()));
            seats.occupy(worker.id, RUNNING);
            assert_eq!(seats.claim(waiter.id), Claim::Wait);
            seats.occupy(waiter.id, WAITING);
            if end.unconfirmed {
                seats.occupy(idler.id, CLOSING);
            }
            seats.occupy(idler.id, end);
            assert!(matches!(waiter.told(), Some(Order::Room)), "{end:?}");
            assert_eq!(seats.claim(waiter.id), Claim::Full, "{end:?}");
        }
    }
}
