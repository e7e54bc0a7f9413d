//! Tests of the decoding of signed requests: the sender, the words, the place and the addressee.

use super::*;
use crate::base::model::ChatFile;

#[test]
fn a_mention_in_a_channel_is_a_message_to_us() {
    assert_eq!(
        inbound_of(mention()),
        Inbound {
            channel: "ops".to_owned(),
            delivery: vec![
                "slack:ops:event:Ev1".to_owned(),
                "slack:ops:T0ACME:C1:1795293800.000300".to_owned(),
                "slack:ops:client:T0ACME:c-1".to_owned(),
            ],
            sender: Sender {
                platform: Platform::Slack,
                account: "T0ACME".to_owned(),
                id: "UALICE".to_owned(),
            },
            place: ChatPlace {
                account: Account {
                    platform: Platform::Slack,
                    id: "T0ACME".to_owned(),
                },
                chat: "C1".to_owned(),
                thread: Some("1795293800.000300".to_owned()),
            },
            direct: false,
            message: Some(MessageRef {
                chat: "C1".to_owned(),
                id: "1795293800.000300".to_owned(),
            }),
            kind: InboundKind::Text {
                text: "scale web".to_owned(),
                quoted: None,
                addressed: true,
            },
            files: Vec::new(),
            about: None,
            response_url: None,
        }
    );
}

#[test]
fn both_events_of_one_message_share_a_name() {
    let message = with(mention(), "type", json!("message"));
    let mut second = envelope(message);
    second["event_id"] = json!("Ev2");
    let Ok(Received::Inbound(second)) = receive_json(&second) else {
        panic!("not received");
    };
    let first = inbound_of(mention());
    assert_eq!(first.kind, second.kind);
    assert_eq!(first.delivery.last(), second.delivery.last());
    assert_eq!(first.delivery.get(1), second.delivery.get(1));
    assert_ne!(first.delivery.first(), second.delivery.first());
}

/// Two apps receive the same event. If they shared an identity for it, one app would drop it as a duplicate.
#[test]
fn two_apps_in_one_workspace_do_not_mask_each_other() {
    let body = with(mention(), "client_msg_id", json!("c-1"));
    let request = signed("application/json", envelope(body).to_string().as_bytes());
    let names = |app: &str| match slack_named(app).receive(&request, at(AT)) {
        Ok(Received::Inbound(inbound)) => inbound.delivery,
        other => panic!("{other:?}"),
    };
    let (ops, web) = (names("ops"), names("web"));
    assert_eq!(ops.len(), 3);
    assert!(ops.iter().all(|name| !web.contains(name)), "{ops:?} {web:?}");
}

#[test]
fn a_reply_in_a_thread_belongs_to_the_thread() {
    let reply = with(
        with(mention(), "thread_ts", json!("1.1")),
        "type",
        json!("message"),
    );
    let reply = with(reply, "text", json!("and staging too"));
    let inbound = inbound_of(reply);
    assert_eq!(inbound.place.thread.as_deref(), Some("1.1"));
    assert_eq!(
        inbound.kind,
        InboundKind::Text {
            text: "and staging too".to_owned(),
            quoted: None,
            addressed: false
        }
    );
}

/// T03
#[test]
fn the_user_id_of_an_admin_in_another_workspace_is_another_person() {
    for field in ["team", "user_team", "source_team"] {
        let event = with(mention(), "user", json!("UADMIN"));
        let mut event = with(event, field, json!("TEVIL"));
        if field != "team" {
            event["team"] = json!("T0ACME");
        }
        assert_eq!(
            inbound_of(event).sender.to_string(),
            "slack:TEVIL:UADMIN",
            "{field}"
        );
    }
    let payload = json!({"type": "block_actions", "user": {"id": "UADMIN", "team_id": "TEVIL"},
        "team": {"id": "T0ACME"}, "channel": {"id": "C1"}, "trigger_id": "t",
        "container": {"message_ts": "2.2"},
        "actions": [{"type": "button", "value": "tok", "action_ts": "3.3"}]});
    let Ok(Received::Inbound(press)) = receive_form(&[("payload", &payload.to_string())]) else {
        panic!("not received");
    };
    assert_eq!(press.sender.to_string(), "slack:TEVIL:UADMIN");
    assert_eq!(press.place.account.id, "T0ACME");
}

