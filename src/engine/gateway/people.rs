//! The people whom others can name: in `accept`, in `block`, and as recipients of messages.

use crate::base::model::{UserId, quoted};
use crate::state::access::{Access, AccessError, User};

/// Finds the admitted person whom `by` names: by row id, account, id on the platform or name. The case of a name counts
/// only if several names differ in nothing else. An `Err` within the result is a text for the one who asked.
pub(super) async fn find_person(
    access: &Access,
    by: UserId,
    who: &str,
) -> Result<Result<User, String>, AccessError> {
    let who = who.trim().trim_matches('`').trim_start_matches('@').trim();
    let users = access.users().await?;
    Ok(named(&users, who).and_then(|user| match user.id == by {
        true => Err(format!("{} is the person who asks", quoted(&user.name))),
        false => Ok(user.clone()),
    }))
}

fn named<'u>(users: &'u [User], who: &str) -> Result<&'u User, String> {
    let people = || users.iter().filter(|user| is_person(user));
    let is_account = |user: &&User| {
        user.id.to_string() == who || user.senders.iter().any(|sender| sender.to_string() == who)
    };
    if let Some(user) = people().find(is_account) {
        return Ok(user);
    }
    let matches: [fn(&User, &str) -> bool; 3] = [
        |user, who| user.name == who,
        |user, who| user.name.to_lowercase() == who.to_lowercase(),
        |user, who| user.senders.iter().any(|sender| sender.id == who),
    ];
    for is_meant in matches {
        let found: Vec<&User> = people().filter(|user| is_meant(user, who)).collect();
        match found.as_slice() {
            [] => {}
            [user] => return Ok(user),
            several => {
                let ids: Vec<String> = several.iter().map(|user| user.id.to_string()).collect();
                return Err(format!(
                    "{} people have the name {}; use one of the ids {}",
                    several.len(),
                    quoted(who),
                    ids.join(", ")
                ));
            }
        }
    }
    Err(format!("nobody here has the name {}", quoted(who)))
}

/// True for a user who is admitted and writes in a chat.
pub(super) fn is_person(user: &User) -> bool {
    let is_chat = user.senders.iter().any(|sender| sender.platform.chat().is_some());
    user.revoked_at.is_none() && is_chat
}

#[cfg(test)]
mod tests {
    use super::named;
    use crate::base::model::{Platform, Sender, UserId};
    use crate::state::access::User;
    use jiff::Timestamp;

    fn user(id: i64, name: &str, platform: Platform) -> User {
        User {
            id: UserId(id),
            name: name.to_owned(),
            invited_by: "operator".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            revoked_at: None,
            senders: vec![Sender {
                platform,
                account: "T1".to_owned(),
                id: format!("U{id}"),
            }],
            grants: Vec::new(),
            is_auditor: false,
        }
    }

    #[test]
    fn people_are_named_by_id_account_and_name_and_hooks_and_revoked_people_are_not() {
        let mut users = vec![
            user(1, "alice", Platform::Slack),
            user(2, "Bob", Platform::Telegram),
            user(3, "bob", Platform::Slack),
            user(4, "bob", Platform::Slack),
            user(5, "hook:release", Platform::Hook),
            user(6, "carol", Platform::Slack),
        ];
        if let Some(carol) = users.last_mut() {
            carol.revoked_at = Some(Timestamp::UNIX_EPOCH);
        }
        let found = |who: &str| named(&users, who).map(|user| user.id.0);
        for who in ["1", "alice", "Alice", "slack:T1:U1", "U1"] {
            assert_eq!(found(who), Ok(1), "{who}");
        }
        assert_eq!(found("Bob"), Ok(2));
        let several = "2 people have the name `bob`; use one of the ids 3, 4";
        assert_eq!(found("bob"), Err(several.to_owned()));
        for who in ["hook:release", "carol", "6", "", "dave"] {
            assert_eq!(
                found(who),
                Err(format!("nobody here has the name `{who}`")),
                "{who}"
            );
        }
    }
}
