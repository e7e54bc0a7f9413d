//! Tests of invites.

use super::{InviteToken, JoinOutcome, NewInvite};
use crate::state::access::fixture::{at, editor, fresh, limits, telegram};
use crate::state::access::{Access, AccessError, Role};
use crate::state::store::Store;

fn welcome() -> JoinOutcome {
    JoinOutcome::Welcome {
        name: "alice".into(),
        role: Role::Editor,
        repositories: "infra-*".into(),
        environments: vec!["dev".into()],
        invited_by: "operator".into(),
    }
}

/// K: an invite works once, for one account, and survives a restart.
#[tokio::test]
async fn an_invited_person_is_admitted_with_the_grant_they_were_given() {
    let (directory, access) = fresh().await;
    let token = access
        .invite(editor("alice"), "operator", [7; 32], at(0))
        .await
        .unwrap();
    assert_eq!(token.expose().len(), 43);
    assert!(access.admit(&telegram("1")).is_none());
    let redeemed = access
        .redeem(
            token.expose(),
            &telegram("1"),
            &["d1".into()],
            |_| Vec::new(),
            at(1),
        )
        .await;
    assert_eq!(redeemed, Ok(welcome()));
    let identity = access.admit(&telegram("1")).unwrap();
    assert_eq!(
        (identity.name(), identity.role("infra-a"), identity.role("apps")),
        ("alice", Some(Role::Editor), None)
    );
    // A repeated delivery gets no second answer.
    let again = access
        .redeem(
            token.expose(),
            &telegram("1"),
            &["d1".into()],
            |_| Vec::new(),
            at(2),
        )
        .await;
    assert_eq!(again, Ok(JoinOutcome::NoReply));
    let joined = access
        .redeem(
            token.expose(),
            &telegram("1"),
            &["d2".into()],
            |_| Vec::new(),
            at(3),
        )
        .await;
    assert_eq!(joined, Ok(JoinOutcome::AlreadyAdmitted));
    drop(access);
    let store = Store::open(directory.path()).unwrap();
    let access = Access::load(store, &limits(10)).await.unwrap();
    assert_eq!(access.admit(&telegram("1")).unwrap().user(), identity.user());
}

#[tokio::test]
async fn an_unreadable_or_confusable_name_is_refused() {
    let (_directory, access) = fresh().await;
    let long = "x".repeat(101);
    let invite = async |name: &str, number| {
        let token = [number; 32];
        access.invite(editor(name), "operator", token, at(0)).await
    };
    for name in [
        "",
        " ",
        "alice ",
        "al\nice",
        "al\u{1b}[31mice",
        "al\u{202e}ice",
        "al\u{ad}ice",
        "alice\u{e0041}",
        "alice\u{fe0f}",
        &long,
    ] {
        assert_eq!(invite(name, 0).await.err(), Some(AccessError::Name), "{name:?}");
    }
    for (number, name) in (1..).zip(["alice", "Ana María", "李雷", &long[1..]]) {
        assert!(invite(name, number).await.is_ok(), "{name}");
    }
}

/// R20: an expired invite stays expired when the clock is set back, and no invite is valid before its creation
/// time.
#[tokio::test]
async fn a_clock_that_is_set_back_brings_no_invite_to_life() {
    let (_directory, access) = fresh().await;
    let invite = async |byte: u8, second| {
        let invite = access.invite(editor("alice"), "operator", [byte; 32], at(second));
        invite.await.unwrap()
    };
    let redeem = async |token: &InviteToken, delivery: &str, second| {
        let delivery = [delivery.to_owned()];
        let sender = telegram("1");
        let redeemed = access.redeem(token.expose(), &sender, &delivery, |_| Vec::new(), at(second));
        redeemed.await.unwrap()
    };
    let day = 24 * 60 * 60;
    let token = invite(7, 0).await;
    access.store.probe_writes(at(2 * day)).await.unwrap();
    assert_eq!(redeem(&token, "d1", 60).await, JoinOutcome::Invalid);
    let later = invite(8, day).await;
    assert_eq!(redeem(&later, "d2", 120).await, JoinOutcome::Invalid);
    // A clock that is slightly behind causes no error.
    assert_eq!(redeem(&later, "d3", day - 200).await, welcome());
}

/// R20: an attempt from before the clock was set back does not lock the sender out.
#[test]
fn join_attempts_dated_in_the_future_do_not_count_against_the_limit() {
    let mut attempts = super::JoinAttempts::new(2, 10);
    let day = 24 * 60 * 60 * 1_000;
    let mut allow = |at| attempts.allow(&telegram("1"), at);
    assert_eq!([allow(day), allow(day), allow(day)], [true, true, false]);
    assert_eq!([allow(0), allow(1), allow(2)], [true, true, false]);
}

