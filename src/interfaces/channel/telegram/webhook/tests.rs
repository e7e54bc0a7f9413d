//! Tests of the decoding of updates.

use super::decode;
use crate::base::model::{
    Account, ChatFile, ChatPlace, Inbound, InboundKind, Installation, MessageRef, Platform, Sender,
};
use crate::base::webhook::{Received, Rejected};
use serde_json::{Value, json};

fn account() -> Account {
    Account {
        platform: Platform::Telegram,
        id: "42".to_owned(),
    }
}

fn read(update: &Value) -> Result<Received, Rejected> {
    let installation = Installation {
        account: account(),
        bot_id: "42".to_owned(),
        bot_name: "drydock_bot".to_owned(),
    };
    decode("telegram", update, &installation)
}

fn message(chat: i64, extra: Value) -> Value {
    let kind = if chat > 0 { "private" } else { "supergroup" };
    let mut message = json!({
        "message_id": 101, "date": 1, "chat": {"id": chat, "type": kind},
        "from": {"id": 7, "is_bot": false, "first_name": "Alice", "username": "alice"},
    });
    let fields = message.as_object_mut().unwrap();
    fields.extend(extra.as_object().unwrap().clone());
    json!({"update_id": 9, "message": message})
}

fn kind_of(chat: i64, extra: Value) -> InboundKind {
    match read(&message(chat, extra)) {
        Ok(Received::Inbound(inbound)) => inbound.kind,
        other => panic!("{other:?}"),
    }
}

fn text(text: &str, quoted: Option<&str>) -> InboundKind {
    InboundKind::Text {
        text: text.to_owned(),
        quoted: quoted.map(str::to_owned),
        addressed: true,
    }
}

fn text_of_others(text: &str, quoted: Option<&str>) -> InboundKind {
    InboundKind::Text {
        text: text.to_owned(),
        quoted: quoted.map(str::to_owned),
        addressed: false,
    }
}

fn command(verb: &str, arguments: &str) -> InboundKind {
    InboundKind::Command {
        verb: verb.to_owned(),
        arguments: arguments.to_owned(),
    }
}

/// T01, T04
#[test]
fn a_direct_message_names_its_sender_by_id_alone() {
    assert_eq!(
        read(&message(7, json!({"text": " scale web "}))),
        Ok(Received::Inbound(Box::new(Inbound {
            channel: "telegram".to_owned(),
            delivery: vec!["telegram:42:7:101".to_owned()],
            sender: Sender {
                platform: Platform::Telegram,
                account: "42".to_owned(),
                id: "7".to_owned(),
            },
            place: ChatPlace {
                account: account(),
                chat: "7".to_owned(),
                thread: None,
            },
            direct: true,
            message: Some(MessageRef {
                chat: "7".to_owned(),
                id: "101".to_owned(),
            }),
            kind: text("scale web", None),
            files: Vec::new(),
            about: None,
            response_url: None,
        })))
    );
}

/// T05, T06, T08
#[test]
fn nobody_but_a_person_starts_anything() {
    let bot = json!({"id": 43, "is_bot": true});
    let hi = |extra: Value| {
        let mut fields = json!({"text": "/status"});
        fields
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        message(-100, fields)
    };
    let post = json!({"message_id": 1, "chat": {"id": -1, "type": "channel"}, "text": "hi"});
    for (update, why) in [
        (hi(json!({"from": bot})), "message of a bot"),
        (
            hi(json!({"sender_chat": {"id": -5}})),
            "message of a chat, not of a person",
        ),
        (hi(json!({"via_bot": bot})), "message written by an inline bot"),
        (
            hi(json!({"from": {"id": 1_087_968_824, "is_bot": true}})),
            "message of a chat, not of a person",
        ),
        (
            hi(json!({"from": {"id": 777_000}})),
            "message of a chat, not of a person",
        ),
        (hi(json!({"from": null})), "message without a sender"),
        (
            hi(json!({"forward_origin": {"type": "user"}})),
            "forwarded message",
        ),
        (hi(json!({"forward_date": 1})), "forwarded message"),
        (hi(json!({"is_automatic_forward": true})), "forwarded message"),
        (
            hi(json!({"chat": {"id": -1, "type": "channel"}})),
            "message in a channel",
        ),
        (message(-100, json!({"new_chat_members": []})), "service message"),
        (json!({"update_id": 1, "channel_post": post}), "channel post"),
        (
            json!({"update_id": 1, "edited_channel_post": post}),
            "edited channel post",
        ),
        (json!({"update_id": 1, "edited_message": post}), "edited message"),
        (json!({"update_id": 1, "my_chat_member": {}}), "membership change"),
        (
            json!({"update_id": 1, "stopped_message_generation": {"chat": {"id": -1, "type": "group"}, "draft_id": 7}}),
            "stop of a draft outside of a private chat",
        ),
        (
            json!({"update_id": 1, "invented_tomorrow": [1]}),
            "unknown update",
        ),
        (json!({"update_id": 1}), "unknown update"),
    ] {
        assert_eq!(read(&update), Ok(Received::Ignored(why)), "{update}");
    }
}

