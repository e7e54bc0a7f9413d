//! Admission without an invite. An unknown sender passes on the account id from the denial notice. An operator, or an
//! administrator in a chat, admits that account.

use super::{Access, AccessError, Grant, Role, User, check_name, people, put};
use crate::base::model::{Account, InboxId, Platform, Sender, UserId};
use crate::state::store::apply_once;
use crate::state::store::people::{
    AdmissionOutcome, AdmittedBy, GrantRow, Newcomer, admit, current_grants, person,
};
use globset::{Glob, escape};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Longest account or workspace id, in characters.
const ID_CHARS_MAX: usize = 32;

/// A person to admit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewPerson {
    /// The person's account.
    pub sender: Sender,
    /// The person's name.
    pub name: String,
    /// The person's grant.
    pub grant: Grant,
}

/// The operator or administrator who admits a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitter {
    /// The operator, on the command line.
    Operator,
    /// An administrator in a chat. They can admit to repositories that they administer.
    Administrator {
        /// The administrator.
        user: UserId,
        /// The administrator's name.
        name: String,
        /// The message with the command. It admits once, even if the command runs again.
        message: InboxId,
    },
}

/// Parses an account id in the form shown in the denial notice: `slack:T0ACME:U0ALICE`, `telegram:42:4201`.
pub fn account_of(text: &str) -> Result<Sender, AccessError> {
    let malformed = || AccessError::InvalidAccount(text.chars().take(4 * ID_CHARS_MAX).collect());
    let parts: Vec<&str> = text.split(':').collect();
    let [platform, account, id] = parts.as_slice() else {
        return Err(malformed());
    };
    let mut platforms = Platform::ALL.iter();
    let platform = platforms.find(|known| known.as_str() == *platform);
    let platform = *platform.ok_or_else(malformed)?;
    let is_right = platform.chat().is_some_and(|chat| (chat.is_sender)(account, id));
    let sender = Sender {
        platform,
        account: (*account).to_owned(),
        id: (*id).to_owned(),
    };
    is_right.then_some(sender).ok_or_else(malformed)
}

impl Access {
    /// Admits an account. Only the operator can readmit a revoked account. The account must belong to one of the
    /// `connected` workspaces and bots, or to one that is already known here.
    pub async fn add(
        &self,
        new: NewPerson,
        connected: Vec<Account>,
        by: Admitter,
        at: Timestamp,
    ) -> Result<User, AccessError> {
        check_name(&new.name)?;
        people::check(&new.grant)?;
        let NewPerson { sender, name, grant } = new;
        let newcomer = Newcomer {
            name,
            sender: sender.clone(),
            grant: people::row(&grant),
            connected,
        };
        let repositories = grant.repositories.clone();
        let admitted = Arc::clone(&self.admitted);
        let (entrance, row) = self
            .store
            .write_then(
                move |tx| {
                    let entrance = match by {
                        Admitter::Operator => admit(tx, &newcomer, AdmittedBy::Operator, at)?,
                        Admitter::Administrator { user, name, message } => apply_once(tx, message, || {
                            let own = current_grants(tx, user)?.unwrap_or_default();
                            let by = AdmittedBy::Administrator { user, name: &name };
                            match administers(&own, &grant.repositories) {
                                true => admit(tx, &newcomer, by, at),
                                false => Ok(AdmissionOutcome::NotGranted),
                            }
                        })?,
                    };
                    let row = match &entrance {
                        AdmissionOutcome::Admitted(user) => Some(person(tx, *user)?),
                        AdmissionOutcome::Before { .. }
                        | AdmissionOutcome::Revoked { .. }
                        | AdmissionOutcome::Nowhere
                        | AdmissionOutcome::NotGranted => None,
                    };
                    Ok((entrance, row))
                },
                move |(_, row)| {
                    put(&admitted, row.as_slice());
                },
            )
            .await?;
        match (entrance, row) {
            (AdmissionOutcome::Admitted(_), Some(row)) => Ok(people::user(&row)),
            (AdmissionOutcome::Before { name }, _) => Err(AccessError::AlreadyAdmitted {
                account: sender,
                name,
            }),
            (AdmissionOutcome::Revoked { name }, _) => Err(AccessError::AccessWasRevoked {
                account: sender,
                name,
            }),
            (AdmissionOutcome::NotGranted, _) => Err(AccessError::NotAdministered(repositories)),
            (AdmissionOutcome::Nowhere | AdmissionOutcome::Admitted(_), _) => {
                Err(AccessError::NotConnected(sender))
            }
        }
    }
}

