//! Bots of programs that embed Drydock, and the examples, which are such programs.

use crate::support::shell::{BlockingModel, ProgramOutput, RunningProgram, Shell};
use crate::support::source::{root, rust_files};
use async_trait::async_trait;
use drydock::base::config::{Config, ConfigSources};
use drydock::base::http_client::api_client;
use drydock::base::model::{Effect, Turn};
use drydock::base::redact::Redactor;
use drydock::engine::bot::{
    Bot, BotAppended, BotBehaviour, BotContext, BotConversation, BotExtra, BotMessage, BotOptions, Messenger,
};
use drydock::interfaces::provider;
use drydock::interfaces::tool::{Tool, function_tool, workspace_tools};
use drydock::simulation::demo::repository;
use drydock::simulation::emulator::model::{ModelEmulator, ModelRequest, calls, queue, says};
use drydock::state::access::Role;
use drydock::state::workspace::{Repository, SecretGuard};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const FILE: &str = "environments/dev/main.jsonnet";
/// The time of the bot.
const AT: jiff::Timestamp = jiff::Timestamp::constant(1_700_000_000, 0);

/// A tool without arguments.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

fn message(person: &str, chat: &str, text: &str) -> BotMessage {
    BotMessage {
        conversation: BotConversation {
            person: person.to_owned(),
            chat: chat.to_owned(),
        },
        text: text.to_owned(),
    }
}

/// A messenger that gives its messages all at once, and keeps the answers.
#[derive(Default)]
struct Postbox {
    waiting: Mutex<VecDeque<Vec<BotMessage>>>,
    sent: Mutex<Vec<(String, String)>>,
}

#[async_trait]
impl Messenger for Postbox {
    async fn poll(&self, _: Duration) -> anyhow::Result<Option<Vec<BotMessage>>> {
        Ok(self.waiting.lock().unwrap().pop_front())
    }

    async fn send(&self, conversation: &BotConversation, text: &str) -> anyhow::Result<()> {
        let to = format!("{}@{}", conversation.person, conversation.chat);
        self.sent.lock().unwrap().push((to, text.to_owned()));
        Ok(())
    }
}

/// A behaviour that logs its decisions.
#[derive(Default)]
struct Logged(Mutex<Vec<String>>);

impl Logged {
    fn log(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }
}

#[async_trait]
impl BotBehaviour for Logged {
    async fn handle_start(&self, _: &BotMessage, payload: &str) -> anyhow::Result<Option<String>> {
        self.log("start");
        Ok((!payload.is_empty()).then(|| format!("Welcome, {payload}.")))
    }

    async fn authorise(&self, message: &BotMessage) -> Result<Role, String> {
        self.log("authorise");
        match message.conversation.person.as_str() {
            "eve" => Err("I do not know you.".to_owned()),
            "victor" => Ok(Role::Viewer),
            _ => Ok(Role::Editor),
        }
    }

    async fn build_extra(&self, message: &BotMessage) -> anyhow::Result<BotExtra> {
        self.log("extra");
        anyhow::ensure!(message.text != "break", "the database is gone");
        Ok(Arc::new(message.text.len()))
    }

    async fn build_tools(&self, context: &BotContext) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
        let extra = context.extra.downcast_ref::<usize>().copied();
        self.log(format!("tools {}", extra.unwrap_or_default()));
        let context = context.clone();
        let facts = move |_: NoArguments| {
            let (at, length) = (context.at, context.extra.downcast_ref::<usize>().copied());
            let BotConversation { person, chat } = context.conversation.clone();
            async move { Ok(format!("{person} in {chat} at {at}, {length:?} bytes")) }
        };
        let about = "Tells who asks, where and when.";
        let mut tools = workspace_tools();
        tools.push(function_tool("request_facts", about, Effect::Read, facts));
        Ok(tools)
    }

    async fn build_prompt(&self, context: &BotContext) -> anyhow::Result<Option<String>> {
        self.log("prompt");
        Ok(Some(format!("You help {}.", context.conversation.person)))
    }

    fn convert<'a>(&self, earlier: &'a [Turn]) -> Cow<'a, [Turn]> {
        let is_kept = |turn: &&Turn| !turn.user().contains("off the record");
        Cow::Owned(earlier.iter().filter(is_kept).cloned().collect())
    }

    async fn on_append(&self, _: &BotContext, appended: BotAppended<'_>) -> anyhow::Result<()> {
        self.log(match appended {
            BotAppended::User(text) => format!("user {text}"),
            BotAppended::Step(step) => format!("step {} {}", step.assistant().text(), step.results().len()),
            BotAppended::Unused(usage) => format!("unused {}", usage.total()),
        });
        Ok(())
    }
}