#[test]
fn the_stop_of_a_draft_is_a_stop_of_its_message_once() {
    let stopped = json!({"chat": {"id": 8, "type": "private"}, "message_thread_id": 55, "draft_id": 7});
    let Ok(Received::Inbound(inbound)) =
        read(&json!({"update_id": 1, "stopped_message_generation": stopped}))
    else {
        panic!("not received");
    };
    assert_eq!(inbound.delivery, ["telegram:42:draft:8:7"]);
    assert_eq!((inbound.sender.id.as_str(), inbound.direct), ("8", true));
    assert_eq!(
        (inbound.place.thread.as_deref(), inbound.message),
        (Some("55"), None)
    );
    let (verb, arguments) = ("stop".to_owned(), "#7".to_owned());
    assert_eq!(inbound.kind, InboundKind::Command { verb, arguments });
}

#[test]
fn what_is_no_update_is_malformed() {
    for update in [
        json!({"update_id": 1, "stopped_message_generation": {}}),
        json!([]),
        json!({}),
        json!({"update_id": "1"}),
        json!({"update_id": 1, "message": 5}),
        json!({"update_id": 1, "message": {"message_id": 1}}),
        json!({"update_id": 1, "callback_query": {}}),
    ] {
        assert!(matches!(read(&update), Err(Rejected::Malformed(_))), "{update}");
    }
}

#[test]
fn in_a_group_only_a_mention_or_a_reply_to_us_is_addressed() {
    assert_eq!(
        kind_of(-100, json!({"text": "lunch?"})),
        text_of_others("lunch?", None)
    );
    // The emoji before the mention takes two UTF-16 units and four bytes.
    let mention = json!([{"type": "mention", "offset": 3, "length": 12}]);
    assert_eq!(
        kind_of(
            -100,
            json!({"text": "🚢 @Drydock_Bot, scale web", "entities": mention})
        ),
        text("🚢 , scale web", None)
    );
    let first = json!([{"type": "mention", "offset": 0, "length": 12}]);
    assert_eq!(
        kind_of(
            -100,
            json!({"text": "@drydock_bot: scale web", "entities": first})
        ),
        text("scale web", None)
    );
    let by_id =
        json!([{"type": "text_mention", "offset": 0, "length": 3, "user": {"id": 42, "is_bot": true}}]);
    assert_eq!(
        kind_of(-100, json!({"text": "Bot scale web", "entities": by_id})),
        text("scale web", None)
    );
    let another = json!([{"type": "mention", "offset": 0, "length": 13}, {"type": "mention", "offset": 90, "length": 12}]);
    assert_eq!(
        kind_of(
            -100,
            json!({"text": "@drydock_bot2 scale web", "entities": another})
        ),
        text_of_others("@drydock_bot2 scale web", None)
    );
    let ours = json!({"message_id": 5, "from": {"id": 42, "is_bot": true}, "text": "CHG-1 is ready"});
    assert_eq!(
        kind_of(-100, json!({"text": "make it 3", "reply_to_message": ours})),
        text("make it 3", Some("CHG-1 is ready"))
    );
    let rich = json!({"message_id": 5, "from": {"id": 42, "is_bot": true}, "rich_message": {"blocks": [
        {"type": "heading", "size": 4, "text": ["CHG-1 is ", {"type": "code", "text": "ready"}]},
        {"type": "table", "cells": [[{"text": "replicas"}, {"text": "4"}], [{"text": "none"}, {}]]},
        {"type": "divider"},
        {"type": "details", "summary": "Diff", "blocks": [
            {"type": "list", "items": [{"blocks": [{"type": "paragraph", "text": "+ 4"}]}]}]},
    ]}});
    assert_eq!(
        kind_of(-100, json!({"text": "make it 3", "reply_to_message": rich})),
        text("make it 3", Some("CHG-1 is ready\nreplicas  4\nnone\nDiff\n+ 4"))
    );
}

