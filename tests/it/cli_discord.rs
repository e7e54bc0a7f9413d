//! Discord with the real program: `init`, `channel add`, `channel test`, `doctor` and `serve`, as docs/connect.md says.

use crate::cli_channels::finding;
use crate::cli_serve::serve;
use crate::support::schemas::{self, SentTo};
use crate::support::shell::{ProgramOutput, Shell, commit};
use crate::support::source::root;
use drydock::base::http_client;
use drydock::simulation::emulator::discord::{DiscordEmulator, DiscordOptions, DiscordState};
use drydock::simulation::emulator::model::{ModelEmulator, ModelRequest, says};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const TOKEN: &str = "MTEwMDAwMDAwMDAwMDAwMDAwMQ.stage.canary-of-the-bot-token";
const KEY: &str = "sk-ant-test-0123456789";
const ALICE: u64 = 7_001;
const BOB: u64 = 7_002;
const BOT: u64 = 1_002;
const PLATFORM: u64 = 501;
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A home without a configuration, and the platform.
struct DiscordHome {
    shell: Shell,
    discord: DiscordEmulator,
}

impl DiscordHome {
    async fn new(model: &ModelEmulator) -> Self {
        let options = DiscordOptions {
            application: 1_001,
            bot: BOT,
            bot_token: TOKEN.to_owned(),
            guild: 900,
            signing_seed: [9; 32],
            closed_to: BTreeSet::new(),
            at: Timestamp::now,
            http: http_client::api_client().unwrap(),
        };
        let discord = DiscordEmulator::start(options).await.unwrap();
        discord.add_channel(PLATFORM, 0);
        discord.record_traffic();
        let shell = Shell::new()
            .set("DISCORD_BOT_TOKEN", TOKEN)
            .set("ANTHROPIC_API_KEY", KEY)
            .set("DRYDOCK_PROVIDERS__ANTHROPIC__BASE_URL", model.url())
            .set("DRYDOCK_CHANNELS__DISCORD__API_BASE_URL", &discord.api_base_url())
            .set("DRYDOCK_SERVER__LISTEN", "127.0.0.1:0")
            .set("DRYDOCK_DATA__DIRECTORY", "data");
        let infra = shell.home().join("infra");
        std::fs::create_dir(&infra).unwrap();
        commit(&infra, &[("main.jsonnet", "{}\n")]);
        Self { shell, discord }
    }

    fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let ended = tokio::task::block_in_place(|| self.shell.run(arguments));
        let shown = format!("{ended:?}");
        assert!(!shown.contains(TOKEN) && !shown.contains(KEY), "{shown}");
        ended
    }

    /// Tests the channel. Returns the exit code and the findings.
    fn test(&self) -> (Option<i32>, Vec<Value>) {
        let ended = self.run(&["channel", "test", "--json"]);
        let findings = ended.json()["findings"].as_array().unwrap().clone();
        (ended.code, findings)
    }

    async fn wait_for_session(&self) {
        let session = self
            .discord
            .wait_until(WAIT_MAX, |state| (state.gateway.connected() > 0).then_some(()));
        assert!(session.await.is_some(), "no session");
    }

    async fn wait_for(&self, channel: u64, text: &str) {
        let seen = self.discord.wait_until(WAIT_MAX, |state| {
            let mut messages = state.messages_in(channel);
            messages
                .find(|message| message.author == BOT && message.text().contains(text))
                .map(|_| ())
        });
        assert!(seen.await.is_some(), "nobody sees `{text}`");
    }
}

impl Drop for DiscordHome {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let mut problems = self.discord.problems();
            problems.extend(schemas::problems(SentTo::Discord, &self.discord.traffic()));
            assert!(problems.is_empty(), "left behind:\n{}", problems.join("\n"));
        }
    }
}

fn model() -> ModelEmulator {
    ModelEmulator::start(|_: &ModelRequest| says("There are no environments.")).unwrap()
}

