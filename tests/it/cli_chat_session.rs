//! `drydock chat`: another model, a request that is continued, events for scripts, and sessions that go on later.

use crate::support::screen::{ScreenProgram, key};
use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{AnswerFault, calls, queue, says};
use serde_json::{Value, json};
use std::path::PathBuf;

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");

fn shell() -> Shell {
    Shell::with_repository(&[("a", "one\n")]).set(KEY.0, KEY.1)
}

fn url(model: &BlockingModel) -> String {
    format!("providers.anthropic.base_url={}", model.url())
}

fn refused() -> AnswerFault {
    let error =
        json!({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}});
    AnswerFault::Status {
        status: 401,
        headers: Vec::new(),
        body: error.to_string(),
    }
}

fn events(out: &str) -> Vec<Value> {
    let lines = out.lines().map(serde_json::from_str);
    lines
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}: {out}"))
}

fn names(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect()
}

/// TK-9: another model answers the next request and knows the conversation. A name that cannot be used changes nothing.
#[test]
fn a_session_can_use_another_model() {
    let model = BlockingModel::start(queue([says("One."), says("Two."), says("Three.")]));
    let input = "first\n/model openai/gpt-4o\n/model\nsecond\n/model anthropic/claude-haiku-4-5\nthird\n";
    let ended = shell().run_with_input(&["chat", "--set", &url(&model)], input);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("set OPENAI_API_KEY or this key"), "{ended:?}");
    assert_eq!(
        ended.out,
        "One.\nanthropic/claude-opus-4-6\nTwo.\nanthropic/claude-haiku-4-5\nThree.\n"
    );
    let asked = model.asked();
    let models: Vec<&str> = asked.iter().map(|asked| asked.model.as_str()).collect();
    assert_eq!(models, ["claude-opus-4-6", "claude-opus-4-6", "claude-haiku-4-5"]);
    assert_eq!(asked[2].messages.len(), 5);
}

/// A model without a provider is of the provider of the command line.
#[test]
fn another_model_is_of_the_provider_that_the_command_line_names() {
    let house = "providers.house.base_url=http://127.0.0.1:9/v1";
    let arguments = ["chat", "--set", house, "--provider", "house", "--model", "qwen3"];
    let input = "/model llama3\n/model anthropic/claude-haiku-4-5\n";
    let ended = shell()
        .set("HOUSE_API_KEY", "kept-to-ourselves-4711")
        .run_with_input(&arguments, input);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(
        ended.out, "house/llama3\nanthropic/claude-haiku-4-5\n",
        "{ended:?}"
    );
}

/// The key of a model that is chosen later is fetched then.
#[test]
fn the_key_of_a_model_that_is_chosen_later_is_redacted_as_well() {
    let key = ("HOUSE_API_KEY", "kept-to-ourselves-4711");
    let model = BlockingModel::start(queue([says(format!("The key is {}.", key.1))]));
    let house = format!("providers.house.base_url={}/v1", model.url());
    let ended = shell()
        .set(key.0, key.1)
        .run_with_input(&["chat", "--set", &house], "/model house/qwen3\nwhich key?\n");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!format!("{ended:?}").contains(key.1), "{ended:?}");
    assert!(
        ended.out.starts_with("house/qwen3\nThe key is ⟦secret:"),
        "{ended:?}"
    );
}

/// The cost of earlier models stays, and calls of unknown price are counted.
#[test]
fn the_usage_of_all_models_is_shown_with_the_calls_of_unknown_price() {
    let model = BlockingModel::start(queue([says("One."), says("Two."), says("Three.")]));
    let house = format!("providers.house.base_url={}/v1", model.url());
    let input = "/usage\nfirst\n/model house/qwen3\n/usage\nsecond\n/usage\n/model anthropic/claude-opus-4-6\nthird\n/usage\n";
    let ended = shell()
        .set("HOUSE_API_KEY", "kept-to-ourselves-4711")
        .run_with_input(&["chat", "--set", &url(&model), "--set", &house], input);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expected = "\
0 tokens: 0 in, 0 out, 0 read from and 0 written to the cache; $0
One.
house/qwen3
1050 tokens: 1000 in, 50 out, 0 read from and 0 written to the cache; $0.0063
Two.
2100 tokens: 2000 in, 100 out, 0 read from and 0 written to the cache; $0.0063 and 1 call of unknown price
anthropic/claude-opus-4-6
Three.
3150 tokens: 3000 in, 150 out, 0 read from and 0 written to the cache; $0.0125 and 1 call of unknown price
";
    assert_eq!(ended.out, expected, "{ended:?}");
}