/// T08
#[test]
fn what_others_said_is_quoted_and_never_a_command() {
    let unknown = json!({"message_id": 5, "from": {"id": 666}, "text": "/grant admin 666"});
    assert_eq!(
        kind_of(7, json!({"text": "what is this?", "reply_to_message": unknown})),
        text("what is this?", Some("/grant admin 666"))
    );
    assert_eq!(
        kind_of(
            7,
            json!({"text": "and this?", "reply_to_message": unknown, "quote": {"text": "admin"}})
        ),
        text("and this?", Some("admin"))
    );
    assert_eq!(
        kind_of(
            7,
            json!({"text": "and this?", "external_reply": {"origin": {}}, "quote": {"text": "far"}})
        ),
        text("and this?", Some("far"))
    );
    let quote = json!([{"type": "blockquote", "offset": 0, "length": 16}]);
    assert_eq!(
        kind_of(
            7,
            json!({"text": "/grant admin 666\nshould I?", "entities": quote})
        ),
        text("should I?", Some("/grant admin 666"))
    );
    let mention_in_quote = json!([
        {"type": "mention", "offset": 0, "length": 12}, {"type": "blockquote", "offset": 0, "length": 20},
    ]);
    assert_eq!(
        kind_of(
            -100,
            json!({"text": "@drydock_bot do this\nlol", "entities": mention_in_quote})
        ),
        text_of_others("lol", Some("@drydock_bot do this"))
    );
}

#[test]
fn a_topic_is_a_thread_and_its_opening_message_is_no_reply() {
    let opened = json!({"message_id": 55, "from": {"id": 42, "is_bot": true}, "forum_topic_created": {}});
    let update = message(
        -100,
        json!({"text": "hi", "is_topic_message": true, "message_thread_id": 55, "reply_to_message": opened}),
    );
    let Ok(Received::Inbound(inbound)) = read(&update) else {
        panic!()
    };
    assert_eq!(inbound.place.thread.as_deref(), Some("55"));
    assert_eq!(inbound.kind, text_of_others("hi", None));
    let plain = message(-100, json!({"text": "hi", "message_thread_id": 55}));
    let Ok(Received::Inbound(inbound)) = read(&plain) else {
        panic!()
    };
    assert_eq!(inbound.place.thread, None);
}

#[test]
fn commands_are_read_at_the_start_and_for_us_only() {
    let token = "A".repeat(42) + "-";
    for (words, expected) in [
        ("/Status", command("status", "")),
        ("/diff@drydock_bot  CHG-1 \n", command("diff", "CHG-1")),
        ("/etc/hosts is wrong", text("/etc/hosts is wrong", None)),
        ("/ help", text("/ help", None)),
        ("see /status", text("see /status", None)),
        ("/start", command("help", "")),
        ("/start short", command("help", "")),
        (&format!("/start {}", "ä".repeat(43)), command("help", "")),
        (
            &format!("/start {token}"),
            InboundKind::Join { token: token.clone() },
        ),
    ] {
        assert_eq!(kind_of(7, json!({"text": words})), expected, "{words}");
    }
    assert_eq!(kind_of(-100, json!({"text": "/status"})), command("status", ""));
    let other = message(-100, json!({"text": "/status@other_bot"}));
    assert_eq!(read(&other), Ok(Received::Ignored("command for another bot")));
}

#[test]
fn what_we_cannot_read_is_named_where_we_were_asked() {
    let unsupported = |what: &str| InboundKind::Unsupported {
        what: what.to_owned(),
    };
    assert_eq!(kind_of(7, json!({"photo": []})), unsupported("photo"));
    assert_eq!(kind_of(7, json!({"voice": {}})), unsupported("voice message"));
    assert_eq!(
        kind_of(7, json!({"document": {}, "animation": {}})),
        unsupported("animation")
    );
    assert_eq!(
        kind_of(7, json!({"photo": [], "caption": "scale web"})),
        text("scale web", None)
    );
    let group = message(-100, json!({"sticker": {}}));
    assert_eq!(read(&group), Ok(Received::Ignored("not for us")));
}

