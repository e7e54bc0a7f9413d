//! The requests of programs that take long, counted for each person, so that one of them leaves room for others.

use crate::base::model::UserId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The places for requests of one kind. The lock is held only briefly and never across an await.
#[derive(Clone, Debug)]
pub(super) struct ApiPlaces {
    taken: Arc<Mutex<BTreeMap<UserId, usize>>>,
    of_person_max: usize,
    all_max: usize,
}

/// A taken place. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct ApiPlace {
    places: ApiPlaces,
    user: UserId,
}

impl ApiPlaces {
    pub(super) fn new(of_person_max: usize, all_max: usize) -> Self {
        Self {
            taken: Arc::default(),
            of_person_max,
            all_max,
        }
    }

    /// Takes a place. Returns `None` if this person, or all people together, have too many.
    pub(super) fn take(&self, user: UserId) -> Option<ApiPlace> {
        let mut taken = self.lock();
        let all: usize = taken.values().sum();
        let own = taken.get(&user).copied().unwrap_or_default();
        if all >= self.all_max || own >= self.of_person_max {
            return None;
        }
        taken.insert(user, own + 1);
        drop(taken);
        Some(ApiPlace {
            places: self.clone(),
            user,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<UserId, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ApiPlace {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        match taken.get_mut(&self.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                taken.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ApiPlaces;
    use crate::base::model::UserId;

    #[test]
    fn one_person_leaves_places_for_others_and_an_ended_request_gives_its_place_back() {
        let places = ApiPlaces::new(2, 3);
        let take = |user| places.take(UserId(user));
        let mut mine = vec![take(1), take(1)];
        assert!(mine.iter().all(Option::is_some) && take(1).is_none());
        let other = take(2);
        assert!(other.is_some() && take(3).is_none());
        mine.pop();
        assert!(take(3).is_some());
        assert!(take(1).is_some());
        drop((mine, other));
        assert_eq!(places.lock().len(), 0);
    }
}
