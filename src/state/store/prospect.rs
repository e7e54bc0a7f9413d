//! The name that a change would get now, and what its person may do. Replies are composed from it before the transaction
//! that stores both; that transaction only compares and stores. So the thread that writes never splits or measures a
//! reply for a platform.

use super::change::{self, ChangeState, NewRevision, OpenChange};
use super::people::{self, GrantRow};
use super::{NewChange, NumberedChange, Store, StoreError};
use crate::base::model::{Change, ChangeNumber, ConversationId, UserId};
use jiff::Timestamp;
use rusqlite::Transaction;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The stored facts about a conversation that a reply is composed from: the grants of its person and its open change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeBasis {
    user: UserId,
    grants: Option<Vec<GrantRow>>,
    state: ChangeState,
}

/// The result of a write whose replies were composed from a [`ChangeBasis`].
#[derive(Debug, PartialEq, Eq)]
pub enum ComposedWrite<T> {
    /// Everything is stored.
    Stored(T),
    /// Nothing is stored, because the facts differ by now. The caller composes the replies again from these.
    Outdated(ChangeBasis),
}

/// A change as it would be stored now, if the current grants of its person cover it.
#[derive(Debug)]
pub struct ProspectiveChange {
    basis: ChangeBasis,
    revision: Option<NewRevision>,
    closes: Option<String>,
    reserved: Option<ReservedNumber>,
    is_stored: bool,
}

/// The numbers of changes that are named in composed replies but are not stored yet.
#[derive(Debug)]
pub(super) struct ReservedNumbers(Mutex<Numbers>);

#[derive(Debug)]
struct Numbers {
    /// The lowest number above all stored ones.
    next: i64,
    reserved: BTreeSet<i64>,
}

/// A number that no other reservation has. It becomes free when this value is dropped, unless a change has it.
#[derive(Debug)]
pub(super) struct ReservedNumber {
    number: ChangeNumber,
    is_used: bool,
    reserved: Arc<ReservedNumbers>,
}

impl ReservedNumbers {
    /// Creates the numbers for a database whose next change is `next`.
    pub(super) fn starting_at(next: ChangeNumber) -> Self {
        Self(Mutex::new(Numbers {
            next: next.0,
            reserved: BTreeSet::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves the lowest number above all stored ones that is not reserved.
    fn reserve(self: &Arc<Self>) -> ReservedNumber {
        let mut numbers = self.lock();
        let mut number = numbers.next;
        while !numbers.reserved.insert(number) {
            number += 1;
        }
        ReservedNumber {
            number: ChangeNumber(number),
            is_used: false,
            reserved: Arc::clone(self),
        }
    }
}

impl Drop for ReservedNumber {
    fn drop(&mut self) {
        let mut numbers = self.reserved.lock();
        numbers.reserved.remove(&self.number.0);
        if self.is_used {
            numbers.next = numbers.next.max(self.number.0 + 1);
        }
    }
}

impl Store {
    /// Reads what a reply about the change of a conversation is composed from.
    pub async fn change_basis(&self, id: ConversationId, user: UserId) -> Result<ChangeBasis, StoreError> {
        self.read(move |tx| ChangeBasis::read(tx, id, user)).await
    }

    /// Returns a change as it would be stored while `basis` holds; `None` stands for a workspace that equals its base. A
    /// new change gets a number that no other prospective change has. The number is free again if it is not stored.
    pub fn prospective_change(&self, basis: ChangeBasis, change: Option<NewChange>) -> ProspectiveChange {
        let open = basis.state.open.as_ref();
        let closes = open.map(OpenChange::name);
        let (revision, reserved) = match (change, open) {
            (None, _) => (None, None),
            (Some(change), Some(open)) => (Some(basis.state.revision_of(open, change)), None),
            (Some(change), None) => {
                let reserved = self.inner.reserved_numbers.reserve();
                (Some(NewRevision::first(change, reserved.number)), Some(reserved))
            }
        };
        ProspectiveChange {
            basis,
            revision,
            closes,
            reserved,
            is_stored: false,
        }
    }
}

impl ProspectiveChange {
    /// Returns the current grants of the person, or `None` after revocation.
    pub fn grants(&self) -> Option<&[GrantRow]> {
        self.basis.grants.as_deref()
    }

    /// Returns the change with the name under which it would be stored.
    pub fn change(&self) -> Option<&NumberedChange> {
        self.revision.as_ref().map(|revision| &revision.numbered)
    }

    /// Returns the name of the open change, which is closed if there is no change any more.
    pub fn closes(&self) -> Option<&str> {
        self.closes.as_deref()
    }

    /// Compares with the stored facts. Returns those if they differ, or if the reserved number is used by now.
    pub(super) fn outdated_by(
        &mut self,
        tx: &Transaction<'_>,
        id: ConversationId,
    ) -> Result<Option<ChangeBasis>, StoreError> {
        let stored = ChangeBasis::read(tx, id, self.basis.user)?;
        if let Some(reserved) = &mut self.reserved
            && !change::is_free(tx, reserved.number)?
        {
            reserved.is_used = true;
            return Ok(Some(stored));
        }
        Ok((stored != self.basis).then_some(stored))
    }

    /// Stores the change in a transaction in which it is not outdated. Until the commit this value must live, so that no
    /// other change gets its number; then [`Self::committed`] ends the reservation.
    pub(super) fn store(
        &mut self,
        tx: &Transaction<'_>,
        id: ConversationId,
        at: Timestamp,
    ) -> Result<Option<&Change>, StoreError> {
        let Some(revision) = &self.revision else {
            return Ok(None);
        };
        revision.store(tx, id, at)?;
        self.is_stored = true;
        Ok(Some(&revision.numbered.change))
    }

    /// Ends the reservation after a commit. The number of a stored change is never reserved again.
    pub(super) fn committed(mut self) {
        let is_stored = self.is_stored;
        if let Some(reserved) = self.reserved.as_mut().filter(|_| is_stored) {
            reserved.is_used = true;
        }
    }
}

impl ChangeBasis {
    /// Reads the facts that are stored now.
    pub(super) fn read(tx: &Transaction<'_>, id: ConversationId, user: UserId) -> Result<Self, StoreError> {
        Ok(Self {
            user,
            grants: people::current_grants(tx, user)?,
            state: ChangeState::read(tx, id)?,
        })
    }
}
