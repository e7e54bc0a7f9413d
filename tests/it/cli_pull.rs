//! `drydock pull`: from the request in a chat to the files of a person's checkout.

use crate::hooks::{ONE, deliver, release};
use crate::shown_texts::stable;
use crate::support::app::{TestApp, step_number};
use crate::support::machine::{Machine, PUBLIC_URL};
use crate::support::phone;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

pub(crate) const ALICE: &str = "U0ALICE";
pub(crate) const DEV: &str = "environments/dev/main.jsonnet";
const NEW: &str = "environments/dev/notes.md";
const OLD: &str = "prompts/release.md";

/// Sets the replicas of web in dev to 4.
pub(crate) fn scale(asked: &ModelRequest) -> ScriptedAnswer {
    match step_number(asked) {
        0 => calls("file_edit", scale_call()),
        _ => says("Done."),
    }
}

fn scale_call() -> serde_json::Value {
    let (old, new) = ("web:1.8.3',\n    replicas: 2,", "web:1.8.3',\n    replicas: 4,");
    json!({ "path": DEV, "old": old, "new": new })
}

/// Edits a file, adds one and deletes one.
pub(crate) fn several(asked: &ModelRequest) -> ScriptedAnswer {
    match step_number(asked) {
        0 => calls("file_edit", scale_call())
            .with_call("file_write", json!({ "path": NEW, "content": "four\nreplicas" }))
            .with_call("file_delete", json!({ "path": OLD })),
        _ => says("Done."),
    }
}

/// Starts the gateway with an editor who has asked for a change.
pub(crate) async fn prepared(script: fn(&ModelRequest) -> ScriptedAnswer) -> TestApp {
    let app = TestApp::with_settings(script, &[PUBLIC_URL]).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "four replicas").await;
    assert!(
        result.text.contains("CHG-1 is ready") && result.text.contains("drydock pull CHG-1"),
        "{}",
        result.text
    );
    app
}

