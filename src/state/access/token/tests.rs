//! Tests of the tokens that operators make.

use super::{NewToken, PersonalToken, TokenError, TokenHolder, TokenScope, TokenState, check, token_hours};
use crate::base::model::{Secret, Sender, UserId};
use crate::state::access::fixture::{at, fresh, join, telegram};
use crate::state::access::{Access, AccessError, Grant, Role, User};

const DAY: i64 = 86_400;

fn token(name: &str, hours: u32) -> NewToken {
    NewToken {
        name: name.to_owned(),
        scopes: vec![TokenScope::ChangesRead],
        hours,
    }
}

async fn create(
    access: &Access,
    who: &str,
    new: &NewToken,
    random: u8,
    second: i64,
) -> Result<(Secret, PersonalToken), TokenError> {
    let user = access.user(who).await.unwrap();
    access
        .create_token(&user, new, "operator", [random; 32], at(second))
        .await
}

async fn refusal(access: &Access, new: &NewToken, second: i64) -> TokenError {
    create(access, "alice", new, 200, second).await.err().unwrap()
}

/// Returns `None` for a token that is not valid, and otherwise whether it has the scope.
async fn may_read_changes(access: &Access, token: &Secret, second: i64) -> Option<bool> {
    let holder = access.holder_of_token(token.expose(), TokenScope::ChangesRead, at(second));
    match holder.await.unwrap() {
        TokenHolder::Person(identities) => {
            assert_eq!(identities.len(), 1);
            Some(true)
        }
        TokenHolder::OutOfScope => Some(false),
        TokenHolder::Invalid => None,
    }
}

#[tokio::test]
async fn a_token_is_valid_until_its_time_ends_or_it_is_revoked() {
    let (_directory, access) = fresh().await;
    join(&access, "alice", 1, &telegram("1")).await;
    join(&access, "bob", 2, &telegram("2")).await;
    let (ci, listed) = create(&access, "alice", &token("ci", 24), 7, 10).await.unwrap();
    assert_eq!(ci.expose().len(), 51, "a prefix and 256 bits");
    assert_eq!(listed.expires_at, at(10 + DAY));
    assert_eq!(may_read_changes(&access, &ci, 10 + DAY - 1).await, Some(true));
    assert_eq!(may_read_changes(&access, &ci, 10 + DAY).await, None);
    // A clock that was set back makes no token valid.
    assert_eq!(may_read_changes(&access, &ci, -400).await, None);
    assert!(!access.end_login(ci.expose(), at(20)).await.unwrap());
    assert_eq!(may_read_changes(&access, &ci, 30).await, Some(true));

    // A name is that of one valid token of a person.
    let taken = refusal(&access, &token("ci", 24), 20).await;
    assert!(matches!(taken, TokenError::NameTaken { .. }), "{taken:?}");
    let (other, _) = create(&access, "bob", &token("ci", 24), 9, 20).await.unwrap();
    let several = access.revoke_token("ci", None, "operator", at(30)).await;
    let why = several.unwrap_err().to_string();
    assert_eq!(
        why,
        "2 people have a token `ci`; add `--for` with one of alice (1), bob (2)"
    );
    let bob = access.user("bob").await.unwrap();
    let ended = access.revoke_token("ci", Some(&bob), "operator", at(30)).await;
    assert_eq!(ended.unwrap().person, "bob");
    assert_eq!(may_read_changes(&access, &other, 30).await, None);
    let again = access.revoke_token("ci", Some(&bob), "operator", at(30)).await;
    assert_eq!(again, Err(TokenError::Unknown("ci".to_owned())));
    assert_eq!(may_read_changes(&access, &ci, 30).await, Some(true));

    // An expired one is listed, and makes room for another of its name.
    let state = |tokens: &[PersonalToken]| tokens.iter().map(|token| token.state).collect::<Vec<_>>();
    let tokens = access.tokens(at(10 + DAY)).await.unwrap();
    assert_eq!(state(&tokens), [TokenState::Expired]);
    let (ci, _) = create(&access, "alice", &token("ci", 1), 10, 10 + DAY)
        .await
        .unwrap();
    assert_eq!(may_read_changes(&access, &ci, 10 + DAY).await, Some(true));
    let alice = access.user("alice").await.unwrap();
    let ended = access.revoke(alice.id, "operator", at(20 + DAY)).await.unwrap();
    assert_eq!(ended, Some(vec!["ci".to_owned()]));
    assert_eq!(may_read_changes(&access, &ci, 20 + DAY).await, None);
    assert_eq!(access.tokens(at(20 + DAY)).await.unwrap(), []);
    let revoked = refusal(&access, &token("ci", 1), 20 + DAY).await;
    assert_eq!(revoked, AccessError::Revoked("alice".to_owned()).into());
}