/// A bot that ran, with what became visible.
struct RanBot {
    sent: Vec<(String, String)>,
    log: Vec<String>,
    asked: Vec<ModelRequest>,
}

/// Runs a bot over batches of messages.
async fn run(
    script: impl drydock::simulation::emulator::model::AnswerScript + 'static,
    batches: impl IntoIterator<Item = Vec<BotMessage>>,
) -> RanBot {
    let emulator = ModelEmulator::start(script).unwrap();
    let key = "sent-to-nobody-0123456789";
    let config = Config::for_terminal(ConfigSources {
        environment: [("ANTHROPIC_API_KEY".to_owned(), key.to_owned())].into(),
        flags: vec![(
            "providers.anthropic.base_url".to_owned(),
            emulator.url().to_owned(),
        )],
        ..ConfigSources::default()
    })
    .unwrap();
    let providers = provider::build(&config.providers, api_client().unwrap(), config.model.answer_mode);
    let (provider, model) = providers.resolve(&config.model.default).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let git = directory.path().join("infra.git");
    repository::create(&git).unwrap();
    let bases = directory.path().join("bases");
    let repository = Repository::open_local("infra", &git, Some("main"), &bases).unwrap();
    let head = repository.head().unwrap();
    let messenger = Arc::new(Postbox {
        waiting: Mutex::new(batches.into_iter().collect()),
        sent: Mutex::default(),
    });
    let behaviour = Arc::new(Logged::default());
    let options = BotOptions {
        guard: SecretGuard {
            redactor: Arc::new(Redactor::new(config.secrets())),
            ..SecretGuard::default()
        },
        ..BotOptions::new(
            (provider, &model),
            Arc::clone(&messenger) as Arc<dyn Messenger>,
            Arc::clone(&repository),
            Arc::clone(&behaviour) as Arc<dyn BotBehaviour>,
            || AT,
        )
    };
    Bot::new(options).run(&CancellationToken::new()).await.unwrap();
    assert_eq!(repository.head().unwrap(), head);
    let (sent, log) = (
        std::mem::take(&mut *messenger.sent.lock().unwrap()),
        std::mem::take(&mut *behaviour.0.lock().unwrap()),
    );
    let asked = emulator.requests();
    assert_eq!(emulator.problems(), Vec::<String>::new());
    RanBot { sent, log, asked }
}

/// An answer that says nothing is asked for once more, and both are paid.
///
/// SDK-8
#[tokio::test]
async fn a_bot_learns_of_every_answer_that_was_paid() {
    let bot = run(
        queue([says(""), says("Two.")]),
        [vec![message("ann", "dm", "how many?")]],
    )
    .await;
    assert_eq!(bot.asked.len(), 2);
    let paid = bot
        .log
        .iter()
        .filter(|line| line.starts_with("unused") || line.starts_with("step"));
    assert_eq!(paid.collect::<Vec<_>>(), ["unused 1050", "step Two. 0"]);
}

