//! Tests of the emulator itself: if it accepted everything, the other tests would prove nothing.

use super::*;
use serde_json::{Value, json};

/// Calls the Bot API and returns the status and the description of its answer.
pub(super) async fn call(telegram: &TelegramEmulator, method: &str, parameters: &Value) -> (u16, String) {
    let url = format!("{}/bot{TOKEN}/{method}", telegram.api_base_url());
    let mut response = client().post(url).json(parameters).send().await.unwrap();
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        body.extend_from_slice(&chunk);
    }
    let body: Value = serde_json::from_slice(&body).unwrap();
    (
        status,
        body["description"].as_str().unwrap_or_default().to_owned(),
    )
}

fn message(extra: Value) -> Value {
    let mut message =
        json!({"chat_id": ALICE, "text": "hello 🚢", "link_preview_options": {"is_disabled": true}});
    let fields = message.as_object_mut().unwrap();
    fields.extend(extra.as_object().unwrap().clone());
    message
}

fn marked(entities: Value) -> Value {
    message(json!({"entities": entities}))
}

/// T61, T73, T74, T77
#[tokio::test]
async fn every_invalid_message_is_refused_and_recorded_as_a_problem() {
    let setup = Setup::new().await;
    let pre = |offset: usize, length: usize| json!({"type": "pre", "offset": offset, "length": length});
    let bold = |offset: usize, length: usize| json!({"type": "bold", "offset": offset, "length": length});
    let button =
        |data: String| json!({"reply_markup": {"inline_keyboard": [[{"text": "b", "callback_data": data}]]}});
    let link = json!({"type": "text_link", "offset": 0, "length": 1, "url": "javascript:alert(1)"});
    let wrong = [
        (message(json!({"text": ""})), "message text is empty"),
        (message(json!({"text": "x".repeat(4097)})), "message is too long"),
        (message(json!({"text": "🚢".repeat(2049)})), "message is too long"),
        (
            message(json!({"parse_mode": "HTML"})),
            "unknown parameter `parse_mode`",
        ),
        (
            message(json!({"link_preview_options": {}})),
            "link previews are not disabled",
        ),
        (
            message(json!({"text": "hi @alice"})),
            "telegram would make a mention of `@alice`",
        ),
        (
            message(json!({"text": "/stop"})),
            "telegram would make a bot_command of `/stop`",
        ),
        (
            message(json!({"text": "see evil.com"})),
            "telegram would make a url of `l.com`",
        ),
        (message(button(String::new())), "BUTTON_DATA_INVALID"),
        (message(button("ä".repeat(33))), "BUTTON_DATA_INVALID"),
        (
            marked(json!([bold(0, 9)])),
            "can't parse entities: outside the text",
        ),
        (
            marked(json!([bold(0, 0)])),
            "can't parse entities: outside the text",
        ),
        (
            marked(json!([bold(0, 7)])),
            "can't parse entities: inside a character",
        ),
        (
            marked(json!([bold(7, 1)])),
            "can't parse entities: inside a character",
        ),
        (
            marked(json!([bold(0, 3), pre(1, 1)])),
            "can't parse entities: bold and pre nested",
        ),
        (
            marked(json!([bold(0, 3), pre(2, 3)])),
            "can't parse entities: bold and pre cross",
        ),
        (marked(json!([link])), "can't parse entities: link without https"),
        (
            marked(json!([{"type": "url", "offset": 0, "length": 1}])),
            "can't parse entities: unknown type `url`",
        ),
        (marked(json!(vec![bold(0, 1); 101])), "too many entities"),
    ];
    for (parameters, why) in &wrong {
        let answer = call(&setup.telegram, "sendMessage", parameters).await;
        assert_eq!(answer, (400, format!("Bad Request: {why}")), "{parameters}");
    }
    assert_eq!(setup.telegram.problems().len(), wrong.len());
    assert!(setup.telegram.messages(ALICE).is_empty());
}

