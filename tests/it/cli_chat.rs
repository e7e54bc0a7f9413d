//! `drydock chat` over a pipe: turns, commands, stopping and leaving.

use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{AnswerFault, calls, queue, says};
use serde_json::json;

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");

fn shell() -> Shell {
    Shell::with_repository(&[("a", "one\n"), ("run", "#!/bin/sh\n")]).set(KEY.0, KEY.1)
}

fn chat(model: &BlockingModel) -> Vec<String> {
    let url = format!("providers.anthropic.base_url={}", model.url());
    ["chat", "--set", &url].map(str::to_owned).to_vec()
}

fn said(
    shell: &Shell,
    model: &BlockingModel,
    input: impl AsRef<[u8]>,
) -> crate::support::shell::ProgramOutput {
    let arguments = chat(model);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    shell.run_with_input(&arguments, input)
}

/// TK-61, TK-62, TK-13: Ctrl-D leaves, a second turn knows the first, `/clear` forgets.
#[test]
fn turns_keep_their_history_until_it_is_cleared() {
    let model = BlockingModel::start(queue([
        says("I am well."),
        says("You asked how I am."),
        says("Nothing."),
    ]));
    let ended = said(
        &shell(),
        &model,
        "how are you?\nwhat did I ask?\n/clear\nand now?\n",
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(
        ended.out,
        "I am well.\nYou asked how I am.\ncleared; the files stay\nNothing.\n"
    );
    let asked = model.asked();
    let texts = |index: usize| -> Vec<String> {
        let messages = asked[index].messages.iter();
        messages.map(|message| message.text.clone()).collect()
    };
    assert_eq!(texts(1), ["how are you?", "I am well.", "what did I ask?"]);
    assert_eq!(texts(2), ["and now?"]);
}

/// TK-62 TK-63 TK-64: commands send no model request.
#[test]
fn commands_are_answered_without_the_model() {
    let model = BlockingModel::start(queue([
        calls("file_edit", json!({ "path": "a", "old": "one", "new": "two" })),
        says("Changed."),
    ]));
    let shell = shell();
    let ended = said(
        &shell,
        &model,
        "/help\n/status\n/diff\n/undo\n/context\nchange it\n/status\n/diff\n/context\n/usage\n/statsu\n/exit\nnever said\n",
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expected = "\
/help              this list
/status            show the model and the changes so far
/diff [ENV]        show the changes of this session, or their effect on one environment
/risk              show the risks of the changes of this session
/envs              list the environments, and which of them change
/render ENV        show the objects of an environment as YAML
/who-imports PATH  list the entry points that a file affects
/undo              undo the last turn that edited files
/retry             continue the last request after a stop or a failure
/attach [FILE]     attach an image, a PDF or a text to the next request, or list what is attached
/model [NAME]      show the model, or use another one
/clear             clear the conversation; the files stay
/context           show what the model sees
/usage             show the tokens you used, and their cost
/exit              exit (or Ctrl-D)
Ctrl-C             stop what is running
queue: REQUEST     run it after the running turn; any other line reaches its next step
anthropic/claude-opus-4-6; 0 turns; nothing changed
nothing changed
there is nothing to undo
the model sees its instructions, the tools and nothing else
Changed.
anthropic/claude-opus-4-6; 1 turn; 1 file, +1 −1
  a +1 −1
diff --git a/a b/a
";
    assert!(ended.out.starts_with(expected), "{}", ended.out);
    for shown in [
        "-one\n+two\n",
        "you: change it\n\
         model (1050 tokens): \n  \
           file_edit {\"new\":\"two\",\"old\":\"one\",\"path\":\"a\"}\n  \
           answered: edited a (line 1, +1 −1 against the base)\n\
         model (1050 tokens): Changed.\n\
         Instructions ",
        "2100 tokens: 2000 in, 100 out",
        "\nResults of tools  195 bytes, about 24 tokens, 0 %\n",
        "\nRoom for          400,000 bytes, about 50,000 tokens, 100 %\n",
    ] {
        assert!(ended.out.contains(shown), "{shown}: {}", ended.out);
    }
    let unknown = "I don't know the command `/statsu`. Did you mean `/status`? I know `/help`, `/status`";
    assert!(ended.err.contains(unknown), "{}", ended.err);
    assert_eq!(model.asked().len(), 2);
}

/// Returns the bytes of the tools in the answer to `/context`.
fn tools_bytes(out: &str) -> usize {
    let line = regex::Regex::new(r"Tools +([0-9,]+) bytes").unwrap();
    let bytes = &line.captures(out).unwrap_or_else(|| panic!("{out}"))[1];
    bytes.replace(',', "").parse().unwrap()
}

/// TK-63: `/context` shows the files of a request, and why an answer was sent back.
#[test]
fn the_context_shows_attachments_and_what_was_sent_back() {
    let broken = json!({ "path": "a.json", "content": "{ nope" });
    let model = BlockingModel::start(queue([
        calls("file_write", broken),
        says("All is well."),
        says("It stays broken."),
    ]));
    let shell = shell();
    shell.put("b.png", "\u{89}PNG");
    std::fs::write(shell.work().join("b.png"), b"\x89PNG\r\n\x1a\n0000").unwrap();
    let ended = said(&shell, &model, "/attach b.png\nsee\n/context\n");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(model.asked().len(), 3, "{ended:?}");
    let remark = model.asked()[2].last_user_text().to_owned();
    assert!(!remark.is_empty());
    for shown in [
        "you: see\n\n[Attached: b.png (image/png, 12 bytes)]\nmodel (1050 tokens): \n  file_write {"
            .to_owned(),
        format!(
            "model (1050 tokens): All is well.\n  sent back: {remark}\nmodel (1050 tokens): It stays broken.\nInstructions "
        ),
    ] {
        assert!(ended.out.contains(&shown), "{shown}: {}", ended.out);
    }
}

/// TK-63: `/context` counts all tools that a request has, with those of questions and of the strategy.
#[test]
fn the_context_counts_all_tools_of_a_request() {
    let mut sizes = Vec::new();
    for more in [&[][..], &["--json"], &["--set", "limits.context_strategy=notes"]] {
        let model = BlockingModel::start(queue([says("Fine.")]));
        let arguments = chat(&model);
        let arguments: Vec<&str> = arguments
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .collect();
        let ended = shell().run_with_input(&arguments, "how are you?\n/context\n");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let body: serde_json::Value = serde_json::from_str(&model.asked()[0].raw).unwrap();
        let tools = body["tools"].as_array().unwrap();
        let sent: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
        sizes.push((tools.len(), sent, tools_bytes(&ended.out)));
    }
    let (count, sent, counted) = sizes[0];
    for (more_tools, more_sent, more_counted) in &sizes[1..] {
        assert_eq!(*more_tools, count + 1, "{sizes:?}");
        // Each tool counts a little more than it has, because the formats differ.
        let more = more_sent - sent;
        assert!(
            (more..more + 250).contains(&(more_counted - counted)),
            "{sizes:?}"
        );
    }
}

#[test]
fn environments_are_listed_and_shown_without_the_model() {
    let main = "{ secret: { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's' }, stringData: { key: 'for-nobody' } },\n\
                  app: (import 'app.libsonnet') + { spec: { replicas: 2 } } }\n";
    let app = "{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'web' } }\n";
    let shell = Shell::with_repository(&[
        ("jsonnetfile.json", "{}\n"),
        ("lib/app.libsonnet", app),
        ("environments/dev/main.jsonnet", main),
        (
            "environments/dev/spec.json",
            "{ \"spec\": { \"namespace\": \"web\" } }\n",
        ),
    ])
    .set(KEY.0, KEY.1);
    let edit = json!({ "path": "environments/dev/main.jsonnet", "old": "replicas: 2", "new": "replicas: 0" });
    let model = BlockingModel::start(queue([calls("file_edit", edit), says("Changed.")]));
    let ended = said(
        &shell,
        &model,
        "/envs\n/risk\n/render dev\n/render\n/render prod\n/who_imports lib/app.libsonnet\nchange it\n/envs\n/diff dev\n/risk\n",
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let before = "\
1 environment in `work`.
environments/dev: namespace web (`environments/dev/main.jsonnet`)
Nothing is prepared here, so there are no risks to show.
`environments/dev`: 2 objects.
Cross-checked: a second engine has the same value.
apiVersion: v1
kind: Secret
";
    assert!(ended.out.starts_with(before), "{}", ended.out);
    for shown in [
        "  key: (hidden)\n",
        "1 entry point imports `lib/app.libsonnet`, directly or not.\nenvironments/dev/main.jsonnet\nChanged.\n",
        "environments/dev [changed]: namespace web",
        "-  replicas: 2\n+  replicas: 0\n",
        "1 rule matched",
    ] {
        assert!(ended.out.contains(shown), "{shown}: {}", ended.out);
    }
    assert!(!ended.out.contains("for-nobody"), "{}", ended.out);
    for reported in [
        "Which environment? For instance `/render environments/dev`; `/envs` lists them.",
        "There is no environment `prod`. There are `environments/dev`.",
    ] {
        assert!(ended.err.contains(reported), "{reported}: {}", ended.err);
    }
    assert_eq!(model.asked().len(), 2);
}

#[test]
fn undo_restores_bytes_modes_and_deleted_files() {
    use std::os::unix::fs::PermissionsExt;
    let model = BlockingModel::start(queue([
        calls("file_edit", json!({ "path": "a", "old": "one", "new": "two" })),
        says("First."),
        calls("file_edit", json!({ "path": "a", "old": "two", "new": "three" }))
            .with_call("file_delete", json!({ "path": "run" }))
            .with_call("file_write", json!({ "path": "new/b", "content": "b\n" })),
        says("Second."),
        says("Third."),
    ]));
    let shell = shell();
    let run = shell.work().join("run");
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ended = said(&shell, &model, "first\nsecond\n/undo\n/undo\n/undo\nthird\n");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(
        ended.out,
        "First.\nSecond.\nrestored: a, new/b, run\nrestored: a\nthere is nothing to undo\nThird.\n"
    );
    assert_eq!(
        (shell.get("a"), shell.get("run")),
        ("one\n".to_owned(), "#!/bin/sh\n".to_owned())
    );
    assert_eq!(run.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    assert!(!shell.work().join("new/b").exists());
    let reported = model.asked().pop().unwrap().last_user_text().to_owned();
    assert!(
        reported.starts_with("(The edits of the previous turn were undone;"),
        "{reported}"
    );
}

#[test]
fn what_somebody_edited_since_is_left_as_it_is() {
    let model = BlockingModel::start(queue([
        calls("file_edit", json!({ "path": "a", "old": "one", "new": "two" })),
        says("Changed."),
    ]));
    let shell = shell();
    let arguments = chat(&model);
    let mut running = shell.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    running.type_line("change it");
    running.wait_for_stdout_line("Changed.");
    shell.put("a", "mine\n");
    running.type_line("/undo");
    running.wait_for_stdout_line("not undone, because it was edited since then: a");
    running.close_input();
    assert_eq!(running.end().code, Some(0));
    assert_eq!(shell.get("a"), "mine\n");
}

/// TK-65: Ctrl-C stops the turn, not the session. At the prompt it does nothing.
#[test]
fn ctrl_c_stops_the_turn_and_the_session_goes_on() {
    let model = BlockingModel::start(queue([
        says("never").with_fault(AnswerFault::Stall),
        says("Still here."),
    ]));
    let shell = shell();
    let arguments = chat(&model);
    let mut running = shell.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    running.type_line("think long");
    model.wait_for_requests(1);
    running.interrupt();
    running.wait_for_stderr_line("Stopped at step 1.");
    running.type_line("are you there?");
    running.wait_for_stdout_line("Still here.");
    running.interrupt();
    running.wait_for_stderr_line("");
    running.type_line("/usage");
    running.wait_for_stdout_line("1050 tokens");
    running.close_input();
    assert_eq!(running.end().code, Some(0));
}

#[test]
fn a_line_that_is_too_long_is_reported_and_not_sent() {
    let model = BlockingModel::start(queue([says("Short.")]));
    let long = "x".repeat(200_000);
    let ended = said(&shell(), &model, format!("{long}\nshort\n"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "Short.\n"));
    assert!(
        ended.err.contains("A line may have 16000 characters"),
        "{}",
        ended.err
    );
}

#[test]
fn a_line_that_is_not_utf_8_is_reported_and_not_sent() {
    let model = BlockingModel::start(queue([says("Short.")]));
    let ended = said(&shell(), &model, b"caf\xe9\nshort\n");
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "Short.\n"));
    assert!(ended.err.contains("not UTF-8, so it was not sent"), "{ended:?}");
}

/// TK-3, TK-85: a session is recorded only on request, and then privately.
#[test]
fn a_session_is_recorded_only_on_request() {
    use std::os::unix::fs::PermissionsExt;
    let model = BlockingModel::start(queue([says("Hello."), says("Hello.")]));
    let shell = shell();
    let before = std::fs::read_dir(shell.home()).unwrap().count();
    assert_eq!(said(&shell, &model, "hi\n").code, Some(0));
    assert_eq!(std::fs::read_dir(shell.home()).unwrap().count(), before);
    assert!(!shell.work().join(".git/drydock").exists());

    let kept = shell.home().join("kept");
    let mut arguments = chat(&model);
    arguments.extend(["--record".to_owned(), kept.display().to_string()]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = shell.run_with_input(&arguments, "remember\n");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut open = vec![kept];
    let mut recordings = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => recordings.push(path),
            }
        }
    }
    assert_eq!(recordings.len(), 1, "{recordings:?}");
    let text = std::fs::read_to_string(&recordings[0]).unwrap();
    assert!(text.contains("remember") && text.contains("Hello."), "{text}");
    // A later session has no history of an earlier one.
    let of_the_second = &model.asked()[1].messages;
    let texts: Vec<&str> = of_the_second
        .iter()
        .map(|message| message.text.as_str())
        .collect();
    assert_eq!(texts, ["remember"]);
    assert_eq!(
        recordings[0].metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
}
