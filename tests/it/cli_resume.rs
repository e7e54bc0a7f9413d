//! `drydock chat --resume`: a session goes on where it ended, also after a crash, with its context and its usage.

use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{AnswerFault, calls, queue, says};
use serde_json::json;
use std::path::PathBuf;

pub(crate) const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");

/// Returns what a crash leaves of the lines of a recording.
type Cut = fn(&[&str]) -> String;

pub(crate) fn shell(files: &[(&str, &str)]) -> Shell {
    Shell::with_repository(files).set(KEY.0, KEY.1)
}

/// Returns the arguments of a session that is recorded below the home.
pub(crate) fn recorded(shell: &Shell, model: &BlockingModel, settings: &[&str]) -> Vec<String> {
    let url = format!("providers.anthropic.base_url={}", model.url());
    let kept = shell.home().join("kept").display().to_string();
    let mut arguments = ["chat", "--set", &url, "--record", &kept]
        .map(str::to_owned)
        .to_vec();
    for setting in settings {
        arguments.extend(["--set".to_owned(), (*setting).to_owned()]);
    }
    arguments
}

pub(crate) fn run(shell: &Shell, arguments: &[String], input: &str) -> crate::support::shell::ProgramOutput {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    shell.run_with_input(&arguments, input)
}

pub(crate) fn resumed(
    shell: &Shell,
    arguments: &[String],
    input: &str,
) -> crate::support::shell::ProgramOutput {
    let arguments = [arguments, &["--resume".to_owned()]].concat();
    run(shell, &arguments, input)
}

