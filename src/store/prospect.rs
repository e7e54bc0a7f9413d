//! The name that a change would get now, and what its person may do. Replies are composed from it before the transaction
//! that stores both; that transaction only compares and stores. So the thread that writes never renders a reply.

use super::change::{self, ChangeState, OpenChange};
use super::people::{self, GrantRow};
use super::{NewChange, NumberedChange, Store, StoreError};
use crate::model::{ChangeNumber, ConversationId, UserId};
use rusqlite::Transaction;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// A change as it would be stored now, if the current grants of its person cover it.
#[derive(Debug)]
pub struct ProspectiveChange {
    basis: ChangeBasis,
    change: Option<NumberedChange>,
    closes: Option<String>,
    reserved: Option<ReservedNumber>,
}

/// The stored facts that a prospective change was read from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChangeBasis {
    user: UserId,
    grants: Option<Vec<GrantRow>>,
    state: ChangeState,
}

/// The numbers of changes that are named in composed replies but are not stored yet.
#[derive(Debug, Default)]
pub(super) struct ReservedNumbers(Mutex<BTreeSet<i64>>);

/// A number that no other reservation has. It becomes free when this value is dropped.
#[derive(Debug)]
pub(super) struct ReservedNumber {
    pub(super) number: ChangeNumber,
    reserved: Arc<ReservedNumbers>,
}

impl ReservedNumbers {
    /// Reserves the lowest number above all stored ones that is not reserved. It may be stored in the meantime, because
    /// the snapshot of `tx` may be old; [`change::is_free`] must be checked in the transaction that stores the change.
    pub(super) fn reserve(self: &Arc<Self>, tx: &Transaction<'_>) -> Result<ReservedNumber, StoreError> {
        let ChangeNumber(mut number) = change::next_number(tx)?;
        let mut reserved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !reserved.insert(number) {
            number += 1;
        }
        Ok(ReservedNumber {
            number: ChangeNumber(number),
            reserved: Arc::clone(self),
        })
    }
}

impl Drop for ReservedNumber {
    fn drop(&mut self) {
        let mut reserved = self.reserved.0.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.remove(&self.number.0);
    }
}

impl Store {
    /// Reads how a change of a conversation would be stored now; `None` if the workspace equals its base. A new change
    /// gets a number that no other prospective change has. The number is free again if it is not stored.
    pub async fn prospective_change(
        &self,
        id: ConversationId,
        user: UserId,
        change: Option<NewChange>,
    ) -> Result<ProspectiveChange, StoreError> {
        let reserved_numbers = Arc::clone(&self.inner.reserved_numbers);
        self.read(move |tx| {
            let basis = ChangeBasis::read(tx, id, user)?;
            let state = &basis.state;
            let (change, reserved) = match (change, &state.open) {
                (None, _) => (None, None),
                (Some(change), Some(open)) => (Some(state.revision_of(open, change)), None),
                (Some(change), None) => {
                    let reserved = reserved_numbers.reserve(tx)?;
                    (
                        Some(change::first_revision(change, reserved.number)),
                        Some(reserved),
                    )
                }
            };
            let closes = state.open.as_ref().map(OpenChange::name);
            Ok(ProspectiveChange {
                basis,
                change,
                closes,
                reserved,
            })
        })
        .await
    }
}

impl ProspectiveChange {
    /// Returns the current grants of the person, or `None` after revocation.
    pub fn grants(&self) -> Option<&[GrantRow]> {
        self.basis.grants.as_deref()
    }

    /// Returns the change with the name under which it would be stored.
    pub fn change(&self) -> Option<&NumberedChange> {
        self.change.as_ref()
    }

    /// Returns the name of the open change, which is closed if there is no change any more.
    pub fn closes(&self) -> Option<&str> {
        self.closes.as_deref()
    }

    pub(super) fn into_basis(self) -> (ChangeBasis, Option<ReservedNumber>) {
        (self.basis, self.reserved)
    }
}

impl ChangeBasis {
    fn read(tx: &Transaction<'_>, id: ConversationId, user: UserId) -> Result<Self, StoreError> {
        Ok(Self {
            user,
            grants: people::current_grants(tx, user)?,
            state: ChangeState::read(tx, id)?,
        })
    }

    /// True if the stored facts are still the same, and no change has the reserved number.
    pub(super) fn holds(
        &self,
        tx: &Transaction<'_>,
        id: ConversationId,
        reserved: Option<ChangeNumber>,
    ) -> Result<bool, StoreError> {
        let is_free = reserved.map_or(Ok(true), |number| change::is_free(tx, number))?;
        Ok(is_free && *self == Self::read(tx, id, self.user)?)
    }
}