#[tokio::test]
async fn a_person_has_a_bounded_number_of_tokens_with_names_and_times_within_bounds() {
    let (_directory, access) = fresh().await;
    join(&access, "alice", 1, &telegram("1")).await;
    for number in 0..20 {
        let new = token(&format!("ci-{number}"), 24);
        create(&access, "alice", &new, 100 + number, 10).await.unwrap();
    }
    let refused = refusal(&access, &token("more", 24), 10).await;
    assert_eq!(refused, TokenError::TooMany("alice".to_owned()));
    create(&access, "alice", &token("more", 24), 99, 10 + DAY)
        .await
        .unwrap();
    assert_eq!(access.tokens(at(11 + DAY)).await.unwrap().len(), 1);

    for name in ["", "a b", "a/b", "ä", "a\n", &"x".repeat(65)] {
        let refused = refusal(&access, &token(name, 24), 10).await;
        assert_eq!(refused, TokenError::Name, "{name}");
    }
    for hours in [0, 366 * 24 + 1, u32::MAX] {
        let refused = refusal(&access, &token("x", hours), 10).await;
        assert_eq!(refused, TokenError::Lifetime, "{hours}");
    }
    let scopeless = NewToken {
        scopes: Vec::new(),
        ..token("x", 1)
    };
    assert_eq!(refusal(&access, &scopeless, 10).await, TokenError::NoScope);
}

#[tokio::test]
async fn a_service_of_the_configuration_gets_a_token_and_a_hook_or_a_schedule_does_not() {
    let (_directory, access) = fresh().await;
    let grant = Grant {
        role: Role::Editor,
        repositories: "infra".to_owned(),
        environments: vec!["**".to_owned()],
    };
    let mut user = User {
        id: UserId(7),
        name: "release".to_owned(),
        invited_by: "configuration".to_owned(),
        created_at: at(0),
        revoked_at: None,
        senders: vec![Sender::of_service("release")],
        grants: vec![grant],
        is_auditor: false,
    };
    assert_eq!(check(&user, &token("ci", 1)), Ok(()));
    let without_section = User {
        grants: Vec::new(),
        ..user.clone()
    };
    let refused = TokenError::NoSection("release".to_owned());
    assert_eq!(check(&without_section, &token("ci", 1)), Err(refused));
    for sender in [Sender::of_hook("release"), Sender::of_schedule("release")] {
        user.senders = vec![sender];
        let refused = TokenError::Service("release".to_owned());
        assert_eq!(check(&user, &token("ci", 1)), Err(refused.clone()));
        let new = token("ci", 1);
        let made = access.create_token(&user, &new, "operator", [1; 32], at(1));
        assert_eq!(made.await.err(), Some(refused));
    }
    assert_eq!(access.tokens(at(1)).await.unwrap(), []);
}

#[tokio::test]
async fn a_token_permits_only_its_scopes_and_its_use_is_noted_once_an_hour() {
    let (_directory, access) = fresh().await;
    join(&access, "alice", 1, &telegram("1")).await;
    let (ci, _) = create(&access, "alice", &token("ci", 24), 7, 10).await.unwrap();
    let noted = async || access.tokens(at(11)).await.unwrap().remove(0).used_at;
    assert_eq!(noted().await, None);
    for (second, expected) in [(20, 20), (3_619, 20), (3_620, 3_620), (3_630, 3_620)] {
        assert_eq!(may_read_changes(&access, &ci, second).await, Some(true));
        assert_eq!(noted().await, Some(at(expected)), "{second}");
    }
    // A token with a scope of a later version has none that this one knows.
    let stored = access
        .store
        .write(|tx| Ok(tx.execute("UPDATE login SET scopes = '[\"changes:write\"]'", [])?));
    assert_eq!(stored.await, Ok(1));
    assert_eq!(may_read_changes(&access, &ci, 20).await, Some(false));
    assert_eq!(access.tokens(at(20)).await.unwrap()[0].scopes, ["changes:write"]);
}

#[test]
fn scopes_and_times_of_tokens_are_read_as_they_are_written() {
    for scope in TokenScope::ALL {
        assert_eq!(scope.word().parse::<TokenScope>(), Ok(scope));
        assert_eq!(serde_json::to_value(scope).unwrap(), scope.word());
    }
    let why = "changes:write".parse::<TokenScope>().unwrap_err().to_string();
    assert_eq!(
        why,
        "no scope `changes:write`; there are `changes:read`, `runs:read`, `runs:write`"
    );
    assert_eq!(token_hours("90d"), Ok(2_160));
    assert_eq!(token_hours("1h"), Ok(1));
    assert_eq!(token_hours("366d"), Ok(8_784));
    for text in ["", "d", "0d", "367d", "-1d", "90", "1.5d", "1w", "4294967295d"] {
        assert_eq!(token_hours(text), Err(TokenError::Lifetime), "{text}");
    }
}
