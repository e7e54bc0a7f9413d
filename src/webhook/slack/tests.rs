//! Signed requests as Slack sends them, and as others would like to.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::{Received, Rejected, Webhook, webhook};
use crate::config::SlackSettings;
use crate::model::{Account, Inbound, Installation, Kind, MessageRef, Place, Platform, Secret, Sender};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::Sha256;
use std::sync::Arc;

const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
const AT: i64 = 1_531_420_618;
const DOCUMENTED_BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
const DOCUMENTED_SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

fn slack() -> Arc<dyn Webhook> {
    slack_named("ops")
}

fn slack_named(name: &str) -> Arc<dyn Webhook> {
    let secret = |text: &str| Secret::new(text.to_owned());
    let settings = SlackSettings {
        bot_token: secret("xoxb-1"),
        signing_secret: secret(SECRET),
        api_base_url: String::new(),
        repository: None,
    };
    let installation = Installation {
        account: Account {
            platform: Platform::Slack,
            id: "T0ACME".to_owned(),
        },
        bot_id: "UBOT".to_owned(),
        bot_name: "drydock".to_owned(),
    };
    webhook(name, &settings, &installation).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn sign(secret: &str, seconds: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("v0:{seconds}:").as_bytes());
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v0={hex}")
}

fn request(headers: &[(&str, &[u8])], body: &[u8]) -> Request<Bytes> {
    let mut builder = Request::post("/in/slack");
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Bytes::copy_from_slice(body)).unwrap()
}

fn signed(content_type: &str, body: &[u8]) -> Request<Bytes> {
    let seconds = AT.to_string();
    let signature = sign(SECRET, &seconds, body);
    request(
        &[
            ("x-slack-request-timestamp", seconds.as_bytes()),
            ("x-slack-signature", signature.as_bytes()),
            ("content-type", content_type.as_bytes()),
            ("x-slack-retry-num", b"1"),
        ],
        body,
    )
}

fn receive_json(body: &Value) -> Result<Received, Rejected> {
    slack().receive(&signed("application/json", body.to_string().as_bytes()), at(AT))
}

fn receive_form(fields: &[(&str, &str)]) -> Result<Received, Rejected> {
    let body = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    slack().receive(
        &signed("application/x-www-form-urlencoded", body.as_bytes()),
        at(AT),
    )
}

fn envelope(event: Value) -> Value {
    json!({"type": "event_callback", "team_id": "T0ACME", "api_app_id": "A1", "event_id": "Ev1",
        "authorizations": [{"team_id": "T0ACME", "user_id": "UBOT", "is_bot": true}], "event": event})
}

fn mention() -> Value {
    json!({"type": "app_mention", "user": "UALICE", "team": "T0ACME", "channel": "C1",
        "ts": "1795293800.000300", "client_msg_id": "c-1", "text": "<@UBOT> scale web"})
}

fn with(mut event: Value, name: &str, value: Value) -> Value {
    event[name] = value;
    event
}

fn inbound_of(event: Value) -> Inbound {
    match receive_json(&envelope(event)) {
        Ok(Received::Inbound(inbound)) => *inbound,
        other => panic!("{other:?}"),
    }
}

fn kind_of(event: Value) -> Kind {
    inbound_of(event).kind
}

fn unauthenticated(result: &Result<Received, Rejected>) -> bool {
    matches!(result, Err(Rejected::Unauthenticated(_)))
}

/// CI-24
#[test]
fn the_documented_vector_is_accepted() {
    let headers: [(&str, &[u8]); 3] = [
        ("X-Slack-Request-Timestamp", b"1531420618"),
        ("X-Slack-Signature", DOCUMENTED_SIGNATURE.as_bytes()),
        ("Content-Type", b"application/x-www-form-urlencoded"),
    ];
    let received = slack().receive(&request(&headers, DOCUMENTED_BODY.as_bytes()), at(AT));
    assert!(matches!(received, Ok(Received::Inbound(_))), "{received:?}");
}