/// True if these grants administer every repository that the glob can match.
fn administers(grants: &[GrantRow], repositories: &str) -> bool {
    let grants = grants.iter().filter_map(people::grant);
    let mut own = grants.filter(|grant| grant.role == Role::Admin);
    own.any(|grant| {
        let own = grant.repositories.as_str();
        // A glob of a backslash and a letter matches the letter.
        let is_name = !repositories.contains('\\') && escape(repositories) == repositories;
        own == repositories
            || matches!(own, "*" | "**")
            || (is_name && Glob::new(own).is_ok_and(|glob| glob.compile_matcher().is_match(repositories)))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Admitter, NewPerson, account_of, administers};
    use crate::base::model::{Account, InboxId, Platform};
    use crate::state::access::fixture::{accept_command, at, fresh, join, telegram};
    use crate::state::access::{AccessError, Grant, Role};

    fn grant(role: Role, repositories: &str) -> Grant {
        Grant {
            role,
            repositories: repositories.to_owned(),
            environments: vec!["dev".to_owned()],
        }
    }

    fn eve() -> NewPerson {
        NewPerson {
            sender: telegram("666"),
            name: "eve".to_owned(),
            grant: grant(Role::Editor, "*"),
        }
    }

    fn bot() -> Vec<Account> {
        vec![Account {
            platform: Platform::Telegram,
            id: "42".to_owned(),
        }]
    }

    #[test]
    fn sender_ids_parse_only_in_the_form_shown_in_the_notice() {
        for text in ["slack:T0ACME:U0EVE", "slack:E0ACME:W1", "telegram:42:666"] {
            assert_eq!(
                account_of(text).map(|sender| sender.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in [
            "",
            "666",
            "telegram:666",
            "telegram:42:666:1",
            "Telegram:42:666",
            "telegram:42:-666",
            "telegram:42:0666",
            "telegram:42:0",
            "telegram:42:eve",
            "telegram::666",
            "telegram:42:99999999999999999999",
            "slack:T0ACME:eve",
            "slack:T0ACME:u0eve",
            "slack:T0ACME:U",
            "slack:C0ACME:U0EVE",
            "slack:T0ACME:U0EVE ",
            "slack:T0ACME:U0\u{202e}EVE",
            "hook:release:release",
            "terminal:local:you",
            "mail:a:b",
        ] {
            assert_eq!(
                account_of(text),
                Err(AccessError::InvalidAccount(text.to_owned())),
                "{text}"
            );
        }
        let long = account_of(&"x".repeat(10_000)).unwrap_err().to_string();
        assert!(long.len() < 500, "{long}");
    }

    /// T03, T04: only this account is admitted, not others of its workspace.
    #[tokio::test]
    async fn an_account_is_admitted_by_its_id_once() {
        let (_directory, access) = fresh().await;
        let user = access.add(eve(), bot(), Admitter::Operator, at(0)).await.unwrap();
        assert_eq!(
            (user.name.as_str(), user.invited_by.as_str()),
            ("eve", "operator")
        );
        assert_eq!(access.admit(&telegram("666")).unwrap().user(), user.id);
        assert!(access.admit(&telegram("667")).is_none());
        let again = access
            .add(eve(), bot(), Admitter::Operator, at(1))
            .await
            .unwrap_err();
        assert_eq!(
            again.to_string(),
            "`telegram:42:666` already belongs to `eve`; `drydock user grant` changes the grant"
        );
        // A revoked account comes back as a new user, as with an invite.
        access.revoke(user.id, "operator", at(2)).await.unwrap();
        let back = access
            .add(eve(), Vec::new(), Admitter::Operator, at(3))
            .await
            .unwrap();
        assert_ne!(back.id, user.id);
        assert_eq!(access.admit(&telegram("666")).unwrap().user(), back.id);
    }

    #[tokio::test]
    async fn an_account_is_admitted_only_from_a_known_workspace_or_bot() {
        let (_directory, access) = fresh().await;
        let refused = access.add(eve(), Vec::new(), Admitter::Operator, at(0)).await;
        assert_eq!(refused, Err(AccessError::NotConnected(telegram("666"))));
        assert_eq!(access.users().await.unwrap(), []);
        access.record_denial(&telegram("666"), at(1)).await.unwrap();
        assert!(
            access
                .add(eve(), Vec::new(), Admitter::Operator, at(2))
                .await
                .is_ok()
        );
        let mallory = NewPerson {
            sender: telegram("777"),
            name: "mallory".to_owned(),
            ..eve()
        };
        // From now on the bot is known through its admitted users.
        assert!(
            access
                .add(mallory, Vec::new(), Admitter::Operator, at(3))
                .await
                .is_ok()
        );
    }

    /// T03: an unreadable name or an invalid glob changes nothing.
    #[tokio::test]
    async fn a_person_without_a_name_or_a_grant_is_not_admitted() {
        let (_directory, access) = fresh().await;
        let nameless = NewPerson {
            name: " ".to_owned(),
            ..eve()
        };
        let refused = access.add(nameless, bot(), Admitter::Operator, at(0)).await;
        assert_eq!(refused, Err(AccessError::Name));
        let globless = NewPerson {
            grant: grant(Role::Editor, "[bad"),
            ..eve()
        };
        let refused = access.add(globless, bot(), Admitter::Operator, at(0)).await;
        assert_eq!(refused, Err(AccessError::Glob("[bad".to_owned())));
        assert_eq!(access.users().await.unwrap(), []);
    }

    #[test]
    fn an_administrator_of_some_repositories_admits_to_those_alone() {
        let admin = |repositories: &str| [super::people::row(&grant(Role::Admin, repositories))];
        for (own, other) in [
            ("*", "anything-*"),
            ("infra-*", "infra-eu"),
            ("infra-*", "infra-*"),
            ("apps", "apps"),
        ] {
            assert!(administers(&admin(own), other), "{own} {other}");
        }
        for (own, other) in [
            ("infra-*", "*"),
            ("infra-*", "infra-?u"),
            ("apps", "infra-eu"),
            ("infra-*", "apps"),
            ("[!p]*", "\\prod"),
            ("infra-??", "infra-\\a"),
        ] {
            assert!(!administers(&admin(own), other), "{own} {other}");
        }
        let editor = [super::people::row(&grant(Role::Editor, "*"))];
        assert!(!administers(&editor, "apps") && !administers(&[], "apps"));
    }

    #[tokio::test]
    async fn a_person_who_is_not_an_administrator_right_now_admits_nobody() {
        let (_directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        let alice = access.admit(&telegram("1")).unwrap();
        let by = |message| Admitter::Administrator {
            user: alice.user(),
            name: "alice".to_owned(),
            message: InboxId(message),
        };
        // A command without a stored message does nothing.
        let refused = access.add(eve(), bot(), by(99), at(2)).await;
        assert!(matches!(refused, Err(AccessError::Store(_))), "{refused:?}");
        let message = accept_command(&access, "1").await;
        let refused = access.add(eve(), bot(), by(message.0), at(4)).await;
        assert_eq!(refused, Err(AccessError::NotAdministered("*".to_owned())));
        assert!(access.admit(&telegram("666")).is_none());
        // A refused message stays refused. A later message is decided again.
        let admin = grant(Role::Admin, "*");
        access
            .set_grant(alice.user(), &admin, "operator", at(5))
            .await
            .unwrap();
        let refused = access.add(eve(), bot(), by(message.0), at(6)).await;
        assert!(refused.is_err(), "{refused:?}");
        let message = accept_command(&access, "2").await;
        for second in [8, 9] {
            let user = access.add(eve(), bot(), by(message.0), at(second)).await.unwrap();
            assert_eq!((user.name.as_str(), user.invited_by.as_str()), ("eve", "alice"));
        }
        assert_eq!(access.users().await.unwrap().len(), 2);
        let lines = access.store.audit_lines(100).await.unwrap();
        let lines = lines.iter().map(|(_, line)| line);
        let created: Vec<&String> = lines.filter(|line| line.contains("user.created")).collect();
        assert_eq!(created.len(), 1);
        // Names may repeat, but the user id is unique.
        let by = format!("\"by_user\":{}", alice.user());
        assert!(created[0].contains(&by), "{created:?}");
    }

    /// T06
    #[tokio::test]
    async fn only_the_operator_readmits_a_revoked_person() {
        let (_directory, access) = fresh().await;
        join(&access, "alice", 1, &telegram("1")).await;
        let alice = access.admit(&telegram("1")).unwrap();
        let admin = grant(Role::Admin, "*");
        access
            .set_grant(alice.user(), &admin, "operator", at(2))
            .await
            .unwrap();
        let user = access.add(eve(), bot(), Admitter::Operator, at(3)).await.unwrap();
        access.revoke(user.id, "operator", at(4)).await.unwrap();
        let by = Admitter::Administrator {
            user: alice.user(),
            name: "alice".to_owned(),
            message: accept_command(&access, "1").await,
        };
        let again = NewPerson {
            name: "somebody else".to_owned(),
            ..eve()
        };
        let refused = access.add(again, bot(), by, at(6)).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`telegram:42:666` belongs to `eve`, whose access was revoked; only the operator of this server can \
             admit them again, with `drydock user add` or `drydock invite`"
        );
        assert!(access.admit(&telegram("666")).is_none());
        let back = access.add(eve(), bot(), Admitter::Operator, at(7)).await.unwrap();
        assert_eq!(access.admit(&telegram("666")).unwrap().user(), back.id);
    }

    /// T03
    #[tokio::test]
    async fn reserved_and_id_like_names_are_refused_for_people() {
        let (_directory, access) = fresh().await;
        for name in [
            "operator",
            "Configuration",
            "7",
            "slack:T0ACME:U0ALICE",
            "hook:release",
            "terminal:local:you",
        ] {
            let named = NewPerson {
                name: name.to_owned(),
                ..eve()
            };
            let refused = access.add(named, bot(), Admitter::Operator, at(0)).await;
            assert_eq!(refused, Err(AccessError::ReservedName(name.to_owned())));
        }
        let named = NewPerson {
            name: "operator: Eve 7".to_owned(),
            ..eve()
        };
        assert!(access.add(named, bot(), Admitter::Operator, at(0)).await.is_ok());
    }
}