/// STK-26: the steps of docs/connect.md, from no configuration to an answer.
#[tokio::test(flavor = "multi_thread")]
async fn discord_is_connected_as_the_documents_say() {
    let model = model();
    let home = DiscordHome::new(&model).await;
    let options = ["--repository", "../infra", "--chat", "discord"];
    let ended = home.run(&[&["init", "--non-interactive", "--yes"], &options[..]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let last = ended.err.lines().last().unwrap();
    assert!(
        last.ends_with("then write to the bot in Discord: what environments are there?"),
        "{last}"
    );
    let documented = std::fs::read_to_string(root().join("docs/connect.md")).unwrap();
    let section: String = documented
        .lines()
        .skip_while(|line| line.trim() != "[channels.discord]")
        .take(3)
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    let text = home.shell.get("drydock.toml");
    assert!(text.contains(&section), "{section} in {text}");

    let (running, _) = serve(&home.shell);
    home.wait_for_session().await;
    let (code, findings) = home.test();
    assert_eq!(code, Some(0), "{findings:#?}");
    let checks: Vec<&str> = findings
        .iter()
        .map(|finding| finding["check"].as_str().unwrap())
        .collect();
    assert_eq!(checks, ["token", "intents", "command", "interactions", "clock"]);
    assert!(
        findings.iter().all(|finding| finding["result"] == "ok"),
        "{findings:#?}"
    );

    let invited = home.run(&["invite", "me", "--role", "admin", "--json"]);
    let token = invited.json()["token"].as_str().unwrap().to_owned();
    home.discord.dm(ALICE, &format!("join {token}"));
    let direct = home.discord.with_state(|state| state.direct(ALICE).unwrap());
    home.wait_for(direct, "You're in").await;
    home.discord.dm(ALICE, "what environments are there?");
    home.wait_for(direct, "There are no environments.").await;
    let thread = home
        .discord
        .say(ALICE, PLATFORM, "@drydock what environments are there?");
    home.wait_for(thread, "There are no environments.").await;
    running.terminate();
    let ended = tokio::task::block_in_place(|| running.end());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    model.shutdown().await;
}

/// T06, R3, R5: the process is killed after the answer to a mention.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_drydock_answers_what_it_missed_once_and_nothing_that_was_for_nobody() {
    let model = model();
    let home = DiscordHome::new(&model).await;
    let text = "[repositories.infra]\npath = \"../infra\"\n[channels.discord]\nkind = \"discord\"\n\
                bot_token = { env = \"DISCORD_BOT_TOKEN\" }\n";
    home.shell.put("drydock.toml", text);
    let (running, _) = serve(&home.shell);
    let invited = home.run(&["invite", "me", "--role", "admin", "--json"]);
    let token = invited.json()["token"].as_str().unwrap().to_owned();
    home.wait_for_session().await;
    home.discord.dm(ALICE, &format!("join {token}"));
    let direct = home.discord.with_state(|state| state.direct(ALICE).unwrap());
    home.wait_for(direct, "You're in").await;
    let thread = home.discord.say(BOB, PLATFORM, "dinner?");
    home.discord.add_thread(thread, PLATFORM);
    home.discord.say(ALICE, thread, "word-before");
    home.discord.say(ALICE, thread, "@drydock word-mention");
    home.wait_for(thread, "There are no environments.").await;
    // A program that is dropped is killed.
    drop(running);
    home.discord.say(ALICE, thread, "word-missed");
    let (running, _) = serve(&home.shell);
    let last = home.discord.say(ALICE, PLATFORM, "@drydock word-last");
    home.wait_for(last, "There are no environments.").await;
    let answers = |state: &DiscordState| {
        let messages = state.messages_in(thread);
        let answers = messages.filter(|message| message.text().contains("There are no environments."));
        answers.count()
    };
    let answered = home
        .discord
        .wait_until(WAIT_MAX, |state| (answers(state) == 2).then_some(()));
    assert!(answered.await.is_some(), "the missed message is not answered");
    running.terminate();
    let ended = tokio::task::block_in_place(|| running.end());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(home.discord.with_state(answers), 2);
    let requests = model.requests();
    let newest: Vec<&str> = requests.iter().map(ModelRequest::last_user_text).collect();
    let asked = |word: &str| newest.iter().filter(|text| text.contains(word)).count();
    let counts = ["word-before", "word-mention", "word-missed", "word-last"].map(asked);
    assert_eq!(counts, [0, 1, 1, 1], "{newest:?}");
    model.shutdown().await;
}

/// STK-23, STK-25
#[tokio::test(flavor = "multi_thread")]
async fn each_fault_of_a_discord_application_is_found_with_its_fix() {
    let model = model();
    let home = DiscordHome::new(&model).await;
    home.shell.put("drydock.toml", "# Ours.\n");
    let added = home.run(&["channel", "add", "discord"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let section = "[channels.discord]\nkind = \"discord\"\nbot_token = { env = \"DISCORD_BOT_TOKEN\" }\n";
    assert!(home.shell.get("drydock.toml").contains(section));
    for option in ["--signing-secret", "--app-token", "--secret-token"] {
        let refused = home.run(&["channel", "add", "discord", "--name", "b", option, "env:A_B"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(
            refused.err.contains(&format!("{option} is only for ")),
            "{refused:?}"
        );
    }

    let (code, findings) = home.test();
    let command = finding(&findings, "command");
    assert_eq!((code, &command["result"]), (Some(0), &json!("warning")));
    assert_eq!(command["fix"], "start `drydock serve`, which registers it");

    home.discord
        .change_gateway(|gateway| gateway.has_message_content = false);
    let (code, findings) = home.test();
    let intents = finding(&findings, "intents");
    assert_eq!((code, &intents["result"]), (Some(1), &json!("FAILED")));
    assert!(
        intents["fix"]
            .as_str()
            .unwrap()
            .starts_with("enable Message Content Intent"),
        "{intents}"
    );
    home.discord
        .change_gateway(|gateway| gateway.has_message_content = true);

    home.discord.set_endpoint("https://other.example.com/in");
    let (code, findings) = home.test();
    let interactions = finding(&findings, "interactions");
    assert_eq!((code, &interactions["result"]), (Some(1), &json!("FAILED")));
    assert_eq!(
        interactions["fix"],
        "set channels.discord.public_key, or remove the Interactions Endpoint URL"
    );

    home.discord.refuse_token();
    let (code, findings) = home.test();
    assert_eq!((code, findings.len()), (Some(1), 1), "{findings:#?}");
    let fix = finding(&findings, "token")["fix"].as_str().unwrap();
    assert!(fix.contains("Developer Portal"), "{fix}");
    let diagnosed = home.run(&["doctor", "--json"]);
    let findings = diagnosed.json()["findings"].as_array().unwrap().clone();
    let token = finding(&findings, "channel discord: token");
    assert_eq!(token["result"], "FAILED", "{token}");
    model.shutdown().await;
}
