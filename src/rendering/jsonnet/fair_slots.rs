//! Slots for work that people share fairly: the person with the fewest slots comes first, and a person without a slot
//! never waits for a person with many.

use super::budget::Tenant;
use futures_util::FutureExt as _;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use tokio::sync::oneshot;

/// The interval at which a waiting thread checks if it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A number of concurrent slots. One person may use all of them while no other person waits. A person without a slot
/// gets one beyond the limit, up to twice the limit in total, so an endless program of one person delays no other
/// person.
#[derive(Clone, Debug)]
pub struct FairSlots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    slots_max: usize,
    // The lock is held briefly, never across an `.await`.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: HashMap<Tenant, usize>,
    total: usize,
    /// The waiting requests, in the order of arrival.
    waiting: VecDeque<SlotRequest>,
}

#[derive(Debug)]
struct SlotRequest {
    tenant: Tenant,
    urgency: Urgency,
    reply: oneshot::Sender<FairSlot>,
}

/// The urgency of a request for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// One program whose result a caller waits for.
    Single,
    /// Programs of a batch in sequence.
    Batch,
}

/// A slot. Dropping it frees the slot.
#[derive(Debug)]
pub struct FairSlot {
    shared: Arc<Shared>,
    tenant: Tenant,
}

impl FairSlots {
    /// Creates `places_max` slots.
    pub fn new(places_max: usize) -> Self {
        Self(Arc::new(Shared {
            slots_max: places_max,
            state: Mutex::default(),
        }))
    }

    /// Waits for a slot. A cancelled request is skipped.
    pub async fn take(&self, key: Tenant, urgency: Urgency) -> FairSlot {
        loop {
            let (reply, place) = oneshot::channel();
            self.0.change(|state| {
                state.waiting.push_back(SlotRequest {
                    tenant: key,
                    urgency,
                    reply,
                })
            });
            // The sender is kept until it sends, so this does not fail.
            if let Ok(place) = place.await {
                return place;
            }
        }
    }

    /// Waits for a slot on a thread that may block; `None` if it was stopped in the meantime.
    pub(super) fn wait(&self, key: Tenant, urgency: Urgency, stopped: &dyn Fn() -> bool) -> Option<FairSlot> {
        let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
        let mut place = Box::pin(self.take(key, urgency));
        loop {
            match place.poll_unpin(&mut Context::from_waker(&waker)) {
                Poll::Ready(place) => return Some(place),
                Poll::Pending if stopped() => return None,
                Poll::Pending => std::thread::park_timeout(POLL_INTERVAL),
            }
        }
    }

    /// Returns a slot if one is free and no request waits.
    pub(super) fn try_take(&self, key: Tenant) -> Option<FairSlot> {
        let mut state = self.0.lock();
        state.drop_cancelled();
        (state.total < self.0.slots_max && state.waiting.is_empty()).then(|| state.grant(&self.0, key))
    }
}

/// A waker that unparks a waiting thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl FairSlot {
    /// True if a person with fewer slots waits, or if more slots are taken than the limit and this is not the only slot
    /// of its person. The holder should then release this slot and request another one. Background requests do not
    /// count.
    pub(super) fn should_yield(&self) -> bool {
        let mut state = self.shared.lock();
        state.drop_cancelled();
        let own = state.held_by(self.tenant);
        let has_fewer = |waiting: &SlotRequest| {
            waiting.tenant != self.tenant
                && waiting.tenant != Tenant::Background
                && state.held_by(waiting.tenant) < own
        };
        state.waiting.iter().any(has_fewer) || (state.total > self.shared.slots_max && own > 1)
    }
}

impl Drop for FairSlot {
    fn drop(&mut self) {
        let key = self.tenant;
        self.shared.change(|state| state.release(key));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a change to the state, then grants the free slots.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.drop_cancelled();
        let mut given = Vec::new();
        while let Some(next) = state.next(self.slots_max)
            && let Some(waiting) = state.waiting.remove(next)
        {
            given.push((waiting.reply, state.grant(self, waiting.tenant)));
        }
        drop(state);
        for (reply, place) in given {
            // If the receiver was cancelled in the meantime, the slot is dropped, which frees it.
            drop(reply.send(place));
        }
    }
}

impl State {
    fn held_by(&self, key: Tenant) -> usize {
        self.taken.get(&key).copied().unwrap_or_default()
    }

    fn grant(&mut self, shared: &Arc<Shared>, key: Tenant) -> FairSlot {
        *self.taken.entry(key).or_default() += 1;
        self.total += 1;
        FairSlot {
            shared: Arc::clone(shared),
            tenant: key,
        }
    }

