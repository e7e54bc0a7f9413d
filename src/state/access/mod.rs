//! Admission and authorization. Only this module can create an [`Identity`], and every model request needs one.

mod admission;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod fixture;
mod identity;
mod invite;
mod login;
mod people;
mod service;
mod token;
mod unknown_sender;
#[cfg(test)]
pub(crate) mod testing;

pub use crate::base::model::Role;
pub use crate::state::store::people::AuditorRight;
pub use admission::{Admitter, NewPerson, account_of};
pub use identity::{Grant, Identity};
pub use invite::{InviteToken, JoinOutcome, NewInvite, check_name};
pub use login::{BegunLogin, LoginOutcome};
pub use people::{User, check_glob, matches_glob};
pub use token::{
    NewToken, PersonalToken, TokenError, TokenHolder, TokenScope, TokenState, check_token_name, token_hours,
};
pub use unknown_sender::DenialNotice;

use crate::base::config::LimitSettings;
use crate::base::model::{Platform, Sender, UserId, quoted};
use crate::state::store::people::PersonRow;
use crate::state::store::{Store, StoreError};
use identity::CurrentGrants;
use invite::JoinAttempts;
use login::CodeAttempts;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use unknown_sender::UnknownSenders;

/// Longest name of a person, in characters.
const NAME_CHARS_MAX: usize = 100;

/// An error of granting, changing or looking up access.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The store failed; nothing changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The name is empty or cannot be shown on one line.
    #[error(
        "a name must have 1 to {NAME_CHARS_MAX} printable characters and must not begin or end with a blank one"
    )]
    Name,
    /// A glob of the grant does not compile.
    #[error("`{0}` is not a glob; use one such as `*`, `infra-*` or `environments/dev`")]
    Glob(String),
    /// A glob of the grant is empty.
    #[error(
        "an empty glob grants nothing; use one such as `*`, `infra-*` or `environments/dev`, or leave it out"
    )]
    EmptyGlob,
    /// The user does not exist.
    #[error("no user `{0}`; `drydock user list` shows all")]
    Unknown(String),
    /// More than one user has this name.
    #[error("{} users have the name `{name}`; use one of the ids {}", .ids.len(), shown(.ids))]
    Ambiguous {
        /// The name.
        name: String,
        /// The ids of these users.
        ids: Vec<UserId>,
    },
    /// The user was revoked.
    #[error("`{0}` was revoked")]
    Revoked(String),
    /// The user is a service identity, whose rights are those of its section.
    #[error(
        "`{name}` has only the rights of its section [{section}] of drydock.toml; change its grants there, and start the server again"
    )]
    OfSection {
        /// The name of the identity.
        name: String,
        /// The section, such as `hooks.release`.
        section: String,
    },
    /// The text is not an account id of a chat platform.
    #[error("{} is not the ID of an account; Drydock sends the ID to each unknown sender, such as {}", quoted(.0), sender_examples())]
    InvalidAccount(String),
    /// The account is already admitted.
    #[error("`{account}` already belongs to {}; `drydock user grant` changes the grant", quoted(.name))]
    AlreadyAdmitted {
        /// The account.
        account: Sender,
        /// The name of its user.
        name: String,
    },
    /// The account belongs to a user whose access was revoked.
    #[error(
        "`{account}` belongs to {}, whose access was revoked; only the operator of this server can admit them again, with `drydock user add` or `drydock invite`",
        quoted(.name)
    )]
    AccessWasRevoked {
        /// The account.
        account: Sender,
        /// The name of that user.
        name: String,
    },
    /// The name has another meaning in lists and in the audit log.
    #[error("{} cannot be a name, because it has another meaning in lists and in the audit log; choose another one", quoted(.0))]
    ReservedName(String),
    /// The account belongs to an unknown workspace or bot.
    #[error(
        "`{0}` belongs to no workspace or bot that is or was connected; copy the whole ID that the person received"
    )]
    NotConnected(Sender),
    /// The administrator does not administer these repositories.
    #[error("you are not an administrator of all of {}; name your repositories with `--repo`", quoted(.0))]
    NotAdministered(String),
}

