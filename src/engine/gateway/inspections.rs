//! Running inspections of environments and of pipelines: their stop tokens and their limits.

use crate::base::model::{ConversationId, UserId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Maximum number of inspections at once. It is half of the limit for commands, so that `stop` and `status` always have
/// room.
const AT_ONCE_MAX: usize = 32;
/// Maximum number of inspections of one person, so that others find room.
const OF_ONE_PERSON_MAX: usize = 4;

/// The running inspections. The lock is held only briefly and never across an await.
#[derive(Clone, Debug, Default)]
pub(super) struct Inspections {
    running: Arc<Mutex<RunningInspections>>,
}

#[derive(Debug, Default)]
struct RunningInspections {
    begun: u64,
    all: HashMap<u64, RunningInspection>,
}

#[derive(Debug)]
struct RunningInspection {
    conversation: ConversationId,
    user: UserId,
    stop: CancellationToken,
}

/// A running inspection. Dropping it frees its place and cancels its work.
#[derive(Debug)]
pub(super) struct Inspection {
    inspections: Inspections,
    number: u64,
    /// Fires when the person stops it.
    pub(super) stop: CancellationToken,
}

impl Drop for Inspection {
    fn drop(&mut self) {
        self.stop.cancel();
        self.inspections.lock().all.remove(&self.number);
    }
}

impl Inspections {
    /// Begins an inspection. Returns `None` if this person, or all people together, have too many.
    pub(super) fn begin(&self, conversation: ConversationId, user: UserId) -> Option<Inspection> {
        let mut running = self.lock();
        let of_person = running.all.values().filter(|entry| entry.user == user).count();
        if running.all.len() >= AT_ONCE_MAX || of_person >= OF_ONE_PERSON_MAX {
            return None;
        }
        running.begun += 1;
        let (number, stop) = (running.begun, CancellationToken::new());
        let entry = RunningInspection {
            conversation,
            user,
            stop: stop.clone(),
        };
        running.all.insert(number, entry);
        drop(running);
        Some(Inspection {
            inspections: self.clone(),
            number,
            stop,
        })
    }

    /// True while an inspection of the conversation runs.
    pub(super) fn is_any(&self, conversation: ConversationId) -> bool {
        let running = self.lock();
        running
            .all
            .values()
            .any(|entry| entry.conversation == conversation)
    }

    /// Stops all inspections of a conversation. Returns false if there are none.
    pub(super) fn stop(&self, conversation: ConversationId) -> bool {
        let running = self.lock();
        let mut stopped = false;
        for entry in running.all.values() {
            if entry.conversation == conversation {
                entry.stop.cancel();
                stopped = true;
            }
        }
        stopped
    }

    fn lock(&self) -> MutexGuard<'_, RunningInspections> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{AT_ONCE_MAX, Inspections, OF_ONE_PERSON_MAX};
    use crate::base::model::{ConversationId, UserId};

    #[test]
    fn one_person_cannot_use_all_query_slots_and_a_finished_query_frees_one() {
        let inspections = Inspections::default();
        let begin = |user| inspections.begin(ConversationId(1), UserId(user));
        let mut mine: Vec<_> = (0..OF_ONE_PERSON_MAX).filter_map(|_| begin(1)).collect();
        assert_eq!(mine.len(), OF_ONE_PERSON_MAX);
        assert!(begin(1).is_none());
        let others: Vec<_> = (2..100).filter_map(begin).collect();
        assert_eq!(others.len(), AT_ONCE_MAX - OF_ONE_PERSON_MAX);
        mine.clear();
        assert!(begin(1).is_some());
    }

    #[test]
    fn a_stop_reaches_its_conversation_only() {
        let inspections = Inspections::default();
        let begin = |conversation| inspections.begin(ConversationId(conversation), UserId(1));
        let (one, two) = (begin(1), begin(2));
        assert!(inspections.stop(ConversationId(1)));
        let is_stopped = |inspection: &Option<super::Inspection>| {
            inspection
                .as_ref()
                .is_some_and(|inspection| inspection.stop.is_cancelled())
        };
        assert!(is_stopped(&one) && !is_stopped(&two));
        drop(one);
        assert!(!inspections.is_any(ConversationId(1)) && inspections.is_any(ConversationId(2)));
        assert!(!inspections.stop(ConversationId(1)));
    }
}