/// Returns the only recording of a home.
pub(crate) fn recording(shell: &Shell) -> PathBuf {
    let entries = std::fs::read_dir(shell.home().join("kept/sessions")).unwrap();
    let files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

/// STK-57: a recording whose end a crash cut goes on from its last whole step, and says what is lost.
#[test]
fn a_recording_that_a_crash_cut_goes_on_from_its_last_whole_step() {
    let lost_line = "A crash cut the last line of the recording: ";
    let lost_step = "A crash cut the last step of the recording, so the model does not know it.";
    // The messages of the request after each cut: the request alone, or with the call and its result.
    let cuts: [(Cut, &str, usize); 5] = [
        (
            |lines| lines.concat()[..lines.concat().len() - 20].to_owned(),
            lost_line,
            3,
        ),
        (|lines| lines[..3].concat(), lost_step, 1),
        (
            |lines| format!("{}{}", lines[..3].concat(), &lines[3][..30]),
            lost_step,
            1,
        ),
        (
            |lines| format!("{}{}", lines[..2].concat(), &lines[2][..30]),
            lost_line,
            1,
        ),
        (|lines| format!("{}{}", lines[0], &lines[1][..30]), lost_line, 1),
    ];
    for (cut, lost, messages) in cuts {
        let model = BlockingModel::start(queue([
            calls("file_read", json!({ "path": "a" })),
            says("It says one."),
            says("One, I say."),
            says("Two."),
            says("Three."),
        ]));
        let shell = shell(&[("a", "one\n")]);
        let chat = recorded(&shell, &model, &[]);
        assert_eq!(run(&shell, &chat, "read a\n").code, Some(0));
        let file = recording(&shell);
        let whole = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        assert_eq!(lines.len(), 6, "{whole}");
        std::fs::write(&file, cut(&lines)).unwrap();
        let continued = resumed(&shell, &chat, "/retry\n");
        assert_eq!(
            (continued.code, continued.out.as_str()),
            (Some(0), "One, I say.\n"),
            "{continued:?}"
        );
        assert!(continued.err.contains(lost), "{continued:?}");
        assert!(
            continued
                .err
                .contains("The last request has no answer; /retry continues it."),
            "{continued:?}"
        );
        // The model is told as well, behind what is left.
        let retried = &model.asked()[2];
        assert_eq!(retried.messages.len(), messages + 2);
        assert!(
            retried
                .last_user_text()
                .starts_with("(This conversation was interrupted"),
            "{}",
            retried.raw
        );
        // The recording is whole again.
        let again = resumed(&shell, &chat, "and two?\n");
        assert_eq!((again.code, again.out.as_str()), (Some(0), "Two.\n"), "{again:?}");
        assert!(
            !again.err.contains("crash") && !again.err.contains("/retry"),
            "{again:?}"
        );
        assert_eq!(model.asked()[3].messages.len(), messages + 2);
        // A next request is told, so that the model reads files again.
        std::fs::write(&file, cut(&lines)).unwrap();
        let told = resumed(&shell, &chat, "and three?\n");
        assert_eq!(told.out, "Three.\n", "{told:?}");
        let said = model.asked()[4].last_user_text().to_owned();
        assert!(
            said.starts_with("(This conversation was interrupted") && said.ends_with("and three?"),
            "{said}"
        );
    }
}

/// A recording that is damaged elsewhere is refused with its line, and stays as it is.
#[test]
fn a_damaged_recording_is_refused_and_not_changed() {
    let model = BlockingModel::start(queue([
        calls("file_read", json!({ "path": "a" })),
        says("It says one."),
    ]));
    let shell = shell(&[("a", "one\n")]);
    let chat = recorded(&shell, &model, &[]);
    let none = resumed(&shell, &chat, "hi\n");
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.err.contains("has no recorded session"), "{none:?}");
    assert_eq!(run(&shell, &chat, "read a\n").code, Some(0));
    let file = recording(&shell);
    let whole = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    for (text, why) in [
        (
            [lines[0], lines[1], lines[3], lines[4], lines[5]].concat(),
            "line 3 of the recording does not fit",
        ),
        (
            [lines[0], lines[1], lines[2], lines[4], lines[5]].concat(),
            "line 5 of the recording does not fit",
        ),
        (
            [lines[0], lines[1], &lines[2][20..], lines[3], lines[4], lines[5]].concat(),
            "line 3 of the recording cannot be read",
        ),
        (String::new(), "has no recorded session"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let ended = resumed(&shell, &chat, "hi\n");
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.err.contains(why), "{why}: {ended:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    let id = file.file_stem().unwrap().to_string_lossy().into_owned();
    let empty = run(
        &shell,
        &[&chat[..], &["--resume".to_owned(), id]].concat(),
        "hi\n",
    );
    assert_eq!(empty.code, Some(1), "{empty:?}");
    assert!(empty.err.contains("the recording has no request"), "{empty:?}");
    let unrecorded = shell.run_with_input(&["chat", "--resume"], "hi\n");
    assert_eq!(unrecorded.code, Some(2), "{unrecorded:?}");
    assert!(unrecorded.err.contains("--record"), "{unrecorded:?}");
}

/// STK-57: after a kill, `/retry` continues the request of the session after its finished steps, which are not paid again.
#[test]
fn a_request_that_a_kill_ended_is_continued_after_its_finished_steps() {
    let model = BlockingModel::start(queue([
        calls("file_edit", json!({ "path": "a", "old": "one", "new": "two" })),
        says("never").with_fault(AnswerFault::Stall),
        says("It is two."),
    ]));
    let shell = shell(&[("a", "one\n")]);
    let chat = recorded(&shell, &model, &[]);
    let mut running = shell.start(&chat.iter().map(String::as_str).collect::<Vec<_>>());
    running.type_line("make it two");
    model.wait_for_requests(2);
    // The program is killed.
    drop(running);
    assert_eq!(shell.get("a"), "two\n");
    let continued = resumed(&shell, &chat, "/retry\n/retry\n/usage\n");
    assert_eq!(continued.code, Some(0), "{continued:?}");
    assert!(
        continued
            .err
            .contains("The last request has no answer; /retry continues it."),
        "{continued:?}"
    );
    let refused = "There is no stopped or failed request to continue.";
    assert_eq!(continued.err.matches(refused).count(), 1, "{continued:?}");
    // The step before the kill is counted, with its cost.
    let out = "It is two.\n2100 tokens: 2000 in, 100 out, 0 read from and 0 written to the cache; $0.0125\n";
    assert_eq!(continued.out, out, "{continued:?}");
    let asked = model.asked();
    assert_eq!(asked.len(), 3);
    // A note follows the finished step, because the next one may have edited files before the kill.
    assert_eq!(asked[2].messages.len(), 5, "{:?}", asked[2].messages);
    assert_eq!(
        format!("{:?}", &asked[2].messages[..3]),
        format!("{:?}", asked[1].messages)
    );
    // The answered request is not continued again, after another kill either.
    let answered = resumed(&shell, &chat, "/retry\n");
    assert!(answered.err.contains(refused), "{answered:?}");
    assert!(!answered.err.contains("has no answer"), "{answered:?}");
}

/// STK-57: an answer that was paid is counted after a kill in the middle of its step.
#[test]
fn an_answer_is_counted_although_a_kill_ended_its_step() {
    let model = BlockingModel::start(queue([calls(
        "ask_user",
        json!({ "question": "How many?", "choices": ["Three", "Five"], "default": "Three", "minutes": 5 }),
    )]));
    let shell = shell(&[("a", "one\n")]);
    let chat = recorded(&shell, &model, &[]);
    let arguments = [&chat[..], &["--json".to_owned()]].concat();
    let mut running = shell.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    running.type_line("more replicas");
    // The call runs; the program is killed.
    running.wait_for_stdout_line("\"event\":\"question\"");
    drop(running);
    for _ in 0..2 {
        let continued = resumed(&shell, &chat, "/usage\n");
        assert_eq!(continued.code, Some(0), "{continued:?}");
        let out = "1050 tokens: 1000 in, 50 out, 0 read from and 0 written to the cache; $0.0063\n";
        assert_eq!(continued.out, out, "{continued:?}");
    }
}

/// STK-57: the model is told in the first request after a loss, in whichever session that is.
#[test]
fn the_model_is_told_of_a_loss_although_a_session_without_a_request_was_in_between() {
    let model = BlockingModel::start(queue([says("One."), says("Two."), says("Three.")]));
    let shell = shell(&[("a", "one\n")]);
    let chat = recorded(&shell, &model, &[]);
    assert_eq!(run(&shell, &chat, "read a\n").out, "One.\n");
    let file = recording(&shell);
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("{\"at\":\"2026-");
    std::fs::write(&file, text).unwrap();
    let lost = "A crash cut the last line of the recording: ";
    let first = resumed(&shell, &chat, "/usage\n");
    assert!(first.err.contains(lost), "{first:?}");
    assert!(!resumed(&shell, &chat, "/usage\n").err.contains(lost));
    let notes = |index: usize| {
        let said = model.asked()[index].last_user_text().to_owned();
        said.matches("(This conversation was interrupted").count()
    };
    assert_eq!(resumed(&shell, &chat, "and two?\n").out, "Two.\n");
    assert_eq!(notes(1), 1);
    // The request has it, so the next one has not.
    assert_eq!(resumed(&shell, &chat, "and three?\n").out, "Three.\n");
    assert_eq!(notes(2), 0);
}

/// STK-57: a recording whose first line a crash cut has nothing to continue, and hides no other recording.
#[test]
fn a_recording_without_a_request_is_skipped() {
    let model = BlockingModel::start(queue([says("One."), says("Two.")]));
    let shell = shell(&[("a", "one\n")]);
    let chat = recorded(&shell, &model, &[]);
    assert_eq!(run(&shell, &chat, "read a\n").out, "One.\n");
    let newer = "f".repeat(32);
    let file = recording(&shell).with_file_name(format!("{newer}.jsonl"));
    let cut = "{\"at\":\"2026-01-01T00:00:00Z\",\"event\":\"began\",\"us";
    std::fs::write(&file, cut).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let times = std::fs::File::options().write(true).open(&file).unwrap();
    times.set_modified(later).unwrap();
    let skipped = format!("Session {newer} is skipped: it ended before its first request was recorded.\n");
    let continued = resumed(&shell, &chat, "and two?\n");
    assert_eq!(
        (continued.code, continued.out.as_str()),
        (Some(0), "Two.\n"),
        "{continued:?}"
    );
    assert!(continued.err.contains(&skipped), "{continued:?}");
    assert_eq!(model.asked()[1].messages.len(), 3);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), cut);
    // The one that is named is not skipped.
    let named = run(
        &shell,
        &[&chat[..], &["--resume".to_owned(), newer]].concat(),
        "hi\n",
    );
    assert_eq!(named.code, Some(1), "{named:?}");
    assert!(named.err.contains("the recording has no request"), "{named:?}");
}