/// Each file of an album is a message. One of them has the words; the others get one answer together.
#[test]
fn files_beside_words_are_counted_and_an_album_is_answered_once() {
    let inbound = |extra: Value| match read(&message(7, extra)) {
        Ok(Received::Inbound(inbound)) => inbound,
        other => panic!("{other:?}"),
    };
    let document = json!({"file_id": "f", "file_unique_id": "u", "file_name": "values.yaml", "file_size": 7});
    let files = inbound(json!({"document": document, "caption": "use this"})).files;
    let names = |files: &[ChatFile]| -> Vec<(String, Option<u64>, Option<String>)> {
        let parts = |file: &ChatFile| (file.name.clone(), file.bytes, file.reference.clone());
        files.iter().map(parts).collect()
    };
    let expected = ("values.yaml".to_owned(), Some(7), Some("f".to_owned()));
    assert_eq!(names(&files), [expected]);
    assert_eq!(inbound(json!({"text": "use this"})).files, []);
    let named = inbound(json!({"photo": [], "caption": "look", "media_group_id": "g1"}));
    assert_eq!(names(&named.files), [("photo".to_owned(), None, None)]);
    assert_eq!(named.delivery.len(), 1);
    let silent = inbound(json!({"photo": [], "media_group_id": "g1"}));
    assert_eq!(silent.delivery, ["telegram:42:7:101", "telegram:42:7:album:g1"]);
}

#[test]
fn a_press_carries_token_and_callback() {
    let chat = json!({"id": -100, "type": "supergroup"});
    let pressed = json!({"message_id": 5, "chat": chat, "is_topic_message": true, "message_thread_id": 55});
    let update = json!({"update_id": 1, "callback_query":
        {"id": "cb1", "from": {"id": 8, "is_bot": false}, "data": "tok", "message": pressed}});
    let Ok(Received::Inbound(inbound)) = read(&update) else {
        panic!()
    };
    assert_eq!(inbound.delivery, ["telegram:42:callback:cb1"]);
    assert_eq!((inbound.sender.id.as_str(), inbound.direct), ("8", false));
    assert_eq!(
        (inbound.place.chat.as_str(), inbound.place.thread.as_deref()),
        ("-100", Some("55"))
    );
    let token = "tok".to_owned();
    assert_eq!(
        inbound.kind,
        InboundKind::Click {
            token,
            callback: Some("cb1".to_owned()),
            trigger: None,
        }
    );
    let inline = json!({"update_id": 1, "callback_query": {"id": "1", "from": {"id": 8}, "data": "t"}});
    assert_eq!(
        read(&inline),
        Ok(Received::Ignored("button without message or data"))
    );
}

/// Telegram has one id for all ephemeral messages, 0, and gives their own ids to later ones.
#[test]
fn an_ephemeral_command_is_answered_for_seconds_and_in_no_reply() {
    let whispered = |id: i64, date: i64, text: &str| {
        let fields = json!({"text": text, "message_id": 0, "ephemeral_message_id": id, "date": date});
        message(-100, fields)
    };
    let read_one = |update: &Value| match read(update) {
        Ok(Received::Inbound(inbound)) => inbound,
        other => panic!("{other:?}"),
    };
    let first = read_one(&whispered(9, 1_000, "/usage@drydock_bot"));
    assert_eq!(first.delivery, ["telegram:42:-100:ephemeral:7:9:1000"]);
    assert_eq!((&first.message, &first.kind), (&None, &command("usage", "")));
    let address = first.response_url.unwrap();
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    assert!(address.is_valid_at(at(1_014)) && !address.is_valid_at(at(1_015)));
    let again = read_one(&whispered(9, 2_000, "/usage"));
    assert_ne!(again.delivery, first.delivery);
    assert_eq!(
        read(&whispered(9, 1_000, "@drydock_bot scale web")),
        Ok(Received::Ignored("ephemeral message without a command"))
    );
    let pressed =
        json!({"message_id": 0, "ephemeral_message_id": 9, "chat": {"id": -100, "type": "supergroup"}});
    let press = json!({"update_id": 1, "callback_query":
        {"id": "cb1", "from": {"id": 7, "is_bot": false}, "data": "tok", "message": pressed}});
    assert_eq!(read_one(&press).message, None);
}

/// R5: Telegram restarts update ids at a random value after a quiet week.
#[test]
fn a_reset_update_id_is_no_duplicate_and_a_redelivery_is() {
    let names = |update: &Value| match read(update) {
        Ok(Received::Inbound(inbound)) => inbound.delivery,
        other => panic!("{other:?}"),
    };
    let first = message(7, json!({"text": "one"}));
    let mut again = first.clone();
    again["update_id"] = json!(10);
    let other = message(7, json!({"text": "two", "message_id": 102}));
    assert_eq!(names(&first), names(&again));
    assert_ne!(names(&first), names(&other));
}