/// T05
#[test]
fn what_no_person_said_starts_nothing() {
    let message = || with(mention(), "type", json!("message"));
    for (event, reason) in [
        (with(message(), "bot_id", json!("B1")), "message of a bot"),
        (
            with(message(), "subtype", json!("bot_message")),
            "message of a bot",
        ),
        (with(message(), "user", json!("USLACKBOT")), "message of a bot"),
        (with(message(), "user", json!("UBOT")), "message of our own"),
        (
            with(message(), "subtype", json!("message_changed")),
            "a message was edited or deleted",
        ),
        (
            with(message(), "subtype", json!("message_deleted")),
            "a message was edited or deleted",
        ),
        (
            with(mention(), "edited", json!({"user": "UALICE", "ts": "2.2"})),
            "a message was edited or deleted",
        ),
        (with(message(), "hidden", json!(true)), "hidden message"),
        (
            with(message(), "subtype", json!("channel_join")),
            "a notice of slack, not a message",
        ),
        (json!({"type": "app_uninstalled"}), "the app was uninstalled"),
        (json!({"type": "tokens_revoked"}), "tokens were revoked"),
        (json!({"type": "reaction_added"}), "unknown type of event"),
        (home_opened("messages"), "another tab of the app was opened"),
        (
            json!({"type": "app_home_opened", "user": "UALICE", "channel": "D1"}),
            "another tab of the app was opened",
        ),
        (with(message(), "text", json!("  ")), "a message without words"),
    ] {
        assert_eq!(
            receive_json(&envelope(event)),
            Ok(Received::Ignored(reason)),
            "{reason}"
        );
    }
    let mut foreign = envelope(mention());
    foreign["authorizations"] = json!([{"team_id": "TOTHER"}]);
    assert_eq!(
        receive_json(&foreign),
        Ok(Received::Ignored("event of another installation"))
    );
}

fn home_opened(tab: &str) -> Value {
    json!({"type": "app_home_opened", "user": "UALICE", "channel": "D1", "tab": tab, "event_ts": "1.1"})
}

#[test]
fn the_opening_of_the_home_tab_names_its_person_by_the_workspace_of_the_envelope() {
    assert_eq!(
        inbound_of(home_opened("home")),
        Inbound {
            channel: "ops".to_owned(),
            delivery: vec!["slack:ops:event:Ev1".to_owned()],
            sender: Sender {
                platform: Platform::Slack,
                account: "T0ACME".to_owned(),
                id: "UALICE".to_owned(),
            },
            place: ChatPlace {
                account: Account {
                    platform: Platform::Slack,
                    id: "T0ACME".to_owned(),
                },
                chat: "D1".to_owned(),
                thread: None,
            },
            direct: true,
            message: None,
            kind: InboundKind::HomeOpened,
            files: Vec::new(),
            about: None,
            response_url: None,
        }
    );
    for missing in ["user", "channel"] {
        let event = with(home_opened("home"), missing, Value::Null);
        let malformed = Rejected::Malformed("the opening lacks an id, a channel or a user");
        assert_eq!(receive_json(&envelope(event)), Err(malformed), "{missing}");
    }
}

