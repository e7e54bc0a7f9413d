//! Test fixtures shared within `access`.

use super::{Access, NewInvite, Role};
use crate::base::config::LimitSettings;
use crate::base::model::{Account, ChatPlace, Inbound, InboundKind, InboxId, Limits, Platform, Sender};
use crate::state::store::{AcceptOutcome, QueueKind, QueueLimits, Store};
use jiff::Timestamp;
use tempfile::TempDir;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub(super) fn limits(strangers_remembered_max: usize) -> LimitSettings {
    LimitSettings {
        turn: Limits::default(),
        turns_at_once_max: 64,
        waiting_events_max: 200,
        waiting_messages_max: 20,
        mirror_age_max: std::time::Duration::from_secs(60),
        fetch_wait_max: std::time::Duration::from_secs(10),
        inbound_text_chars_max: 16_000,
        inline_diff_bytes_max: 2_500,
        strangers_remembered_max,
        invite_attempts_per_minute_max: 5,
    }
}

pub(super) async fn fresh() -> (TempDir, Access) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let access = Access::load(store, &limits(10_000)).await.unwrap();
    (directory, access)
}

pub(super) fn telegram(id: &str) -> Sender {
    Sender {
        platform: Platform::Telegram,
        account: "42".into(),
        id: id.into(),
    }
}

pub(super) fn editor(name: &str) -> NewInvite {
    NewInvite {
        name: name.into(),
        role: Role::Editor,
        repositories: "infra-*".into(),
        environments: vec!["dev".into()],
        expires: NewInvite::EXPIRES,
        bound_to: None,
    }
}

/// Invites `name` with a token of repeated `byte`s and redeems it for `sender`.
pub(super) async fn join(access: &Access, name: &str, byte: u8, sender: &Sender) {
    let token = access
        .invite(editor(name), "operator", [byte; 32], at(0))
        .await
        .unwrap();
    let delivery = [format!("join:{byte}")];
    access
        .redeem(token.expose(), sender, &delivery, |_| Vec::new(), at(1))
        .await
        .unwrap();
    assert!(access.admit(sender).is_some());
}

/// Stores a command message with this name.
pub(super) async fn accept_command(access: &Access, name: &str) -> InboxId {
    let sender = telegram("1");
    let inbound = Inbound {
        channel: "telegram".into(),
        delivery: vec![name.into()],
        place: ChatPlace {
            account: Account {
                platform: Platform::Telegram,
                id: sender.account.clone(),
            },
            chat: "1".into(),
            thread: None,
        },
        sender,
        direct: true,
        message: None,
        files: Vec::new(),
        about: None,
        response_url: None,
        kind: InboundKind::Command {
            verb: "user".into(),
            arguments: String::new(),
        },
    };
    let room = QueueLimits {
        answers: None,
        notices: Vec::new(),
        thread_question: None,
        of_conversation_max: 10,
        of_hook_max: 10,
        refusal: None,
    };
    let accepted = access
        .store
        .accept(&inbound, QueueKind::Command, room, None, at(0))
        .await;
    match accepted.unwrap() {
        AcceptOutcome::Stored { inbox, .. } => inbox,
        other => panic!("{other:?}"),
    }
}
