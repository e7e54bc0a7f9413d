//! The runs that a person may see, whatever the door.

use crate::state::access::{Access, Identity};
use crate::state::store::RunHead;

/// True for a run of this person, with any of their accounts.
pub(in crate::engine::gateway) fn is_own(access: &Access, identity: &Identity, head: &RunHead) -> bool {
    let owner = access.admit(&head.owner);
    owner.is_some_and(|owner| owner.user() == identity.user())
}

/// True for a run that a person may see: their own, or one of a service, in a repository that they may read.
pub(in crate::engine::gateway) fn may_see(access: &Access, identity: &Identity, head: &RunHead) -> bool {
    let is_of_service = head.owner.platform.chat().is_none();
    identity.role(&head.repository).is_some() && (is_of_service || is_own(access, identity, head))
}