/// A failed request is continued after its finished steps, which are not paid again.
#[test]
fn a_failed_request_is_continued_after_its_finished_steps() {
    let model = BlockingModel::start(queue([
        calls("file_read", json!({ "path": "a" })),
        says("").with_fault(refused()),
        says("It says one."),
    ]));
    let ended = shell().run_with_input(
        &["chat", "--set", &url(&model)],
        "read a\n/retry\n/retry\n/usage\n",
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("No answer: "), "{ended:?}");
    assert!(
        ended
            .err
            .contains("There is no stopped or failed request to continue."),
        "{ended:?}"
    );
    assert!(
        ended
            .out
            .starts_with("It says one.\n2100 tokens: 2000 in, 100 out"),
        "{ended:?}"
    );
    // 1,000 tokens in and 50 out cost $5 and $25 for a million.
    assert!(ended.out.trim_end().ends_with("; $0.0125"), "{ended:?}");
    let asked = model.asked();
    assert_eq!(asked.len(), 3);
    assert_eq!(
        asked[2].messages.len(),
        3,
        "request, call and result: {:?}",
        asked[2].messages
    );
    assert_eq!(asked[2].last_results().len(), 1);
}

/// The events of a conversation, one JSON object a line.
#[test]
fn a_conversation_prints_events_for_scripts() {
    let model = BlockingModel::start(queue([
        says("I look first.").with_call("file_read", json!({ "path": "a" })),
        says(format!("It is one; the key is {}.", KEY.1)),
        says("Bye."),
    ]));
    let input = "how many?\n/usage\nbye\n";
    let ended = shell().run_with_input(&["chat", "--json", "--set", &url(&model)], input);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let events = events(&ended.out);
    let mut kinds = names(&events);
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "turn_started",
            "step_started",
            "text",
            "tool_call",
            "tool_result",
            "step_started",
            "text",
            "turn_ended",
            "output",
            "turn_started",
            "step_started",
            "text",
            "turn_ended",
        ]
    );
    let second = events
        .iter()
        .rposition(|event| event["event"] == "output")
        .unwrap();
    let texts = events[..second].iter().filter(|event| event["event"] == "text");
    let text: String = texts.filter_map(|event| event["text"].as_str()).collect();
    assert_eq!(text, "I look first.It is one; the key is ⟦secret:1⟧.");
    let ended = events
        .iter()
        .find(|event| event["event"] == "turn_ended")
        .unwrap();
    assert_eq!(ended["result"]["answer"], "It is one; the key is ⟦secret:1⟧.");
    let call = events.iter().find(|event| event["event"] == "tool_call").unwrap();
    assert_eq!(
        (&call["name"], &call["subject"]),
        (&json!("file_read"), &json!("a"))
    );
}

/// A line that changes nothing has an answer as well, so that a program does not wait for one.
#[test]
fn what_is_refused_is_an_event_too() {
    let model = BlockingModel::start(queue([says("").with_fault(refused()), says("It says one.")]));
    let long = "a".repeat(16_001);
    let input =
        format!("/nope\n/retry\n/model llama3\n/attach missing\n/render\nqueue:\n{long}\nwhy?\n/retry\n");
    let ended = shell().run_with_input(&["chat", "--json", "--set", &url(&model)], &input);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let events = events(&ended.out);
    let outputs = events.iter().filter(|event| event["event"] == "output");
    assert_eq!(outputs.count(), 7, "{ended:?}");
    let requests: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "turn_started")
        .map(|event| &event["request"])
        .collect();
    assert_eq!(requests, [&json!("why?"), &json!("why?")], "{ended:?}");
}