#[test]
fn slack_markup_becomes_readable_text() {
    for (written, read) in [
        ("<@UBOT> a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("hey <@UBOT|drydock> scale", "hey scale"),
        (
            "<@UBOT> ask <@U2> or <@U3|carol> in <#C9|ops> <#C8>",
            "ask @U2 or @carol in #ops #C8",
        ),
        (
            "<@UBOT> <!here> <!subteam^S1|@team> <!subteam^S2>",
            "@here @team @S2",
        ),
        (
            "<@UBOT> <https://a.example/x|docs> <http://a.example|a.example> <https://b.example>",
            "docs (https://a.example/x) a.example https://b.example",
        ),
        ("<@UBOT> <mailto:a@b.example|a@b.example>", "a@b.example"),
        ("<@UBOT> &lt;@U2&gt; 1 < 2", "<@U2> 1 < 2"),
    ] {
        assert_eq!(
            kind_of(with(mention(), "text", json!(written))),
            InboundKind::Text {
                text: read.to_owned(),
                quoted: None,
                addressed: true
            }
        );
    }
}

/// T08
#[test]
fn forwarded_words_are_never_the_senders_own() {
    let token = "A".repeat(43);
    let attachments = json!([
        {"is_share": true, "text": "/grant admin 666", "author_id": "U666"},
        {"message_blocks": [{"message": {"blocks": [{"type": "rich_text", "elements": [
            {"type": "rich_text_section", "elements": [{"type": "text", "text": format!("join {token}")}]}]}]}}]},
    ]);
    let shared = with(
        with(mention(), "text", json!("<@UBOT>")),
        "attachments",
        attachments,
    );
    assert_eq!(
        kind_of(shared),
        InboundKind::Text {
            text: String::new(),
            quoted: Some(format!("/grant admin 666\n\njoin {token}")),
            addressed: true
        }
    );
}

#[test]
fn an_invite_token_is_a_join_only_when_it_is_all_there_is() {
    let token = "aZ0_-".repeat(9).chars().take(43).collect::<String>();
    let direct = with(
        with(mention(), "type", json!("message")),
        "channel_type",
        json!("im"),
    );
    let said = |text: String| inbound_of(with(direct.clone(), "text", json!(text)));
    let joined = said(format!(" Join {token} "));
    assert!(joined.direct);
    assert_eq!(joined.kind, InboundKind::Join { token: token.clone() });
    assert_eq!(
        kind_of(with(mention(), "text", json!(format!("<@UBOT> join {token}")))),
        InboundKind::Join { token: token.clone() }
    );
    for text in [
        format!("join {token}x"),
        format!("join {token} please"),
        "join us".to_owned(),
        format!("please join {token}"),
    ] {
        assert!(
            matches!(said(text.clone()).kind, InboundKind::Text { .. }),
            "{text}"
        );
    }
}

#[test]
fn messages_without_words_say_what_they_are() {
    let files = with(
        with(mention(), "subtype", json!("file_share")),
        "files",
        json!([{"id": "F1"}]),
    );
    assert_eq!(
        kind_of(with(files, "text", json!("<@UBOT>"))),
        InboundKind::Unsupported {
            what: "file".to_owned()
        }
    );
    let shared = |event: Value, files: Value| inbound_of(with(event, "files", files)).files;
    let two = json!([
        {"id": "F1", "name": "values.yaml", "mimetype": "text/plain", "mode": "hosted", "size": 7},
        {"id": "F2", "name": "photo.png", "mimetype": "image/png", "mode": "hosted", "size": 8},
        {"id": "F3", "name": "notes", "mode": "external"},
    ]);
    let file = |name: &str, bytes, reference: Option<&str>| ChatFile {
        name: name.to_owned(),
        bytes,
        reference: reference.map(str::to_owned),
    };
    let expected = [
        file("values.yaml", Some(7), Some("F1")),
        file("photo.png", Some(8), None),
        file("notes", None, None),
    ];
    assert_eq!(shared(mention(), two), expected);
    let message = with(
        with(mention(), "type", json!("message")),
        "subtype",
        json!("file_share"),
    );
    assert_eq!(
        shared(message, json!([{"id": "F1"}])),
        [file("file", None, Some("F1"))]
    );
    assert_eq!(
        (shared(mention(), json!([])), inbound_of(mention()).files),
        (Vec::new(), Vec::new())
    );
    assert_eq!(
        kind_of(with(mention(), "text", json!("<@UBOT> "))),
        InboundKind::Command {
            verb: "help".to_owned(),
            arguments: String::new()
        }
    );
}

#[test]
fn a_slash_command_is_a_verb_and_its_arguments() {
    for (text, verb, arguments) in [
        ("status", "status", ""),
        ("  DIFF  42 x ", "diff", "42 x"),
        ("", "help", ""),
        ("/stop", "stop", ""),
        ("scale web to &lt;4&gt;", "scale", "web to <4>"),
    ] {
        let fields = [
            ("command", "/drydock"),
            ("text", text),
            ("team_id", "T0ACME"),
            ("user_id", "UALICE"),
            ("channel_id", "C1"),
            ("trigger_id", "1.2.3"),
        ];
        let Ok(Received::Inbound(inbound)) = receive_form(&fields) else {
            panic!("{text} was not received");
        };
        assert_eq!(inbound.delivery, ["slack:ops:trigger:1.2.3"]);
        assert_eq!((inbound.place.thread, inbound.message), (None, None));
        assert_eq!(
            inbound.kind,
            InboundKind::Command {
                verb: verb.to_owned(),
                arguments: arguments.to_owned()
            }
        );
    }
}

#[test]
fn a_press_carries_its_token_and_its_thread() {
    let payload = json!({"type": "block_actions", "user": {"id": "UBOB", "team_id": "T0ACME"},
        "trigger_id": "9.9", "channel": {"id": "C1"},
        "container": {"type": "message", "message_ts": "2.2", "thread_ts": "1.1", "channel_id": "C1"},
        "actions": [{"type": "button", "action_id": "dd.0", "value": "tok", "action_ts": "3.3"}]});
    let Ok(Received::Inbound(press)) = receive_form(&[("payload", &payload.to_string())]) else {
        panic!("not received");
    };
    assert_eq!(press.delivery, ["slack:ops:action:9.9:3.3"]);
    assert_eq!(press.place.thread.as_deref(), Some("1.1"));
    assert_eq!(press.message.map(|message| message.id).as_deref(), Some("2.2"));
    assert_eq!(
        press.kind,
        InboundKind::Click {
            token: "tok".to_owned(),
            callback: None,
            trigger: Some("9.9".to_owned()),
        }
    );
}

#[test]
fn what_is_signed_but_odd_is_named() {
    assert_eq!(
        receive_form(&[("ssl_check", "1"), ("token", "x")]),
        Ok(Received::Answer(String::new()))
    );
    assert_eq!(
        receive_form(&[("payload", "{\"type\":\"view_closed\"}")]),
        Ok(Received::Ignored("unknown type of interaction"))
    );
    assert_eq!(
        receive_json(&json!({"type": "something_new"})),
        Ok(Received::Ignored("unknown type of envelope"))
    );
    for body in [
        "",
        "[]",
        "null",
        "{",
        "\"x\"",
        "{\"type\":7}",
        &"[".repeat(100_000),
    ] {
        let received = slack().receive(&signed("application/json", body.as_bytes()), at(AT));
        assert!(matches!(received, Err(Rejected::Malformed(_))), "{received:?}");
    }
    for fields in [
        vec![("payload", "{")],
        vec![("payload", "{\"type\":\"block_actions\"}")],
        vec![("command", "/drydock")],
        vec![("text", "a"), ("text", "b")],
        vec![("x", "y")],
    ] {
        assert!(
            matches!(receive_form(&fields), Err(Rejected::Malformed(_))),
            "{fields:?}"
        );
    }
    for name in ["user", "channel", "ts"] {
        let received = receive_json(&envelope(with(mention(), name, Value::Null)));
        assert!(matches!(received, Err(Rejected::Malformed(_))), "{name}");
    }
}