/// T11, T12, T13
#[test]
fn forty_ways_to_sign_wrongly_are_refused() {
    let body = br#"{"type":"url_verification","challenge":"x"}"#;
    let seconds = AT.to_string();
    let good = sign(SECRET, &seconds, body);
    let hex = good.strip_prefix("v0=").unwrap();
    let sha = format!("sha256={hex}");
    let long = format!("v0={}", "a".repeat(1 << 20));
    let signatures: Vec<String> = vec![
        String::new(),
        "v0".into(),
        "v0=".into(),
        hex.into(),
        sha.clone(),
        format!("v1={hex}"),
        format!("V0={hex}"),
        format!("v0 ={hex}"),
        format!("v0= {hex}"),
        format!("v0={hex} "),
        format!(" v0={hex}"),
        format!("v0={hex}\t"),
        format!("v0=0x{hex}"),
        format!("v0={hex}0"),
        format!("v0={hex}00"),
        good.chars().take(66).collect(),
        good.chars().take(65).collect(),
        good.chars().take(35).collect(),
        format!("v0=v0={hex}"),
        format!("v0={hex},v0={hex}"),
        format!("v0=\"{hex}\""),
        format!("v0={}", hex.replace(['0', '1', '2', '3'], "g")),
        format!("v0={}", hex.chars().rev().collect::<String>()),
        format!("v0={}", "0".repeat(64)),
        format!("v0={}", "f".repeat(64)),
        long,
        sign("another secret", &seconds, body),
        sign("", &seconds, body),
        sign(SECRET, "1531420619", body),
        sign(SECRET, "", body),
        sign(SECRET, &seconds, b""),
        sign(
            SECRET,
            &seconds,
            b"{\"type\":\"url_verification\",\"challenge\":\"x\"} ",
        ),
    ];
    let mut table: Vec<Vec<(&str, &[u8])>> = signatures
        .iter()
        .map(|signature| {
            vec![
                ("x-slack-request-timestamp", seconds.as_bytes()),
                ("x-slack-signature", signature.as_bytes()),
            ]
        })
        .collect();
    let timestamp: (&str, &[u8]) = ("x-slack-request-timestamp", seconds.as_bytes());
    let signature: (&str, &[u8]) = ("x-slack-signature", good.as_bytes());
    let bad: (&str, &[u8]) = ("x-slack-signature", b"v0=00");
    table.extend([
        vec![],
        vec![timestamp],
        vec![signature],
        vec![timestamp, signature, signature],
        vec![timestamp, signature, bad],
        vec![timestamp, bad, signature],
        vec![timestamp, timestamp, signature],
        vec![timestamp, signature, ("x-hub-signature-256", sha.as_bytes())],
        vec![("x-hub-signature", b"sha1=0"), timestamp, signature],
        vec![("x-telegram-bot-api-secret-token", b"s"), timestamp, signature],
        vec![("x-webhook-signature", hex.as_bytes())],
        vec![timestamp, ("x-slack-signature", b"v0=\xff\xfe")],
        vec![("x-slack-request-timestamp", b"1531420618 "), signature],
        vec![("x-slack-request-timestamp", b"+1531420618"), signature],
        vec![("x-slack-request-timestamp", b"0x5b479dca"), signature],
    ]);
    assert!(table.len() >= 40);
    for mut headers in table {
        headers.push(("content-type", b"application/json"));
        let received = slack().receive(&request(&headers, body), at(AT));
        assert!(unauthenticated(&received), "{headers:?} gave {received:?}");
    }
}

/// T16
#[test]
fn a_replay_is_told_from_a_forgery() {
    let body = json!({"type": "url_verification", "challenge": "x"}).to_string();
    for (difference, expected) in [
        (0, Ok(Received::Answer("x".to_owned()))),
        (300, Ok(Received::Answer("x".to_owned()))),
        (-300, Ok(Received::Answer("x".to_owned()))),
        (301, Err(Rejected::Unauthenticated("hook.stale"))),
        (-301, Err(Rejected::Unauthenticated("hook.stale"))),
    ] {
        let request = signed("application/json", body.as_bytes());
        assert_eq!(
            slack().receive(&request, at(AT + difference)),
            expected,
            "{difference}"
        );
    }
    let mut forged = signed("application/json", body.as_bytes());
    *forged.body_mut() = Bytes::from_static(b"{}");
    assert_eq!(
        slack().receive(&forged, at(AT + 301)),
        Err(Rejected::Unauthenticated("hook.forged"))
    );
}