/// The last event of one request has the object that is printed without events.
#[test]
fn one_request_prints_its_events_and_then_its_result() {
    let answers = || queue([says("Fine.")]);
    let (shell, model) = (shell(), BlockingModel::start(answers()));
    let with = shell.run(&["ask", "--json", "--events", "--set", &url(&model), "well?"]);
    let model = BlockingModel::start(answers());
    let without = shell.run(&["ask", "--json", "--set", &url(&model), "well?"]);
    let events = events(&with.out);
    assert_eq!(
        names(&events),
        ["turn_started", "step_started", "text", "turn_ended"]
    );
    let without_time = |mut result: Value| {
        let seconds = result.as_object_mut().unwrap().remove("seconds");
        assert!(seconds.is_some_and(|seconds| seconds.is_f64()), "{result}");
        result
    };
    assert_eq!(
        without_time(events[3]["result"].clone()),
        without_time(without.json())
    );
    let wrong = shell.run(&["ask", "--events", "well?"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("--events needs --json"), "{wrong:?}");
}

fn recordings(shell: &Shell) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(shell.home().join("kept/sessions")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// STK-57: a recorded session goes on later with its requests, calls and results.
#[test]
fn a_recorded_session_goes_on_later() {
    let model = BlockingModel::start(queue([
        calls("file_read", json!({ "path": "a" })),
        says("It says one."),
        says("You asked for a."),
        says("Three."),
    ]));
    let shell = shell();
    let kept = shell.home().join("kept").display().to_string();
    let url = url(&model);
    let chat = ["chat", "--set", &url, "--record", &kept];
    assert_eq!(shell.run_with_input(&chat, "read a\n").code, Some(0));
    let resumed = shell.run_with_input(&[&chat[..], &["--resume"]].concat(), "what did I ask?\n");
    assert_eq!(
        (resumed.code, resumed.out.as_str()),
        (Some(0), "You asked for a.\n"),
        "{resumed:?}"
    );
    assert!(
        resumed
            .err
            .contains("goes on after 1 turn; the last request was: read a"),
        "{resumed:?}"
    );
    let asked = model.asked();
    assert_eq!(asked[2].messages.len(), 5);
    assert_eq!(
        asked[2].messages[2].results[0].content,
        asked[1].last_results()[0].content
    );
    let files = recordings(&shell);
    assert_eq!(files.len(), 1, "{files:?}");
    let id = files[0].file_stem().unwrap().to_string_lossy().into_owned();
    let resumed = shell.run_with_input(&[&chat[..], &["--resume", &id]].concat(), "/clear\nand now?\n");
    assert_eq!(resumed.out, "cleared; the files stay\nThree.\n", "{resumed:?}");
    assert!(
        resumed
            .err
            .contains(&format!("Session {id} goes on after 2 turns")),
        "{resumed:?}"
    );
    assert_eq!(model.asked()[3].messages.len(), 1);
}

/// A session without a request leaves no recording, so that the newest one is always a conversation.
#[test]
fn a_session_without_a_request_leaves_no_recording() {
    let model = BlockingModel::start(queue([says("It says one."), says("Again."), says("Empty.")]));
    let shell = shell();
    let kept = shell.home().join("kept").display().to_string();
    let url = url(&model);
    let chat = ["chat", "--set", &url, "--record", &kept];
    let resumed = |input: &str| shell.run_with_input(&[&chat[..], &["--resume"]].concat(), input);
    assert_eq!(shell.run_with_input(&chat, "/clear\n/usage\n").code, Some(0));
    let review = ["ask", "--set", &url, "--record", &kept, "--review", "nope"];
    assert_eq!(shell.run(&review).code, Some(2));
    assert_eq!(recordings(&shell), Vec::<PathBuf>::new());
    assert_eq!(shell.run_with_input(&chat, "read a\n").code, Some(0));
    assert_eq!(shell.run_with_input(&chat, "").code, Some(0));
    let sessions = shell.home().join("kept/sessions");
    std::fs::write(sessions.join(format!("{}.jsonl", "0".repeat(32))), "").unwrap();
    std::fs::write(sessions.join("x.jsonl"), "{}\n").unwrap();
    let again = resumed("and again\n/clear\n");
    assert_eq!(
        (again.code, again.out.as_str()),
        (Some(0), "Again.\ncleared; the files stay\n"),
        "{again:?}"
    );
    // A session that was cleared goes on without its conversation.
    let cleared = resumed("what is left?\n");
    assert_eq!(
        (cleared.code, cleared.out.as_str()),
        (Some(0), "Empty.\n"),
        "{cleared:?}"
    );
    assert!(
        cleared.err.contains(" goes on; its conversation was cleared."),
        "{cleared:?}"
    );
    assert_eq!(model.asked()[2].messages.len(), 1);
}

/// A person at a terminal is asked once before a turn edits files among uncommitted changes.
#[test]
fn uncommitted_changes_are_confirmed_once() {
    let model = BlockingModel::start(queue([says("One."), says("Two."), says("Three."), says("Four.")]));
    let shell = shell();
    shell.put("a", "mine\n");
    let url = url(&model);
    let start = |arguments: &[&str]| {
        let chat = [&["chat", "--set", &url], arguments].concat();
        let program = ScreenProgram::start(&shell, &chat, 80, "xterm-256color");
        program.wait_for_prompt();
        program
    };
    let program = start(&[]);
    program.enter("first");
    program.wait_for("1 file has uncommitted changes; edits are added to them. Continue? [y/N]");
    program.enter("n");
    program.wait_for("Not sent.");
    program.wait_until("the request at the prompt", |screen| {
        screen.trim_end().ends_with("\n❯ first")
    });
    program.press(key::CTRL_C);
    program.wait_for_prompt();
    program.enter("second");
    program.wait_until("second question", |screen| screen.matches("[y/N]").count() == 2);
    program.enter("y");
    program.wait_for("One.");
    program.wait_for_prompt();
    program.enter("third");
    program.wait_for("Two.");
    let screen = program.wait_for_prompt();
    assert_eq!(screen.matches("[y/N]").count(), 2, "{screen}");
    program.press(key::CTRL_D);
    assert_eq!(program.end().code, Some(0));

    let program = start(&["--yes"]);
    program.enter("fourth");
    let screen = program.wait_for("Three.");
    assert!(!screen.contains("[y/N]"), "{screen}");
    program.wait_for_prompt();
    program.press(key::CTRL_D);
    assert_eq!(program.end().code, Some(0));
    let piped = shell.run_with_input(&["chat", "--set", &url], "fifth\n");
    assert_eq!(
        (piped.code, piped.out.as_str()),
        (Some(0), "Four.\n"),
        "{piped:?}"
    );
    let asked: Vec<String> = model
        .asked()
        .iter()
        .map(|asked| asked.last_user_text().to_owned())
        .collect();
    assert_eq!(asked, ["second", "third", "fourth", "fifth"]);
}
