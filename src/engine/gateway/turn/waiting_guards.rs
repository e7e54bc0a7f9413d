//! The guards of turns that wait for an answer. The answer is stored like other messages of its turn, also without secrets
//! of files that the turn has read. They are lost with the process, and beyond a number of conversations. Then the answer is
//! stored without the secrets of the server, and is redacted for those of edited files when the turn goes on.

use crate::base::model::ConversationId;
use crate::state::workspace::SecretGuard;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Maximum number of guards. Further ones replace those of the oldest conversations.
const GUARDS_MAX: usize = 64;

/// The guards, by conversation.
#[derive(Debug, Default)]
pub(in crate::engine::gateway) struct WaitingGuards(Mutex<BTreeMap<ConversationId, SecretGuard>>);

impl WaitingGuards {
    /// Keeps the guard of a turn that waits.
    pub(super) fn keep(&self, id: ConversationId, guard: SecretGuard) {
        let mut guards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if guards.len() >= GUARDS_MAX && !guards.contains_key(&id) {
            guards.pop_first();
        }
        guards.insert(id, guard);
    }

    /// Returns the guard of a turn that waits.
    pub(super) fn get(&self, id: ConversationId) -> Option<SecretGuard> {
        let guards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        guards.get(&id).cloned()
    }

    /// Takes the guard of a turn that goes on.
    pub(super) fn take(&self, id: ConversationId) -> Option<SecretGuard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }
}