    fn release(&mut self, key: Tenant) {
        self.total = self.total.saturating_sub(1);
        if let Some(count) = self.taken.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.taken.remove(&key);
            }
        }
    }

    fn drop_cancelled(&mut self) {
        self.waiting.retain(|waiting| !waiting.reply.is_closed());
    }

    /// Returns the index of the request that gets the next slot: the person with the fewest slots comes first, then a
    /// request for a single program, then the oldest request. Background requests come last, so they never precede a
    /// person.
    fn next(&self, places_max: usize) -> Option<usize> {
        let rank = |(_, waiting): &(usize, &SlotRequest)| {
            (
                waiting.tenant == Tenant::Background,
                self.held_by(waiting.tenant),
                waiting.urgency,
            )
        };
        let (next, waiting) = self.waiting.iter().enumerate().min_by_key(rank)?;
        let is_first = self.held_by(waiting.tenant) == 0 && waiting.tenant != Tenant::Background;
        (self.total < places_max || (is_first && self.total < 2 * places_max)).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{FairSlot, FairSlots, Tenant, Urgency};
    use crate::base::model::UserId;
    use futures_util::FutureExt as _;

    const ALICE: Tenant = Tenant::Person(UserId(1));
    const BOB: Tenant = Tenant::Person(UserId(2));

    fn now(places: &FairSlots, key: Tenant) -> Option<FairSlot> {
        places.take(key, Urgency::Batch).now_or_never()
    }

    #[test]
    fn one_person_alone_gets_all_slots() {
        let places = FairSlots::new(2);
        let taken = [now(&places, ALICE), now(&places, ALICE)].map(Option::unwrap);
        assert!(now(&places, ALICE).is_none() && places.try_take(ALICE).is_none());
        assert!(!taken[0].should_yield());
        drop(taken);
        assert!(places.try_take(ALICE).is_some());
    }

    #[test]
    fn a_person_without_a_slot_gets_one_at_once_and_a_holder_of_many_is_asked_for_one() {
        let places = FairSlots::new(2);
        let alice = [now(&places, ALICE), now(&places, ALICE)].map(Option::unwrap);
        let mut waits = Box::pin(places.take(ALICE, Urgency::Single));
        assert!((&mut waits).now_or_never().is_none());
        let bob = now(&places, BOB).unwrap();
        assert!(now(&places, BOB).is_none(), "a second one beyond all others");
        assert!(alice[0].should_yield() && !bob.should_yield());
        let [one, other] = alice;
        // Alice does not get a released slot back while more slots are taken than the limit.
        drop(one);
        assert!((&mut waits).now_or_never().is_none());
        drop(other);
        assert!((&mut waits).now_or_never().is_some());
    }

    #[test]
    fn slots_go_to_people_in_turn_and_to_single_programs_before_batches() {
        let places = FairSlots::new(1);
        let first = now(&places, ALICE).unwrap();
        let second = now(&places, BOB).unwrap();
        let mut batch = Box::pin(places.take(ALICE, Urgency::Batch));
        let mut one = Box::pin(places.take(ALICE, Urgency::Single));
        let mut gone = Box::pin(places.take(BOB, Urgency::Single));
        for waits in [&mut batch, &mut one, &mut gone] {
            assert!(waits.now_or_never().is_none());
        }
        drop(gone);
        drop(second);
        assert!((&mut one).now_or_never().is_none());
        drop(first);
        let one = (&mut one).now_or_never().unwrap();
        assert!((&mut batch).now_or_never().is_none());
        drop(one);
        assert!((&mut batch).now_or_never().is_some());
    }

    #[test]
    fn background_work_gets_no_slot_beyond_the_limit() {
        let places = FairSlots::new(1);
        let alice = now(&places, ALICE).unwrap();
        assert!(now(&places, Tenant::Background).is_none());
        drop(alice);
        assert!(now(&places, Tenant::Background).is_some());
    }

    /// Checks that a background request stays behind requests of people even if it is older, and takes no slot from
    /// them.
    #[test]
    fn background_work_queues_behind_every_person() {
        let places = FairSlots::new(1);
        let alice = now(&places, ALICE).unwrap();
        let mut background = Box::pin(places.take(Tenant::Background, Urgency::Single));
        assert!((&mut background).now_or_never().is_none());
        assert!(!alice.should_yield());
        let bob = now(&places, BOB).unwrap();
        let mut again = Box::pin(places.take(BOB, Urgency::Batch));
        assert!((&mut again).now_or_never().is_none());
        drop(alice);
        assert!((&mut background).now_or_never().is_none());
        drop(bob);
        assert!((&mut again).now_or_never().is_some());
        assert!((&mut background).now_or_never().is_some());
    }

    /// T54
    #[test]
    fn a_thread_waits_for_its_turn_until_it_is_stopped() {
        let places = FairSlots::new(1);
        let alice = now(&places, ALICE).unwrap();
        assert!(places.wait(ALICE, Urgency::Single, &|| true).is_none());
        let bob = places.wait(BOB, Urgency::Single, &|| true).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| places.wait(ALICE, Urgency::Single, &|| false).is_some());
            drop(bob);
            drop(alice);
            assert!(waits.join().unwrap());
        });
    }

    /// Checks that a slot granted to a cancelled request is freed.
    #[test]
    fn a_slot_granted_to_an_abandoned_waiter_is_returned() {
        let places = FairSlots::new(1);
        for _ in 0..100 {
            let alice = now(&places, ALICE).unwrap();
            let mut waits = Box::pin(places.take(ALICE, Urgency::Single));
            assert!((&mut waits).now_or_never().is_none());
            drop(alice);
            drop(waits);
        }
        assert!(places.try_take(BOB).is_some());
    }
}