/// STK-57: a session that goes on knows that files were restored.
#[test]
fn the_model_is_told_in_a_later_session_that_its_edits_were_undone() {
    let model = BlockingModel::start(queue([
        calls("file_edit", json!({ "path": "a", "old": "one", "new": "two" })),
        says("It is two."),
        says("I see."),
        says("Again."),
    ]));
    let shell = shell(&[("a", "one\n")]);
    let chat = recorded(&shell, &model, &[]);
    let undone = run(&shell, &chat, "make it two\n/undo\n");
    assert_eq!(undone.out, "It is two.\nrestored: a\n", "{undone:?}");
    assert_eq!(shell.get("a"), "one\n");
    let note = "(The edits of the previous turn were undone;";
    let said = |index: usize| model.asked()[index].last_user_text().to_owned();
    assert_eq!(resumed(&shell, &chat, "/usage\n").code, Some(0));
    assert_eq!(resumed(&shell, &chat, "go on\n").out, "I see.\n");
    assert!(
        said(2).starts_with(note) && said(2).ends_with("go on"),
        "{}",
        said(2)
    );
    assert_eq!(resumed(&shell, &chat, "once more\n").out, "Again.\n");
    assert_eq!(said(3), "once more");
}

/// STK-57: what was undone is not continued.
#[test]
fn a_request_whose_edits_were_undone_is_not_continued_by_a_later_session() {
    let model = BlockingModel::start(queue([
        calls("file_edit", json!({ "path": "a", "old": "one", "new": "two" })),
        says("never").with_fault(AnswerFault::Stall),
    ]));
    let shell = shell(&[("a", "one\n")]);
    let chat = recorded(&shell, &model, &[]);
    let mut running = shell.start(&chat.iter().map(String::as_str).collect::<Vec<_>>());
    running.type_line("make it two");
    model.wait_for_requests(2);
    running.interrupt();
    running.wait_for_stderr_line("Stopped at step 2.");
    running.type_line("/undo");
    running.wait_for_stdout_line("restored: a");
    drop(running);
    let continued = resumed(&shell, &chat, "/retry\n");
    assert!(
        continued
            .err
            .contains("There is no stopped or failed request to continue."),
        "{continued:?}"
    );
    assert!(!continued.err.contains("/retry continues it"), "{continued:?}");
}