/// SDK-2, SDK-3, SDK-4, SDK-5, SDK-6, SDK-7, SDK-13, SDK-14
#[tokio::test]
async fn a_bot_decides_in_order_and_nobody_costs_tokens_before_they_are_authorised() {
    let bot = run(
        queue([says("Two.")]),
        [
            vec![message("eve", "dm", "/start Eve")],
            vec![message("eve", "dm", "hello")],
            vec![message("eve", "dm", "/start")],
            vec![message("alice", "dm", "how many?")],
            vec![message("bob", "dm", "break")],
        ],
    )
    .await;
    let said = |person: &str| -> Vec<&str> {
        let to = format!("{person}@dm");
        let sent = bot.sent.iter().filter(|(address, _)| *address == to);
        sent.map(|(_, text)| text.as_str()).collect()
    };
    assert_eq!(
        said("eve"),
        ["Welcome, Eve.", "I do not know you.", "I do not know you."]
    );
    assert_eq!(said("alice"), ["Two."]);
    assert_eq!(
        said("bob"),
        ["That failed on my side. What was edited before is kept. Try again."]
    );
    let [asked] = bot.asked.as_slice() else {
        panic!("{} requests", bot.asked.len())
    };
    assert!(asked.raw.contains("You help alice."), "{}", asked.raw);
    let of_alice = ["extra", "tools 9", "prompt", "user how many?", "step Two. 0"];
    let log: Vec<&str> = bot.log.iter().map(String::as_str).collect();
    let places: Vec<_> = of_alice
        .iter()
        .map(|entry| log.iter().position(|logged| logged == entry))
        .collect();
    assert!(
        places.is_sorted() && places.iter().all(Option::is_some),
        "{log:?}"
    );
}

/// SDK-14
#[tokio::test]
async fn a_tool_of_a_bot_knows_the_person_the_place_the_time_and_what_was_added() {
    let script = |asked: &ModelRequest| match asked.last_results().first() {
        None => calls("request_facts", serde_json::json!({})),
        Some(result) => says(result.content.clone()),
    };
    let bot = run(
        script,
        [vec![
            message("alice", "dm", "how many?"),
            message("alice", "group", "and here?!"),
            message("bob", "dm", "where?"),
        ]],
    )
    .await;
    let mut sent = bot.sent;
    sent.sort();
    let facts = |person: &str, chat: &str, bytes: usize| {
        let text = format!("{person} in {chat} at 2023-11-14T22:13:20Z, Some({bytes}) bytes");
        (format!("{person}@{chat}"), text)
    };
    assert_eq!(
        sent,
        [
            facts("alice", "dm", 9),
            facts("alice", "group", 10),
            facts("bob", "dm", 6)
        ]
    );
}

/// The private copy of each conversation is edited, the repository is not. SDK-9, SDK-10
#[tokio::test]
async fn conversations_of_a_bot_share_no_words_and_no_files() {
    let script = |asked: &ModelRequest| {
        let edit = serde_json::json!({ "path": FILE, "old": "web:1.8.3", "new": "web:1.9.0" });
        match (
            asked.last_user_text().contains("set"),
            asked.last_results().first(),
        ) {
            (true, None) => calls("file_edit", edit),
            (true, Some(result)) => says(match result.is_error {
                true => "Refused.",
                false => "Set.",
            }),
            (false, None) => calls("git_status", serde_json::json!({})),
            (false, Some(result)) => says(match result.content.contains(FILE) {
                true => "Changed.",
                false => "Unchanged.",
            }),
        }
    };
    let bot = run(
        script,
        [vec![
            message("alice", "dm", "set the image: the code word is heron"),
            message("alice", "dm", "what is changed? off the record"),
            message("alice", "group", "what is changed?"),
            message("victor", "dm", "set the image"),
            message("alice", "dm", "what is changed?"),
        ]],
    )
    .await;
    let said = |to: &str| -> Vec<&str> {
        let sent = bot.sent.iter().filter(|(address, _)| address == to);
        sent.map(|(_, text)| text.as_str()).collect()
    };
    let unchecked = "I could not check all of this change: this bot checks no edits.";
    let checked = |text: &str| format!("{text}\n\n{unchecked}");
    assert_eq!(
        said("alice@dm"),
        [checked("Set."), checked("Changed."), checked("Changed.")]
    );
    assert_eq!(said("alice@group"), ["Unchanged."]);
    assert_eq!(said("victor@dm"), ["Refused."]);
    let (with_word, others): (Vec<_>, Vec<_>) =
        bot.asked.iter().partition(|asked| asked.raw.contains("heron"));
    assert_eq!((with_word.len(), others.len()), (6, 4));
    // What the program filters is in no later request.
    let last = with_word.last().unwrap();
    assert!(!last.raw.contains("off the record"), "{}", last.raw);
}