#[tokio::test]
async fn errors_a_correct_bot_can_meet_are_refused_but_not_recorded_as_problems() {
    let setup = Setup::new().await;
    let lost = json!({"reply_parameters": {"message_id": 9}});
    for (parameters, why) in [
        (message(json!({"chat_id": 666})), "chat not found"),
        (
            message(json!({"chat_id": GROUP, "message_thread_id": 56})),
            "message thread not found",
        ),
        (message(lost), "message to be replied not found"),
    ] {
        let answer = call(&setup.telegram, "sendMessage", &parameters).await;
        assert_eq!(answer, (400, format!("Bad Request: {why}")));
    }
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

#[test]
fn a_group_takes_twenty_messages_a_minute() {
    let mut rates = super::super::state::Rates::default();
    let start = tokio::time::Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    for second in 0..20 {
        assert_eq!(rates.count(GROUP, at(second)), Ok(()));
    }
    assert_eq!(rates.count(GROUP, at(20)), Err(40));
    assert_eq!(rates.count(GROUP, at(60)), Ok(()));
    // Other chats accept short bursts, and 60 per minute.
    let burst = [(); 5].map(|()| rates.count(ALICE, at(60)));
    assert_eq!(burst, [Ok(()), Ok(()), Ok(()), Ok(()), Err(1)]);
    for second in 61..117 {
        assert_eq!(rates.count(ALICE, at(second)), Ok(()));
    }
    assert_eq!(rates.count(ALICE, at(117)), Err(3));
    assert_eq!(rates.refused, 3);
}

#[tokio::test]
async fn a_method_nobody_knows_is_not_found() {
    let setup = Setup::new().await;
    let answer = call(&setup.telegram, "sendPigeon", &json!({})).await;
    assert_eq!(answer, (404, "Not Found: method not found".to_owned()));
    assert_eq!(setup.telegram.problems().len(), 1);
}

#[tokio::test]
async fn a_path_that_names_no_bot_is_unauthorized() {
    let setup = Setup::new().await;
    let paths = [
        "/".to_owned(),
        "/getMe".to_owned(),
        format!("/bot{TOKEN}"),
        format!("/{TOKEN}/getMe"),
        format!("/bot{TOKEN}x/getMe"),
        "/bot/getMe".to_owned(),
        "/bot1:other/getMe".to_owned(),
        format!("//bot{TOKEN}/getMe"),
        format!("/bot{}/getMe", TOKEN.replace(':', "%3A")),
        "/bot%ff/getMe".to_owned(),
    ];
    for path in &paths {
        let url = format!("{}{path}", setup.telegram.api_base_url());
        let response = client().post(url).json(&json!({})).send().await.unwrap();
        assert_eq!(response.status(), 401, "{path}");
    }
    let problems = setup.telegram.problems();
    assert_eq!(problems, paths.map(|path| format!("{path}: Unauthorized")));
}

/// Sends a file with a caption, as a form, and returns the answer like [`call`].
async fn caption(telegram: &TelegramEmulator, caption: &str, entities: &str) -> (u16, String) {
    let field = |name: &str, value: &str| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let file =
        "--b\r\nContent-Disposition: form-data; name=\"document\"; filename=\"a\"\r\n\r\nx\r\n--b--\r\n";
    let body = [
        field("chat_id", &ALICE.to_string()),
        field("caption", caption),
        field("caption_entities", entities),
        file.to_owned(),
    ]
    .concat();
    let url = format!("{}/bot{TOKEN}/sendDocument", telegram.api_base_url());
    let request = client().post(url).body(body);
    let request = request.header("content-type", "multipart/form-data; boundary=b");
    let mut response = request.send().await.unwrap();
    let mut answer = Vec::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        answer.extend_from_slice(&chunk);
    }
    let status = response.status().as_u16();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    (
        status,
        answer["description"].as_str().unwrap_or_default().to_owned(),
    )
}