/// T17
#[test]
fn one_flipped_byte_is_one_too_many() {
    let body = envelope(mention()).to_string();
    for index in 0..body.len() {
        let mut request = signed("application/json", body.as_bytes());
        let mut tampered = body.clone().into_bytes();
        tampered[index] ^= 1;
        *request.body_mut() = Bytes::from(tampered);
        assert!(unauthenticated(&slack().receive(&request, at(AT))), "{index}");
    }
    let pretty = serde_json::to_string_pretty(&envelope(mention())).unwrap();
    let mut request = signed("application/json", body.as_bytes());
    *request.body_mut() = Bytes::from(pretty);
    assert!(unauthenticated(&slack().receive(&request, at(AT))));
}

/// T17
#[test]
fn encoded_bodies_and_other_types_are_not_accepted() {
    for encoding in ["gzip", "deflate", "br", "identity", ""] {
        let mut request = signed("application/json", b"{}");
        request
            .headers_mut()
            .insert("content-encoding", encoding.parse().unwrap());
        let received = slack().receive(&request, at(AT));
        assert!(matches!(received, Err(Rejected::Unsupported(_))), "{encoding}");
    }
    for content_type in [
        "text/plain",
        "multipart/form-data; boundary=x",
        "",
        "application/jsonp",
    ] {
        let received = slack().receive(&signed(content_type, b"{}"), at(AT));
        assert!(
            matches!(received, Err(Rejected::Unsupported(_))),
            "{content_type}"
        );
    }
    let received = slack().receive(&signed("Application/JSON; charset=utf-8", b"{}"), at(AT));
    assert_eq!(received, Err(Rejected::Malformed("the body is not an event")));
}

/// T21
#[test]
fn a_challenge_is_answered_only_when_signed_and_short() {
    let challenge = |text: &str| json!({"type": "url_verification", "challenge": text});
    let limit = "ä".repeat(256);
    assert_eq!(receive_json(&challenge(&limit)), Ok(Received::Answer(limit)));
    assert_eq!(
        receive_json(&challenge(&"x".repeat(257))),
        Err(Rejected::Malformed("the challenge is too long"))
    );
    assert_eq!(
        receive_json(&json!({"type": "url_verification"})),
        Err(Rejected::Malformed("the challenge is missing"))
    );
    let unsigned = request(
        &[("content-type", b"application/json")],
        challenge("x").to_string().as_bytes(),
    );
    assert!(unauthenticated(&slack().receive(&unsigned, at(AT))));
}

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
            place: Place {
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
            kind: Kind::Text {
                text: "scale web".to_owned(),
                quoted: None,
                addressed: true,
            },
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

/// Both hear the same event; if a name of one were a name of the other, one would stay silent.
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
        Kind::Text {
            text: "and staging too".to_owned(),
            quoted: None,
            addressed: false
        }
    );
}

/// T03
#[test]
fn a_stranger_with_our_admins_id_is_another_person() {
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
            Kind::Text {
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
        Kind::Text {
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
    assert_eq!(joined.kind, Kind::Join { token: token.clone() });
    assert_eq!(
        kind_of(with(mention(), "text", json!(format!("<@UBOT> join {token}")))),
        Kind::Join { token: token.clone() }
    );
    for text in [
        format!("join {token}x"),
        format!("join {token} please"),
        "join us".to_owned(),
        format!("please join {token}"),
    ] {
        assert!(matches!(said(text.clone()).kind, Kind::Text { .. }), "{text}");
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
        Kind::Unsupported {
            what: "file".to_owned()
        }
    );
    assert_eq!(
        kind_of(with(mention(), "text", json!("<@UBOT> "))),
        Kind::Command {
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
            Kind::Command {
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
        Kind::Click {
            token: "tok".to_owned(),
            callback: None
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
        receive_form(&[("payload", "{\"type\":\"view_submission\"}")]),
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
