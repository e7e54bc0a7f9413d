//! `drydock telegram setup` and `drydock channel test`: the real program between emulators of the platforms.

use crate::support::schemas::{self, SentTo};
use crate::support::shell::{ProgramOutput, Shell};
use drydock::base::http_client;
use drydock::simulation::emulator::slack::{RateLimits, SlackEmulator, SlackFault, SlackOptions};
use drydock::simulation::emulator::telegram::{TelegramEmulator, TelegramFault};
use jiff::{Span, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const TELEGRAM_TOKEN: &str = "7700000001:AAF0fKqL2mNpR5sTuVwXyZ12345678abcde";
pub(crate) const SLACK_TOKEN: &str = "xoxb-7700000001-AbCdEfGh12345678";
const SIGNING_SECRET: &str = "8f742231b10e8888abcd99aa1122bb33";

/// A home with a configuration, and both platforms.
pub(crate) struct ChannelSetup {
    pub(crate) shell: Shell,
    pub(crate) slack: SlackEmulator,
    pub(crate) telegram: TelegramEmulator,
}

impl ChannelSetup {
    pub(crate) async fn new() -> Self {
        let http = http_client::api_client().unwrap();
        let slack = SlackEmulator::start(SlackOptions {
            team: "T0ACME".to_owned(),
            bot_user: "U0DRYDOCK".to_owned(),
            bot_name: "drydock".to_owned(),
            bot_token: SLACK_TOKEN.to_owned(),
            signing_secret: SIGNING_SECRET.to_owned(),
            rate_limits: RateLimits::Off,
            at: Timestamp::now,
            http: http.clone(),
        });
        let setup = Self {
            shell: Shell::new()
                .set("SLACK_BOT_TOKEN", SLACK_TOKEN)
                .set("SLACK_SIGNING_SECRET", SIGNING_SECRET)
                .set("TELEGRAM_BOT_TOKEN", TELEGRAM_TOKEN)
                .set("TELEGRAM_SECRET", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"),
            slack: slack.await.unwrap(),
            telegram: TelegramEmulator::start(TELEGRAM_TOKEN, http).await.unwrap(),
        };
        setup.slack.record_traffic();
        setup.telegram.record_traffic();
        setup.configure("");
        setup
    }

    /// Writes a configuration with both channels; `telegram` are more keys of the bot.
    fn configure(&self, telegram: &str) {
        let text = format!(
            "[server]\npublic_url = \"https://drydock.example.com\"\n\n[channels.work]\nkind = \"slack\"\n\
             bot_token = {{ env = \"SLACK_BOT_TOKEN\" }}\nsigning_secret = {{ env = \"SLACK_SIGNING_SECRET\" }}\n\
             api_base_url = \"{}\"\n\n[channels.bot]\nkind = \"telegram\"\n\
             bot_token = {{ env = \"TELEGRAM_BOT_TOKEN\" }}\napi_base_url = \"{}\"\n{telegram}",
            self.slack.api_base_url(),
            self.telegram.api_base_url(),
        );
        self.shell.put("drydock.toml", &text);
    }

    pub(crate) fn use_webhook(&self) {
        self.configure("mode = \"webhook\"\nsecret_token = { env = \"TELEGRAM_SECRET\" }\n");
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let ended = tokio::task::block_in_place(|| self.shell.run(arguments));
        for secret in [
            SLACK_TOKEN,
            TELEGRAM_TOKEN,
            SIGNING_SECRET,
            "AAF0fKqL2mNpR5sTuVwXyZ12345678abcde",
        ] {
            assert!(!format!("{ended:?}").contains(secret), "{ended:?}");
        }
        ended
    }

    /// Runs the set-up. Returns the result of each part.
    fn set_up(&self) -> BTreeMap<String, String> {
        let ended = self.run(&["telegram", "setup", "--json"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let answer = ended.json();
        assert_eq!((&answer["channel"], &answer["ok"]), (&json!("bot"), &json!(true)));
        results(&answer["steps"], "part")
    }

    /// Tests channels. Returns the findings and the exit code.
    fn test(&self, names: &[&str]) -> (Option<i32>, Vec<Value>) {
        let ended = self.run(&[&["channel", "test", "--json"], names].concat());
        let answer = ended.json();
        assert_eq!(answer["ok"], ended.code == Some(0), "{ended:?}");
        (ended.code, answer["findings"].as_array().unwrap().clone())
    }

    fn called(&self, method: &str) -> usize {
        let calls = self.telegram.calls();
        calls.iter().filter(|(called, _)| called == method).count()
    }
}

impl Drop for ChannelSetup {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let mut problems = schemas::problems(SentTo::Slack, &self.slack.traffic());
            problems.extend(schemas::problems(SentTo::Telegram, &self.telegram.traffic()));
            assert!(problems.is_empty(), "left behind:\n{}", problems.join("\n"));
        }
    }
}

fn results(entries: &Value, name: &str) -> BTreeMap<String, String> {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let entries = entries.as_array().unwrap().iter();
    entries
        .map(|entry| (text(entry, name), text(entry, "result")))
        .collect()
}

/// Returns the finding about a subject.
pub(crate) fn finding<'a>(findings: &'a [Value], subject: &str) -> &'a Value {
    let found = findings.iter().find(|finding| finding["check"] == subject);
    found.unwrap_or_else(|| panic!("nothing about {subject} in {findings:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_is_registered_once_and_a_second_set_up_changes_nothing() {
    let setup = ChannelSetup::new().await;
    setup.use_webhook();
    let first = setup.set_up();
    let parts = [
        "commands",
        "commands in groups",
        "commands in private chats",
        "description",
        "short description",
        "webhook",
    ];
    let all = |word: &str| parts.map(|part| (part.to_owned(), word.to_owned())).into();
    assert_eq!(first, all("changed"));
    let mut again = all("unchanged");
    // Telegram does not show the secret, so it is sent again.
    again.insert("webhook".to_owned(), "renewed".to_owned());
    assert_eq!(setup.set_up(), again);
    for method in ["setMyDescription", "setMyShortDescription"] {
        assert_eq!(setup.called(method), 1, "{method}");
    }
    assert_eq!(setup.called("setMyCommands"), 3);
    let names = |scope: &str| {
        let commands = setup.telegram.suggested_commands(scope).into_iter();
        let names = commands.map(|command| command["command"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let (private, group) = (names("all_private_chats"), names("all_group_chats"));
    assert!(private.contains(&"zone".to_owned()) && !group.contains(&"zone".to_owned()));
    assert!(private.contains(&"block".to_owned()) && !group.contains(&"block".to_owned()));
    assert!(group.contains(&"stop".to_owned()));
    assert_eq!(names("default"), private);
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
    let shown = setup.run(&["telegram", "setup"]);
    assert_eq!((shown.code, shown.err.as_str()), (Some(0), ""), "{shown:?}");
    let webhook = shown
        .out
        .lines()
        .find(|line| line.starts_with("webhook"))
        .unwrap();
    assert!(
        webhook.contains("https://drydock.example.com/in/bot with its secret"),
        "{webhook}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_polled_bot_loses_the_webhook_that_stops_its_polls() {
    let setup = ChannelSetup::new().await;
    assert_eq!(setup.set_up()["webhook"], "unchanged");
    setup
        .telegram
        .connect_to("https://other.example.com/secret-path", "s");
    let ended = setup.run(&["telegram", "setup"]);
    assert!(ended.out.contains("it was at other.example.com\n"), "{ended:?}");
    assert!(!ended.out.contains("secret-path"), "{ended:?}");
    assert_eq!(setup.set_up()["webhook"], "unchanged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_that_fails_half_way_says_what_it_did() {
    let setup = ChannelSetup::new().await;
    let fault = TelegramFault::Refused(400, "Bad Request: no".to_owned());
    setup.telegram.fail("setMyDescription", 1, fault);
    let ended = setup.run(&["telegram", "setup", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let answer = ended.json();
    assert_eq!(
        (&answer["ok"], answer["steps"].as_array().unwrap().len()),
        (&json!(false), 4)
    );
    assert_eq!(answer["error"], "channel bot: refused: 400 Bad Request: no");
    let rest = setup.set_up();
    assert_eq!(
        (rest["commands"].as_str(), rest["description"].as_str()),
        ("unchanged", "changed")
    );
    setup.telegram.revoke_token();
    let ended = setup.run(&["telegram", "setup"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("the token is refused"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_needs_exactly_one_bot() {
    let setup = ChannelSetup::new().await;
    let ended = setup.run(&["telegram", "setup", "--channel", "work"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    assert!(
        ended
            .err
            .contains("name a channel of telegram with --channel: bot"),
        "{ended:?}"
    );
    setup.shell.put("drydock.toml", "");
    let ended = setup.run(&["telegram", "setup"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(
        ended.err.contains("`drydock channel add telegram` adds one"),
        "{ended:?}"
    );
}

/// STK-25
#[tokio::test(flavor = "multi_thread")]
async fn channels_are_tested_at_their_platforms() {
    let setup = ChannelSetup::new().await;
    let (code, findings) = setup.test(&[]);
    assert_eq!(code, Some(0), "{findings:?}");
    let all: Vec<(&str, &str)> = findings
        .iter()
        .map(|finding| {
            (
                finding["channel"].as_str().unwrap(),
                finding["check"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("bot", "token"),
        ("bot", "webhook"),
        ("bot", "clock"),
        ("work", "token"),
        ("work", "scopes"),
        ("work", "clock"),
    ];
    assert_eq!(all, expected);
    let shown = setup.run(&["channel", "test", "work"]);
    assert!(
        shown.out.contains("drydock in the workspace Acme (T0ACME)"),
        "{shown:?}"
    );
    assert!(!shown.out.contains("bot  "), "{shown:?}");
    // A test changes nothing.
    assert!(
        setup
            .telegram
            .calls()
            .iter()
            .all(|(method, _)| method.starts_with("get"))
    );
}

/// STK-25
#[tokio::test(flavor = "multi_thread")]
async fn each_fault_of_a_slack_app_is_found_with_its_fix() {
    let setup = ChannelSetup::new().await;
    setup.slack.withdraw("files:write");
    let (code, findings) = setup.test(&["work"]);
    let scopes = finding(&findings, "scopes");
    assert_eq!((code, &scopes["result"]), (Some(1), &json!("FAILED")));
    assert_eq!(
        scopes["detail"],
        "no files:write, which sends files, such as patches"
    );
    assert!(
        scopes["fix"]
            .as_str()
            .unwrap()
            .starts_with("add files:write under OAuth & Permissions")
    );
    setup.slack.hide_scopes();
    let (code, findings) = setup.test(&["work"]);
    assert_eq!(
        (code, &finding(&findings, "scopes")["result"]),
        (Some(0), &json!("warning"))
    );
    setup.slack.refuse_token("token_revoked");
    let (code, findings) = setup.test(&["work"]);
    let token = finding(&findings, "token");
    assert_eq!((code, findings.len()), (Some(1), 1));
    assert_eq!(token["detail"], "the token is refused: token_revoked");
    assert!(
        token["fix"]
            .as_str()
            .unwrap()
            .starts_with("set channels.work.bot_token to the Bot User OAuth Token")
    );
    setup.slack.restore_token();
    let unavailable = SlackFault::Status {
        status: 503,
        retry_after_seconds: None,
    };
    setup.slack.fail_next("auth.test", 1, unavailable);
    let (code, findings) = setup.test(&["work"]);
    assert_eq!((code, findings.len()), (Some(1), 1), "{findings:?}");
}

/// STK-25
#[tokio::test(flavor = "multi_thread")]
async fn each_fault_of_a_bot_is_found_with_its_fix() {
    let setup = ChannelSetup::new().await;
    setup.telegram.connect_to("https://other.example.com/x", "s");
    let (code, findings) = setup.test(&["bot"]);
    let webhook = finding(&findings, "webhook");
    assert_eq!((code, &webhook["result"]), (Some(1), &json!("FAILED")));
    assert_eq!(
        webhook["detail"],
        "mode is polling, and Telegram sends updates to other.example.com"
    );
    assert!(
        webhook["fix"]
            .as_str()
            .unwrap()
            .contains("drydock telegram setup")
    );
    setup.use_webhook();
    let (code, findings) = setup.test(&["bot"]);
    let detail = &finding(&findings, "webhook")["detail"];
    assert_eq!(code, Some(1));
    assert_eq!(
        detail,
        "Telegram sends updates to other.example.com, not to https://drydock.example.com/in/bot"
    );
    setup.set_up();
    let (code, findings) = setup.test(&["bot"]);
    assert_eq!(
        (code, &finding(&findings, "webhook")["result"]),
        (Some(0), &json!("ok"))
    );
    let now = Timestamp::now().as_second();
    setup
        .telegram
        .record_webhook_error(now - 60, "Connection refused");
    let (code, findings) = setup.test(&["bot"]);
    let deliveries = finding(&findings, "deliveries");
    assert_eq!((code, &deliveries["result"]), (Some(0), &json!("warning")));
    assert!(
        deliveries["detail"]
            .as_str()
            .unwrap()
            .contains("Connection refused; 0 updates wait")
    );
    setup
        .telegram
        .record_webhook_error(now - 3 * 86_400, "Connection refused");
    let (_, findings) = setup.test(&["bot"]);
    assert!(
        findings.iter().all(|finding| finding["check"] != "deliveries"),
        "{findings:?}"
    );
    setup.telegram.keep_groups_private();
    let (code, findings) = setup.test(&["bot"]);
    let groups = finding(&findings, "groups");
    assert_eq!((code, &groups["result"]), (Some(0), &json!("warning")));
    assert!(groups["fix"].as_str().unwrap().contains("/setprivacy"));
    setup.telegram.revoke_token();
    let (code, findings) = setup.test(&["bot"]);
    assert_eq!((code, findings.len()), (Some(1), 1));
    assert!(
        finding(&findings, "token")["fix"]
            .as_str()
            .unwrap()
            .contains("@BotFather")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_differs_by_more_than_a_minute_is_found() {
    let setup = ChannelSetup::new().await;
    for (seconds, result) in [(30, "ok"), (-30, "ok"), (90, "FAILED"), (-90, "FAILED")] {
        let date = Timestamp::now() + Span::new().seconds(seconds);
        setup.slack.show_date(date);
        setup.telegram.show_date(date);
        let (_, findings) = setup.test(&[]);
        let clocks: Vec<&Value> = findings
            .iter()
            .filter(|finding| finding["check"] == "clock")
            .collect();
        assert_eq!(clocks.len(), 2);
        for clock in clocks {
            assert_eq!(clock["result"], result, "{seconds} {clock}");
            let direction = if seconds > 0 {
                " behind that of "
            } else {
                " ahead of that of "
            };
            let detail = clock["detail"].as_str().unwrap();
            assert_eq!(detail.contains(direction), result == "FAILED", "{detail}");
        }
    }
}