#[tokio::test]
async fn every_wrong_caption_is_refused() {
    let setup = Setup::new().await;
    let code = |length: usize| json!([{"type": "code", "offset": 0, "length": length}]).to_string();
    let ok = caption(&setup.telegram, &"x".repeat(1_024), &code(1_024)).await;
    assert_eq!(ok, (200, String::new()));
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
    for (text, entities, why) in [
        ("x".repeat(1_025), "[]".to_owned(), "message is too long"),
        ("x".to_owned(), code(2), "can't parse entities: outside the text"),
        (
            "x".to_owned(),
            "code".to_owned(),
            "can't parse entities: not a list of them",
        ),
    ] {
        let answer = caption(&setup.telegram, &text, &entities).await;
        assert_eq!(answer, (400, format!("Bad Request: {why}")));
    }
    assert_eq!(setup.telegram.problems().len(), 3);
}

#[tokio::test]
async fn the_registration_of_a_bot_keeps_the_limits_of_telegram() {
    let telegram = TelegramEmulator::start(TOKEN, client()).await.unwrap();
    let command = |name: &str, about: &str| json!({"command": name, "description": about});
    let commands = |count: usize| {
        let names = (0..count).map(|number| command(&format!("c_{number}"), "x"));
        json!({"commands": names.collect::<Vec<_>>()})
    };
    let one = |name: &str, about: &str| json!({"commands": [command(name, about)]});
    let scoped = |scope: Value| json!({"commands": [], "scope": scope});
    let long = |chars: usize| "ä".repeat(chars);
    for (method, parameters, code) in [
        ("setMyCommands", commands(100), 200),
        ("setMyCommands", commands(101), 400),
        ("setMyCommands", one(&"a".repeat(32), &long(256)), 200),
        ("setMyCommands", one(&"a".repeat(33), "x"), 400),
        ("setMyCommands", one("Help", "x"), 400),
        ("setMyCommands", one("help", ""), 400),
        ("setMyCommands", one("help", &long(257)), 400),
        ("setMyCommands", scoped(json!({"type": "all_group_chats"})), 200),
        ("setMyCommands", scoped(json!({"type": "everybody"})), 400),
        (
            "setMyCommands",
            scoped(json!({"type": "chat", "chat_id": 12_345})),
            400,
        ),
        (
            "setMyCommands",
            json!({"commands": [], "language_code": "english"}),
            400,
        ),
        ("setMyDescription", json!({"description": long(512)}), 200),
        ("setMyDescription", json!({"description": long(513)}), 400),
        (
            "setMyShortDescription",
            json!({"short_description": long(120)}),
            200,
        ),
        (
            "setMyShortDescription",
            json!({"short_description": long(121)}),
            400,
        ),
        (
            "setMyShortDescription",
            json!({"short_description": "x", "language_code": "E"}),
            400,
        ),
    ] {
        let (status, why) = call(&telegram, method, &parameters).await;
        assert_eq!(status, code, "{method} {parameters}: {why}");
    }
    // A language without its own text shows that of all languages.
    for language in [json!({}), json!({"language_code": "de"})] {
        let described = telegram_result(&telegram, "getMyDescription", &language).await;
        assert_eq!(described, json!({"description": long(512)}));
    }
    let own = telegram_result(
        &telegram,
        "getMyCommands",
        &json!({"scope": {"type": "all_private_chats"}}),
    )
    .await;
    assert_eq!(own, json!([]));
}

async fn telegram_result(telegram: &TelegramEmulator, method: &str, parameters: &Value) -> Value {
    let url = format!("{}/bot{TOKEN}/{method}", telegram.api_base_url());
    let mut response = client().post(url).json(parameters).send().await.unwrap();
    let body = response.chunk().await.unwrap().unwrap_or_default();
    serde_json::from_slice::<Value>(&body).unwrap()["result"].clone()
}