/// Returns a built example; `None` after a line that says how to build it.
fn example(name: &str) -> Option<PathBuf> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_drydock"));
    let built = program.with_file_name("examples").join(name);
    if built.is_file() {
        return Some(built);
    }
    let required = std::env::var("DRYDOCK_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|one| one.trim() == "examples"),
        "{}",
        built.display()
    );
    // The line bypasses the capture of the test harness, because a skipped test must be visible in a green run.
    let line = b"SKIPPED needs the examples: cargo build --examples\n";
    std::io::stderr().write_all(line).unwrap();
    None
}

/// Checks that a test here runs each example, except for the one that `.ci/run` builds for the comparison of the wire
/// formats, and that a run of all checks requires the examples.
#[test]
fn every_example_is_run_and_the_run_of_all_checks_requires_it() {
    let run = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(
        run.contains("  local present=\"examples,\"\n"),
        "examples are not required"
    );
    let tests = std::fs::read_to_string(root().join("tests/it/bots.rs")).unwrap();
    let mut examples = 0;
    for (path, _) in rust_files("examples") {
        let name = path.trim_start_matches("examples/").trim_end_matches(".rs");
        let is_run = tests.contains(&format!("example(\"{name}\")"));
        let is_built = run.contains(&format!("cargo build --locked --example {name}"));
        assert!(is_run || is_built, "nothing runs {path}");
        examples += 1;
    }
    assert!(examples >= 4, "{examples} examples");
}

fn ended(command: Command) -> ProgramOutput {
    let mut running = RunningProgram::start(command);
    running.close_input();
    running.end()
}

/// SDK-13
#[test]
fn the_terminal_example_answers_lines_of_standard_input() {
    let Some(program) = example("terminal_bot") else {
        return;
    };
    let model = BlockingModel::start(queue([says("One line.")]));
    let shell = Shell::with_repository(&[("a", "one\n")])
        .set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
        .set("DRYDOCK_PROVIDERS__ANTHROPIC__BASE_URL", &model.url());
    let mut command = Command::new(program);
    command.arg(shell.work());
    shell.prepare(&mut command);
    let mut running = RunningProgram::start(command);
    running.type_line("/start");
    running.type_line("how many lines has a?");
    running.close_input();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(
        ended.out,
        "Ask about the repository, or say what should change.\nOne line.\n"
    );
    assert_eq!(model.asked().len(), 1);
}

/// SDK-11, SDK-14, SDK-15, SDK-17, T28
#[test]
fn the_tool_example_sends_messages_only_to_people_who_agreed_and_as_data() {
    let Some(program) = example("custom_tool") else {
        return;
    };
    let ended = ended(Command::new(program));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expected = "eve: /start\n\
                    to eve: I do not know you, eve.\n\
                    eve: hello\n\
                    to eve: I do not know you, eve.\n\
                    alice: tell bob when the freeze ends\n\
                    to alice: I could not: the person has not agreed to receive messages from others here.\n\
                    bob: /start\n\
                    to bob: Others may now send you messages through me.\n\
                    alice: tell bob when the freeze ends\n\
                    to bob: alice says: The freeze ends at noon.\n\
                    to alice: I told Bob.\n\
                    bob: did anybody write to me?\n\
                    to bob: Alice wrote that the freeze ends at noon.\n";
    assert_eq!(ended.out, expected);
}

/// SDK-16, STK-58
#[test]
fn the_strategy_example_decides_what_the_model_sees() {
    let Some(program) = example("context_strategy") else {
        return;
    };
    let ended = ended(Command::new(program));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expected = "I see requests 0.\n\
                    I see requests 0, 1.\n\
                    I see requests 0, 1, 2.\n\
                    I see requests 1, 2, 3 and a note.\n\
                    I see requests 2, 3, 4 and a note.\n";
    assert_eq!(ended.out, expected);
}