fn shown(ids: &[UserId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}

type IdentityCache = Arc<RwLock<HashMap<Sender, Identity>>>;

/// The admitted people, cached in memory and kept in sync with the store. Clones share the cache.
#[derive(Clone)]
pub struct Access {
    store: Store,
    admitted: IdentityCache,
    unknown_senders: Arc<Mutex<UnknownSenders>>,
    attempts: Arc<Mutex<JoinAttempts>>,
    code_attempts: Arc<CodeAttempts>,
}

impl Access {
    /// Loads all admitted people.
    pub async fn load(store: Store, limits: &LimitSettings) -> Result<Self, AccessError> {
        let access = Self {
            store,
            admitted: IdentityCache::default(),
            unknown_senders: Arc::new(Mutex::new(UnknownSenders::new(limits.strangers_remembered_max))),
            attempts: Arc::new(Mutex::new(JoinAttempts::new(
                limits.invite_attempts_per_minute_max,
                limits.strangers_remembered_max,
            ))),
            code_attempts: Arc::default(),
        };
        access.refresh().await?;
        Ok(access)
    }

    /// Reloads all admitted people. Changes by other processes take effect after this call.
    pub async fn refresh(&self) -> Result<(), AccessError> {
        let admitted = Arc::clone(&self.admitted);
        // This read goes through the writer, so that its result cannot overwrite a newer write of this process.
        self.store
            .write_then(crate::state::store::people::people, move |people| {
                let mut admitted = admitted.write().unwrap_or_else(PoisonError::into_inner);
                let known: HashSet<UserId> = people.iter().map(|person| person.id).collect();
                admitted.retain(|_, identity| {
                    let is_known = known.contains(&identity.user());
                    if !is_known {
                        identity.current_grants().revoke();
                    }
                    is_known
                });
                put_in(&mut admitted, people);
            })
            .await?;
        Ok(())
    }

    /// Returns the identity of a sender who is currently admitted.
    pub fn admit(&self, sender: &Sender) -> Option<Identity> {
        self.admitted
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(sender)
            .cloned()
    }

    /// Returns the accounts of the admitted people with exactly this name, in a fixed order. A name may be that of several.
    pub fn named(&self, name: &str) -> Vec<Identity> {
        let admitted = self.admitted.read().unwrap_or_else(PoisonError::into_inner);
        let is_meant =
            |identity: &&Identity| identity.name() == name && identity.sender().platform.chat().is_some();
        let mut named: Vec<Identity> = admitted.values().filter(is_meant).cloned().collect();
        named.sort_by_key(|identity| (identity.user(), identity.sender().clone()));
        named
    }

    /// Returns the identity of a person whom a program that embeds Drydock has authorised. It needs no store and has user
    /// id 0.
    pub fn program_identity(name: &str, role: Role) -> Identity {
        let grant = Grant {
            role,
            repositories: "*".to_owned(),
            environments: vec!["**".to_owned()],
        };
        let sender = Sender::of_terminal(name);
        Identity::new(UserId(0), name.to_owned(), sender, CurrentGrants::new(&[grant]))
    }

    /// Returns the identity of the person who runs this program in a terminal. They could edit these files anyway, so
    /// it may edit. It needs no store and has user id 0.
    pub fn terminal_identity(name: &str) -> Identity {
        Self::program_identity(name, Role::Editor)
    }
}

/// Returns an example of a sender of each chat platform.
fn sender_examples() -> String {
    let examples = Platform::chats().map(|chat| format!("`{}`", chat.sender_example));
    examples.collect::<Vec<_>>().join(" or ")
}

/// Updates people in the cache from their store rows. All copies of their identities change too, so running work sees the
/// new grants.
fn put(admitted: &RwLock<HashMap<Sender, Identity>>, people: &[PersonRow]) {
    let mut admitted = admitted.write().unwrap_or_else(PoisonError::into_inner);
    put_in(&mut admitted, people);
}

fn put_in(admitted: &mut HashMap<Sender, Identity>, people: &[PersonRow]) {
    let changed: HashSet<UserId> = people.iter().map(|person| person.id).collect();
    let mut standings = HashMap::new();
    admitted.retain(|_, identity| {
        let is_theirs = changed.contains(&identity.user());
        if is_theirs {
            standings.insert(identity.user(), identity.current_grants().clone());
        }
        !is_theirs
    });
    for person in people {
        insert(admitted, standings.remove(&person.id), person);
    }
}

/// Adds a person to a cache that has none of their accounts. `standing` are the grants that copies of their identity have.
fn insert(admitted: &mut HashMap<Sender, Identity>, standing: Option<CurrentGrants>, person: &PersonRow) {
    if person.revoked_at.is_some() {
        if let Some(standing) = standing {
            standing.revoke();
        }
        return;
    }
    let grants: Vec<Grant> = person.grants.iter().filter_map(people::grant).collect();
    let standing = match standing {
        Some(standing) => {
            standing.set(&grants);
            standing
        }
        None => CurrentGrants::new(&grants),
    };
    for sender in &person.senders {
        let identity = Identity::new(person.id, person.name.clone(), sender.clone(), standing.clone());
        admitted.insert(sender.clone(), identity);
    }
}