/// Starts the gateway with a prepared change, and a machine of its person that is logged in; `None` without git.
pub(crate) async fn prepared_for_machine(
    script: fn(&ModelRequest) -> ScriptedAnswer,
) -> Option<(TestApp, Machine)> {
    let app = prepared(script).await;
    let machine = Machine::new(&app)?;
    machine.log_in(&app, ALICE).await;
    Some((app, machine))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_chat_is_pulled_into_the_files_and_into_nothing_else() {
    let Some((app, machine)) = prepared_for_machine(several).await else {
        return;
    };
    let before = machine.shell.get(DEV);
    // Git reads the files once, so that it need not write its index later.
    assert_eq!(machine.git(&["status", "--porcelain"]), "");
    let git_files = machine.git_files();

    let checked = machine.run(&["pull", "1", "--check"]);
    let lines = format!("written    {DEV}\nwritten    {NEW}\ndeleted    {OLD}\n");
    assert_eq!((checked.code, &checked.out), (Some(0), &lines), "{checked:?}");
    assert_eq!(checked.err, "Nothing was written.\n");
    assert_eq!(machine.shell.get(DEV), before);

    let pulled = machine.run(&["pull", "CHG-1"]);
    assert_eq!((pulled.code, &pulled.out), (Some(0), &lines), "{pulled:?}");
    assert_eq!(pulled.err, "Nothing was staged or committed.\n");
    let after = before.replace("1.8.3',\n    replicas: 2,", "1.8.3',\n    replicas: 4,");
    assert_ne!(before, after);
    assert_eq!(machine.shell.get(DEV), after);
    assert_eq!(machine.shell.get(NEW), "four\nreplicas");
    assert!(!machine.shell.work().join("prompts").exists());
    assert_eq!(machine.git_files(), git_files);

    // A second pull changes nothing.
    let again = machine.run(&["pull", "chg-1", "--json"]);
    assert_eq!(
        again.json(),
        json!({
            "change": "CHG-1", "revision": 1, "repository": "infra", "base": app.demo.base, "written": true,
            "files": [
                { "path": DEV, "step": "unchanged" },
                { "path": NEW, "step": "unchanged" },
                { "path": OLD, "step": "unchanged" },
            ],
        })
    );
    assert_eq!(machine.git_files(), git_files);
    let status = machine.git(&["status", "--porcelain"]);
    assert_eq!(status, format!(" M {DEV}\n D {OLD}\n?? {NEW}\n"));
    let pulls = app.audit_lines_with("change.pulled");
    assert_eq!(pulls.len(), 3, "each answer of the server is recorded: {pulls:?}");
    assert!(
        pulls[0].contains(r#""change":"CHG-1","name":"U0ALICE""#),
        "{pulls:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_patch_of_a_pull_is_the_patch_of_the_chat() {
    let Some((app, machine)) = prepared_for_machine(several).await else {
        return;
    };
    let pulled = machine.run(&["pull", "1", "--patch"]);
    assert_eq!((pulled.code, pulled.err.as_str()), (Some(0), ""), "{pulled:?}");
    app.run_slash_command(ALICE, "patch").await;
    app.wait_until_idle().await;
    let sent = app.demo.slack.with_state(|state| {
        let file = state.files.iter().find(|file| file.name == "CHG-1.patch");
        String::from_utf8(file.unwrap().content.to_vec()).unwrap()
    });
    assert_eq!(pulled.out, sent);
    assert_eq!(machine.git(&["status", "--porcelain"]), "");
    machine.shell.put("../CHG-1.patch", &pulled.out);
    machine.git(&["apply", "../CHG-1.patch"]);
    let repeated = machine.run(&["pull", "1"]);
    assert_eq!(repeated.out.matches("unchanged").count(), 3, "{repeated:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_its_person_edited_is_merged_and_stays_so() {
    let Some((_app, machine)) = prepared_for_machine(scale).await else {
        return;
    };
    let base = machine.shell.get(DEV);
    let mine = base.replace("api:4.2.0", "api:4.3.0");
    machine.shell.put(DEV, &mine);
    let file = machine.shell.work().join(DEV);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let git_files = machine.git_files();
    let pulled = machine.run(&["pull", "1"]);
    assert_eq!(pulled.out, format!("merged     {DEV}\n"), "{pulled:?}");
    let both = mine.replace("1.8.3',\n    replicas: 2,", "1.8.3',\n    replicas: 4,");
    assert_ne!(both, mine);
    assert_eq!(machine.shell.get(DEV), both);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    let again = machine.run(&["pull", "1"]);
    assert_eq!(again.out, format!("unchanged  {DEV}\n"), "{again:?}");
    assert_eq!(machine.shell.get(DEV), both);
    assert_eq!(machine.git_files(), git_files);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_file_that_cannot_be_merged_stops_the_whole_pull() {
    let Some((_app, machine)) = prepared_for_machine(several).await else {
        return;
    };
    let mine = machine
        .shell
        .get(DEV)
        .replace("1.8.3',\n    replicas: 2,", "1.8.3',\n    replicas: 3,");
    machine.shell.put(DEV, &mine);
    machine.shell.put(NEW, "mine\n");
    let (status, git_files) = (machine.git(&["status", "--porcelain"]), machine.git_files());
    let refused = machine.run(&["pull", "1"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    let why = format!(
        "nothing was written: 2 files cannot be merged:\n  {DEV}: you and the change edit the same lines\n  {NEW}: you have \
         another file of this name, and the change adds one\nSet your edits of these files aside, for instance with `git \
         stash`, and pull again; or merge by hand with `drydock pull 1 --patch > CHG-1.patch` and `git apply --3way \
         CHG-1.patch`.\n"
    );
    assert_eq!(refused.err, why);
    assert_eq!(machine.git(&["status", "--porcelain"]), status);
    assert_eq!(machine.git_files(), git_files);
    assert_eq!(machine.shell.get(DEV), mine);
    assert!(machine.shell.work().join(OLD).exists());

    machine.git(&["stash", "-q", "--include-untracked"]);
    assert_eq!(machine.run(&["pull", "1"]).code, Some(0));
}

/// Sets the replicas to 4 and adds a file; when it is asked again, sets them to 5 and takes the file back.
fn revised(asked: &ModelRequest) -> ScriptedAnswer {
    let is_first = !asked.last_user_text().contains("five");
    match (step_number(asked), is_first) {
        (0, true) => calls("file_edit", scale_call())
            .with_call("file_write", json!({ "path": NEW, "content": "four\n" })),
        (0, false) => {
            let (old, new) = ("replicas: 4,", "replicas: 5,");
            calls("file_edit", json!({ "path": DEV, "old": old, "new": new }))
                .with_call("file_delete", json!({ "path": NEW }))
        }
        _ => says("Done."),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_revision_replaces_the_one_that_was_pulled_before() {
    let app = TestApp::with_settings(revised, &[PUBLIC_URL]).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas").await;
    let Some(machine) = Machine::new(&app) else { return };
    machine.log_in(&app, ALICE).await;
    let pulled = machine.run(&["pull", "1"]);
    assert_eq!(pulled.out, format!("written    {DEV}\nwritten    {NEW}\n"));
    app.ask_in(ALICE, &first.thread, "five replicas").await;
    let pulled = machine.run(&["pull", "1"]);
    let lines = format!("written    {DEV}\ndeleted    {NEW}\n");
    assert_eq!((pulled.code, &pulled.out), (Some(0), &lines), "{pulled:?}");
    assert!(machine.shell.get(DEV).contains("1.8.3',\n    replicas: 5,"));
    assert!(!machine.shell.work().join(NEW).exists());
    let again = machine.run(&["pull", "1"]);
    assert_eq!(again.out, format!("unchanged  {DEV}\n"));

    // A file of the person that only an earlier revision had stays.
    machine.shell.put(NEW, "mine\n");
    assert_eq!(machine.run(&["pull", "1"]).out, format!("unchanged  {DEV}\n"));
    assert_eq!(machine.shell.get(NEW), "mine\n");
}

/// A process that is killed between two files leaves some of them written.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_pull_is_completed_by_the_next_one() {
    let Some((_app, machine)) = prepared_for_machine(several).await else {
        return;
    };
    let mine = machine.shell.get(DEV).replace("api:4.2.0", "api:4.3.0");
    machine.shell.put(DEV, &mine);
    assert_eq!(machine.run(&["pull", "1"]).code, Some(0));
    let complete = |machine: &Machine| (machine.shell.get(DEV), machine.shell.get(NEW));
    let whole = complete(&machine);
    // What a kill after the first file, and after the second one, leaves.
    machine.git(&["checkout", "-q", "--", OLD]);
    let pulled = machine.run(&["pull", "1"]);
    assert_eq!(
        pulled.out,
        format!("unchanged  {DEV}\nunchanged  {NEW}\ndeleted    {OLD}\n")
    );
    machine.git(&["checkout", "-q", "--", OLD]);
    std::fs::remove_file(machine.shell.work().join(NEW)).unwrap();
    let pulled = machine.run(&["pull", "1"]);
    assert_eq!(
        pulled.out,
        format!("unchanged  {DEV}\nwritten    {NEW}\ndeleted    {OLD}\n")
    );
    assert_eq!(complete(&machine), whole);
    assert!(!machine.shell.work().join(OLD).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_commit_that_is_not_there_has_to_be_fetched() {
    let Some((app, machine)) = prepared_for_machine(scale).await else {
        return;
    };
    let short = &app.demo.base[..12];
    // A checkout of another repository.
    std::fs::remove_dir_all(machine.shell.work().join(".git")).unwrap();
    machine.git(&["init", "-q"]);
    let refused = machine.run(&["pull", "1"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    assert_eq!(
        refused.err,
        format!(
            "nothing was written: commit {short} of the repository `infra`, from which CHG-1 was made, is not here; run \
             `git fetch`, or change to a checkout of that repository\n"
        )
    );
    machine.git(&["fetch", "-q", app.demo.repository().to_str().unwrap(), "main"]);
    let pulled = machine.run(&["pull", "1"]);
    assert_eq!(pulled.out, format!("written    {DEV}\n"), "{pulled:?}");

    // Outside of a checkout.
    std::fs::remove_dir_all(machine.shell.work().join(".git")).unwrap();
    let refused = machine.run(&["pull", "1"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("is not inside a git repository"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_works_in_a_directory_of_a_linked_work_tree() {
    let Some((_app, machine)) = prepared_for_machine(scale).await else {
        return;
    };
    machine.git(&["worktree", "add", "-q", "../linked"]);
    let linked = machine.shell.home().join("linked");
    let mut command = machine.shell.drydock(&["pull", "1"]);
    command.current_dir(linked.join("environments"));
    let pulled = tokio::task::block_in_place(|| crate::support::shell::run_to_end(command));
    assert_eq!(pulled.out, format!("written    {DEV}\n"), "{pulled:?}");
    let text = std::fs::read_to_string(linked.join(DEV)).unwrap();
    assert!(text.contains("1.8.3',\n    replicas: 4,"));
    assert_eq!(machine.git(&["status", "--porcelain"]), "");
}

/// The change of a hook is pulled by the person who took it over, and by nobody before.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_taken_over_from_a_hook_is_pulled() {
    let app = TestApp::with_settings(scale, &[PUBLIC_URL]).await;
    app.admit_slack_editor(ALICE).await;
    let (status, _) = deliver(&app, "release", ONE, &release("four replicas")).await;
    assert_eq!(status, 200);
    let post = app.wait_for_slack_message(SLACK_CHANNEL, "CHG-1 is ready").await;
    app.wait_until_idle().await;
    let Some(machine) = Machine::new(&app) else { return };
    machine.log_in(&app, ALICE).await;
    let refused = machine.run(&["pull", "1"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.starts_with("there is no CHG-1 for you"),
        "{refused:?}"
    );
    app.demo.slack.click(ALICE, &post.ts, "Take over").await.unwrap();
    app.wait_for_slack_reply(&post.ts, "CHG-1 is yours now.").await;
    let pulled = machine.run(&["pull", "1"]);
    assert_eq!(pulled.out, format!("written    {DEV}\n"), "{pulled:?}");
    assert!(machine.shell.get(DEV).contains("1.8.3',\n    replicas: 4,"));
}

/// Asserts that the change cannot be merged into a file whose line ends git converted, and that its patch can be applied.
fn assert_unconverted(machine: &Machine) {
    std::fs::remove_file(machine.shell.work().join(DEV)).unwrap();
    machine.git(&["checkout", "-q", "--", DEV]);
    let converted = machine.shell.get(DEV);
    assert!(converted.contains("{\r\n"), "{converted:?}");
    let mine = converted.replace("api:4.2.0", "api:4.3.0");
    for content in [&converted, &mine] {
        machine.shell.put(DEV, content);
        let git_files = machine.git_files();
        let refused = machine.run(&["pull", "1"]);
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
        let why =
            format!("{DEV}: its lines end with CRLF here and with LF in the commit, or the other way round");
        assert!(refused.err.contains(&why), "{refused:?}");
        assert_eq!(&machine.shell.get(DEV), content);
        assert_eq!(machine.git_files(), git_files);
    }
    machine.shell.put(DEV, &converted);
    let patch = machine.run(&["pull", "1", "--patch"]).out;
    machine.shell.put("../CHG-1.patch", &patch);
    // Git compares the file that was written again with its index.
    machine.git(&["status", "--porcelain"]);
    machine.git(&["apply", "--3way", "../CHG-1.patch"]);
    let applied = machine.shell.get(DEV);
    assert!(applied.contains("1.8.3',\r\n    replicas: 4,"), "{applied:?}");
    machine.git(&["reset", "-q", "--hard"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_line_ends_git_converts_is_never_merged() {
    let Some((_app, machine)) = prepared_for_machine(scale).await else {
        return;
    };
    machine.git(&["config", "core.autocrlf", "true"]);
    assert_unconverted(&machine);
    machine.git(&["config", "--unset", "core.autocrlf"]);
    machine.shell.put(".gitattributes", "*.jsonnet text eol=crlf\n");
    assert_unconverted(&machine);
}

/// A run that is killed while it writes a file leaves a temporary one.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_pull_removes_what_a_killed_one_left() {
    let Some((_app, machine)) = prepared_for_machine(scale).await else {
        return;
    };
    let directory = machine.shell.work().join("environments/dev");
    // No process has such a number.
    let left = [".drydock-2147483646-0.tmp", ".drydock-2147483645-17.tmp"];
    let running = format!(".drydock-{}-0.tmp", std::process::id());
    let others = [
        running.as_str(),
        ".drydock-notes.tmp",
        ".drydock-2147483646-0.tmp.txt",
    ];
    // A process in another container may still write this one, whatever its number is here.
    let recent = ".drydock-2147483644-0.tmp";
    std::fs::write(directory.join(recent), "half").unwrap();
    for name in left.iter().chain(&others) {
        std::fs::write(directory.join(name), "half").unwrap();
        let file = std::fs::File::options()
            .write(true)
            .open(directory.join(name))
            .unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    let link = directory.join(".drydock-2147483646-1.tmp");
    std::os::unix::fs::symlink("main.jsonnet", &link).unwrap();
    let is_there = |name: &str| directory.join(name).exists();
    assert_eq!(machine.run(&["pull", "1", "--check"]).code, Some(0));
    assert!(left.iter().all(|name| is_there(name)));
    assert_eq!(machine.run(&["pull", "1"]).code, Some(0));
    assert!(!left.iter().any(|name| is_there(name)));
    assert!(others.iter().all(|name| is_there(name)) && link.is_symlink());
    assert!(is_there(recent));
}

/// The line that names the command is the last one, below what people look at first.
#[tokio::test]
async fn a_result_that_can_be_pulled_looks_like_this_on_a_phone() {
    let app = TestApp::with_settings(scale, &[PUBLIC_URL]).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_telegram_editor(4_201).await;
    let in_slack = app.ask(ALICE, "four replicas").await;
    let in_telegram = app.ask_telegram(4_201, "four replicas").await;
    app.wait_until_idle().await;
    let pictures = [phone::slack(&in_slack.message), phone::telegram(&in_telegram)];
    let shown = pictures.map(|picture| stable(&picture).trim_end().to_owned());
    insta::assert_snapshot!(shown.join("\n\n"));
}