/// T94
#[tokio::test]
async fn of_a_hundred_at_once_exactly_one_gets_in() {
    let (_directory, access) = fresh().await;
    let token = access
        .invite(editor("alice"), "operator", [7; 32], at(0))
        .await
        .unwrap();
    let people = (0..100).map(|number| {
        let (access, token) = (access.clone(), token.clone());
        tokio::spawn(async move {
            let delivery = [format!("d{number}")];
            access
                .redeem(
                    token.expose(),
                    &telegram(&number.to_string()),
                    &delivery,
                    |_| Vec::new(),
                    at(1),
                )
                .await
                .unwrap()
        })
    });
    let mut answers = Vec::new();
    for person in people.collect::<Vec<_>>() {
        answers.push(person.await.unwrap());
    }
    assert_eq!(answers.iter().filter(|answer| **answer == welcome()).count(), 1);
    assert_eq!(
        answers
            .iter()
            .filter(|answer| **answer == JoinOutcome::Invalid)
            .count(),
        99
    );
    assert_eq!(
        (0..100)
            .filter(|number| access.admit(&telegram(&number.to_string())).is_some())
            .count(),
        1
    );
    assert_eq!(access.users().await.unwrap().len(), 1);
}

/// T94, T09
#[tokio::test]
async fn unknown_expired_used_revoked_and_foreign_tokens_get_the_same_answer() {
    let (_directory, access) = fresh().await;
    let mut tokens = vec![
        "x".repeat(43),
        String::new(),
        "../../x\0".into(),
        "é".repeat(5_000),
    ];
    for byte in 0..4 {
        let bound_to = (byte == 3).then(|| telegram("somebody"));
        let invite = NewInvite {
            bound_to,
            ..editor("alice")
        };
        let token = access
            .invite(invite, "operator", [byte; 32], at(0))
            .await
            .unwrap();
        tokens.push(token.expose().to_owned());
    }
    let day = 24 * 60 * 60;
    let used = access
        .redeem(
            &tokens[4],
            &telegram("first"),
            &["d".into()],
            |_| Vec::new(),
            at(1),
        )
        .await;
    assert_eq!(used, Ok(welcome()));
    assert_eq!(access.revoke_invite(&tokens[5], at(1)).await, Ok(true));
    assert_eq!(access.revoke_invite(&tokens[5], at(2)).await, Ok(false));
    for (number, token) in tokens.iter().enumerate() {
        // The last token, the seventh, has expired by then.
        let name = number.to_string();
        let answer = access
            .redeem(
                token,
                &telegram(&name),
                std::slice::from_ref(&name),
                |_| Vec::new(),
                at(day),
            )
            .await;
        assert_eq!(answer, Ok(JoinOutcome::Invalid), "{number}");
        assert!(access.admit(&telegram(&name)).is_none());
    }
    let bound = access
        .redeem(
            &tokens[7],
            &telegram("somebody"),
            &["b".into()],
            |_| Vec::new(),
            at(day - 1),
        )
        .await;
    assert_eq!(bound, Ok(welcome()));
}

/// T09
#[tokio::test]
async fn a_sixth_invite_guess_within_a_minute_gets_no_answer() {
    let (_directory, access) = fresh().await;
    let token = access
        .invite(editor("alice"), "operator", [7; 32], at(0))
        .await
        .unwrap();
    let mut answers = Vec::new();
    for number in 0..1_000 {
        let delivery = [format!("d{number}")];
        answers.push(
            access
                .redeem(
                    "guess",
                    &telegram("1"),
                    &delivery,
                    |_| Vec::new(),
                    at(number / 20),
                )
                .await
                .unwrap(),
        );
    }
    assert!(answers[..5].iter().all(|answer| *answer == JoinOutcome::Invalid));
    assert!(answers[5..].iter().all(|answer| *answer == JoinOutcome::NoReply));
    // Other senders are not limited. The same sender can try again a minute later.
    let other = access
        .redeem("guess", &telegram("2"), &["o".into()], |_| Vec::new(), at(50))
        .await;
    assert_eq!(other, Ok(JoinOutcome::Invalid));
    let later = access
        .redeem(
            token.expose(),
            &telegram("1"),
            &["l".into()],
            |_| Vec::new(),
            at(60),
        )
        .await;
    assert_eq!(later, Ok(welcome()));
}

/// T94
#[tokio::test]
async fn the_data_directory_holds_no_token() {
    let (directory, access) = fresh().await;
    let token = access
        .invite(editor("alice"), "operator", [7; 32], at(0))
        .await
        .unwrap();
    access
        .redeem(
            "wrong-token-that-was-typed",
            &telegram("2"),
            &["d0".into()],
            |_| Vec::new(),
            at(1),
        )
        .await
        .unwrap();
    access
        .redeem(
            token.expose(),
            &telegram("1"),
            &["d1".into()],
            |_| Vec::new(),
            at(1),
        )
        .await
        .unwrap();
    let open: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(open.iter().any(|file| file.ends_with("drydock.db-wal")));
    let mut bytes = Vec::new();
    for file in &open {
        bytes.extend(std::fs::read(file).unwrap());
    }
    drop(access);
    bytes.extend(std::fs::read(directory.path().join("drydock.db")).unwrap());
    let holds = |needle: &[u8]| memchr::memmem::find(&bytes, needle).is_some();
    assert!(holds(b"alice"));
    assert!(!holds(token.expose().as_bytes()) && !holds(&[7; 32]) && !holds(b"wrong-token"));
}

#[tokio::test]
async fn a_glob_that_would_grant_nothing_is_refused_when_it_is_given() {
    let (_directory, access) = fresh().await;
    let invite = NewInvite {
        environments: vec!["dev".into(), "[".into()],
        ..editor("alice")
    };
    let refused = access.invite(invite, "operator", [1; 32], at(0)).await;
    assert!(matches!(refused, Err(AccessError::Glob(glob)) if glob == "["));
}
