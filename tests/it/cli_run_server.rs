//! `drydock run --server`: a pipeline that a person starts on a server from the command line, and sees up to its end.

use crate::api::Api;
use crate::runs_api::{CANCEL, READ, SHOW, WRITE, ended_runs, publish, send, token};
use crate::secrets::commit;
use crate::support::app::TestApp;
use crate::support::relay::Relay;
use crate::support::shell::{ProgramOutput, RunningProgram, Shell};
use drydock::base::model::RunId;
use drydock::engine::admin::{AdminReply, AdminRequest, RunOrder};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, queue, says};
use drydock::state::access::Role;
use gix::objs::tree::EntryKind;
use serde_json::json;

pub(crate) const ALICE: &str = "U0ALICE";
/// The arguments of a run of the pipeline `review`.
const REVIEW: [&str; 5] = ["review", "--param", "number=7", "--repository", "infra"];

/// A terminal of a person, with the address of a server and a token for it.
pub(crate) struct Terminal {
    shell: Shell,
    url: String,
}

impl Terminal {
    pub(crate) fn new(url: &str, token: &str) -> Self {
        Self {
            shell: Shell::new().set("DRYDOCK_TOKEN", token),
            url: url.to_owned(),
        }
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> RunningProgram {
        self.shell
            .start(&[&["run", "--server", &self.url], arguments].concat())
    }

    /// Runs the program to its end, while the gateway goes on.
    pub(crate) fn run(&self, arguments: &[&str]) -> ProgramOutput {
        tokio::task::block_in_place(|| self.start(arguments).end())
    }
}

fn wait_for(program: &mut RunningProgram, line: &str) {
    tokio::task::block_in_place(|| program.wait_for_stderr_line(line));
}

fn end(program: RunningProgram) -> ProgramOutput {
    tokio::task::block_in_place(|| program.end())
}

fn concludes(verdict: &str) -> ScriptedAnswer {
    calls(
        "conclude",
        json!({ "verdict": verdict, "summary": "Seven is odd." }),
    )
}

/// CI-15
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_is_started_on_a_server_and_shown_like_one_at_a_terminal() {
    let answers = [concludes("pass").with_fault(AnswerFault::Held), concludes("fail")];
    let app = TestApp::with_settings(queue(answers), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    let terminal = Terminal::new(&app.demo.url(), &token(&app, ALICE, &[READ, WRITE]).await);
    let mut program = terminal.start(&REVIEW);
    app.wait_for_model_requests(1).await;
    wait_for(&mut program, "Step 1 of 1: look (agent)");
    app.demo.model.release();
    let ended = end(program);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let out: Vec<&str> = ended.out.lines().collect();
    let ["Seven is odd.", head, row] = out.as_slice() else {
        panic!("{ended:?}");
    };
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(cells(head), ["STEP", "STATUS", "VERDICT", "TOKENS", "TIME"]);
    let row = cells(row);
    assert_eq!(
        row.get(..5).unwrap(),
        ["look", "succeeded", "pass", "(concluded)", "1,050"]
    );
    let err: Vec<&str> = ended.err.lines().collect();
    let [
        "Run 1 of review on infra was started.",
        "Step 1 of 1: look (agent)",
        of_step,
        "1 model call, 1,050 tokens, run 1",
    ] = err.as_slice()
    else {
        panic!("{ended:?}");
    };
    assert!(
        of_step.starts_with("look: succeeded, verdict pass (concluded), 1,050 tokens, "),
        "{of_step}"
    );
    let request = app.model_requests();
    assert!(request[0].last_user_text().contains(r#""text":"7""#));
    assert_eq!(
        app.column("SELECT repository || ' ' || status FROM run"),
        ["infra succeeded"]
    );

    let failed = terminal.run(&["review", "--param", "number=8", "--json"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert_eq!(failed.json()["status"], "failed");
    assert!(
        failed
            .err
            .lines()
            .last()
            .unwrap()
            .starts_with("the run failed: step look: "),
        "{failed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_on_the_command_line_starts_one_run_and_json_is_the_run_of_the_api() {
    let app = TestApp::with_settings(|_: &ModelRequest| says("It is odd."), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    let token = token(&app, ALICE, &[READ, WRITE]).await;
    let terminal = Terminal::new(&app.demo.url(), &token);
    let detached = terminal.run(&[&REVIEW[..], &["--key", "build-1", "--detach", "--json"]].concat());
    assert_eq!(detached.code, Some(0), "{detached:?}");
    assert_eq!(detached.json()["id"], 1);
    ended_runs(&app, 1).await;
    let again = terminal.run(&[&REVIEW[..], &["--key", "build-1"]].concat());
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(
        again
            .err
            .starts_with("Run 1 of review on infra was started before, with the same key.\n"),
        "{again:?}"
    );
    assert!(again.out.starts_with("It is odd.\nSTEP"), "{again:?}");
    let shown = terminal.run(&[&REVIEW[..], &["--key", "build-1", "--json"]].concat());
    let api = Api::new(&app).await;
    assert_eq!(shown.json(), send(&api, SHOW, &token, 1).await.1, "{shown:?}");
    let detached = terminal.run(&[&REVIEW[..], &["--key", "build-1", "--detach"]].concat());
    assert_eq!(
        (detached.code, detached.out.as_str()),
        (Some(0), "run 1 succeeded\n"),
        "{detached:?}"
    );
    assert!(
        detached.err.contains("--key build-1 shows the run"),
        "{detached:?}"
    );
    let other = terminal.run(&["review", "--param", "number=8", "--key", "build-1"]);
    assert_eq!((other.code, other.out.as_str()), (Some(2), ""), "{other:?}");
    assert!(other.err.starts_with("--key: nothing was started: "), "{other:?}");
    assert_eq!(app.count("SELECT count(*) FROM run"), 1);
    // Without a key, each call starts a run.
    for count in [2, 3] {
        assert_eq!(terminal.run(&REVIEW).code, Some(0));
        assert_eq!(app.count("SELECT count(*) FROM run"), count);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_leaves_a_run_on_a_server_going_and_says_how_to_cancel_it() {
    let stalls = |_: &ModelRequest| says("Never said.").with_fault(AnswerFault::Stall);
    let app = TestApp::with_settings(stalls, &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    let token = token(&app, ALICE, &[READ, WRITE]).await;
    let terminal = Terminal::new(&app.demo.url(), &token);
    let arguments = [&REVIEW[..], &["--key", "build-1"]].concat();
    let mut program = terminal.start(&arguments);
    wait_for(&mut program, "Step 1 of 1: look (agent)");
    program.interrupt();
    let ended = end(program);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    let said = format!(
        "run 1 goes on at {}; `drydock runs cancel 1` on that server cancels it, and so does `!runs cancel 1` in a chat; \
         the same command with --key build-1 shows the run, and starts nothing twice\n",
        app.demo.url()
    );
    assert!(ended.err.ends_with(&said), "{ended:?}");
    assert_eq!(app.column("SELECT status FROM run"), ["running"]);
    let api = Api::new(&app).await;
    assert_eq!(send(&api, CANCEL, &token, 1).await.0, 200);
    ended_runs(&app, 1).await;
    let cancelled = terminal.run(&arguments);
    assert_eq!(cancelled.code, Some(1), "{cancelled:?}");
    assert!(
        cancelled
            .err
            .ends_with("run 1 is cancelled: cancelled by U0ALICE\n"),
        "{cancelled:?}"
    );
    assert!(cancelled.out.contains("look  cancelled"), "{cancelled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_and_a_lost_connection_start_nothing_twice_and_the_run_is_shown_to_its_end() {
    let edit = json!({ "path": "environments/dev/main.jsonnet", "old": "web:1.8.3", "new": "web:1.9.0" });
    let answers = [
        calls("file_edit", edit).with_fault(AnswerFault::Held),
        says("Prepared."),
    ];
    let app = TestApp::with_settings(queue(answers), &[]).await;
    app.admit_slack_editor(ALICE).await;
    publish(&app);
    let relay = Relay::losing_the_first_answer(&app.demo.url());
    let terminal = Terminal::new(&relay.url(), &token(&app, ALICE, &[READ, WRITE]).await);
    let mut program = terminal.start(&["small"]);
    wait_for(&mut program, "the request is repeated.");
    wait_for(
        &mut program,
        "Run 1 of small on infra was started before, with the same key.",
    );
    wait_for(&mut program, "Step 1 of 1: promote (agent)");
    app.wait_for_model_requests(1).await;
    // The events are watched by now.
    tokio::task::block_in_place(|| relay.cut_after("event: run"));
    wait_for(&mut program, "The events of run 1 have stopped");
    app.demo.model.release();
    let ended = end(program);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.starts_with("Prepared.\nSTEP"), "{ended:?}");
    assert!(
        ended
            .err
            .contains("CHG-1 is prepared; `drydock pull CHG-1` writes it into the files of your checkout.\n"),
        "{ended:?}"
    );
    // Each step is shown once.
    assert_eq!(ended.err.matches("Step 1 of 1").count(), 1, "{ended:?}");
    assert_eq!(app.count("SELECT count(*) FROM run"), 1);
    ended_runs(&app, 1).await;
}

const DECIDE: &str = r#"
pipelines:
  decide:
    triggers: [{api: {}}]
    steps:
      - name: approve
        ask: {to: {person: U0ALICE}, question: Go on?, choices: ["yes", "no"], deadline: 10m}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_run_on_a_server_is_answered_there_and_its_choice_is_shown() {
    let app = TestApp::with_settings(queue([]), &[]).await;
    app.admit_slack_editor(ALICE).await;
    // She is asked in private, where she has written before.
    app.demo.slack.dm(ALICE, "!runs").await.unwrap();
    app.wait_for_slack_message("DU0ALICE", "There is no run that you may see.")
        .await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, DECIDE)]);
    let terminal = Terminal::new(&app.demo.url(), &token(&app, ALICE, &[READ, WRITE]).await);
    let mut program = terminal.start(&["decide"]);
    wait_for(
        &mut program,
        "Step 1 of 1: approve (ask), waits for an answer in a chat",
    );
    let answer = AdminRequest::Run {
        id: RunId(1),
        order: RunOrder::Answer {
            step: None,
            choice: "yes".to_owned(),
        },
    };
    let reply = app.send_admin_request(answer).await;
    assert!(!matches!(reply, AdminReply::Failed { .. }), "{reply:?}");
    let ended = end(program);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("approve: succeeded, yes\n"), "{ended:?}");
    let row: Vec<&str> = ended.out.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row, ["approve", "succeeded"]);
    app.wait_until_idle().await;
}

/// Returns the error of a program that printed nothing else.
pub(crate) fn refusal(ended: &ProgramOutput, code: i32) -> &str {
    assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{ended:?}");
    &ended.err
}
