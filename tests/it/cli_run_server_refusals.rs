//! Refusals of `drydock run --server`: what a person is told, the exit code, and that nothing was started.

use crate::cli_run_server::{ALICE, Terminal, refusal};
use crate::runs_api::{READ, WRITE, ended_runs, publish, token};
use crate::support::app::TestApp;
use crate::support::machine::{PUBLIC_URL, login_code};
use crate::support::shell::{ProgramOutput, Shell};
use drydock::simulation::emulator::model::{ModelRequest, queue, says};
use drydock::state::access::Role;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

/// A token that no server has made.
const MADE_UP: &str = "drydock_8f742231b10e8888abcd99yyyzzz85a5Qw";
const REVIEW: [&str; 3] = ["review", "--param", "number=7"];
const MAKE: &str = "`drydock token create NAME --for YOU --scope runs:read --scope runs:write`";

fn run(shell: &Shell, arguments: &[&str]) -> ProgramOutput {
    tokio::task::block_in_place(|| shell.run(arguments))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_server_needs_a_token_that_may_start_it() {
    let app = TestApp::with_settings(|_: &ModelRequest| says("It is odd."), &[PUBLIC_URL]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    let url = app.demo.url();
    let refused = |token: &str, arguments: &[&str]| Terminal::new(&url, token).run(arguments);

    let wrong = refused(MADE_UP, &REVIEW);
    let said = format!(
        "{url} does not accept the token of DRYDOCK_TOKEN: it is wrong, was revoked, or has expired;"
    );
    let err = refusal(&wrong, 1);
    assert!(err.starts_with(&said) && err.contains(MAKE), "{err}");
    assert!(!err.contains(MADE_UP), "{err}");

    let reads = token(&app, ALICE, &[READ]).await;
    let lacking = refused(&reads, &REVIEW);
    let err = refusal(&lacking, 1);
    assert!(
        err.contains("the token has no scope `runs:write`") && err.contains(MAKE),
        "{err}"
    );

    // The login of this machine pulls changes only.
    let shell = Shell::new();
    let code = login_code(&app, ALICE).await;
    assert_eq!(run(&shell, &["login", &url, &code]).code, Some(0));
    let logged_in = run(&shell, &[&["run", "--server", &url], &REVIEW[..]].concat());
    let err = refusal(&logged_in, 1);
    assert!(
        err.contains("with the login of this machine") && err.contains("only for `drydock pull`"),
        "{err}"
    );
    assert!(err.contains(MAKE), "{err}");

    let none = run(&Shell::new(), &[&["run", "--server", &url], &REVIEW[..]].concat());
    let err = refusal(&none, 2);
    assert!(
        err.starts_with(&format!("there is no token for {url}: ")) && err.contains(MAKE),
        "{err}"
    );

    // She may know of this pipeline, and may not start it.
    let all = token(&app, ALICE, &[READ, WRITE]).await;
    let viewer = refused(&all, &["small"]);
    let err = refusal(&viewer, 1);
    assert!(err.contains("the role in `infra` is viewer"), "{err}");
    assert!(!err.contains(MAKE), "{err}");
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);

    // A token without `runs:read` starts a run that it does not show.
    let writes = token(&app, ALICE, &[WRITE]).await;
    let unseen = refused(&writes, &REVIEW);
    assert_eq!((unseen.code, unseen.out.as_str()), (Some(1), ""), "{unseen:?}");
    assert!(
        unseen.err.contains("run 1 was started on")
            && unseen.err.contains("the token has no scope `runs:read`")
            && unseen.err.contains("--detach does not ask for them"),
        "{unseen:?}"
    );
    let detached = refused(&writes, &[&REVIEW[..], &["--detach"]].concat());
    assert_eq!(detached.code, Some(0), "{detached:?}");
    ended_runs(&app, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_private_file_starts_a_run_and_one_that_others_can_read_does_not() {
    let app = TestApp::with_settings(|_: &ModelRequest| says("It is odd."), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    let (url, token) = (app.demo.url(), token(&app, ALICE, &[READ, WRITE]).await);
    // The file is preferred to the variable.
    let shell = Shell::new().set("DRYDOCK_TOKEN", MADE_UP);
    shell.put("token", &format!("{token}\n"));
    let file = shell.work().join("token");
    let arguments = [&["run", "--server", &url, "--token-file", "token"], &REVIEW[..]].concat();
    for (mode, code) in [(0o644, 2), (0o600, 0)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let ended = run(&shell, &arguments);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(!ended.err.contains(&token), "{ended:?}");
        if code == 2 {
            assert!(ended.err.starts_with("--token-file: "), "{ended:?}");
            assert!(ended.err.contains("chmod 600"), "{ended:?}");
        }
    }
    assert_eq!(app.count("SELECT count(*) FROM run"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_or_a_parameter_that_a_server_refuses_is_named_and_starts_nothing() {
    let app = TestApp::with_settings(queue([]), &[]).await;
    app.admit_slack_editor(ALICE).await;
    publish(&app);
    let token = token(&app, ALICE, &[READ, WRITE]).await;
    let terminal = Terminal::new(&app.demo.url(), &token);
    let missing = terminal.run(&["absent"]);
    let err = refusal(&missing, 2);
    assert!(
        err.contains("has no pipeline absent for you; it needs the trigger `api: {}`"),
        "{err}"
    );
    // One without the trigger, and one of a repository that is not there, read like it.
    let chatted = terminal.run(&["chatted"]);
    assert_eq!(refusal(&chatted, 2).replace("chatted", "absent"), err);
    let elsewhere = terminal.run(&["review", "--repository", "elsewhere"]);
    assert!(
        refusal(&elsewhere, 2).contains("you need a grant for its repository elsewhere"),
        "{elsewhere:?}"
    );
    for (arguments, code, said) in [
        (
            &["review", "--param", "number=seven", "--param", "nummer=7"][..],
            2,
            &[
                "--param: number: is no integer",
                "\n--param: there is no parameter nummer",
            ][..],
        ),
        (&["review"], 2, &["--param: number is required: "]),
        (
            &["review", "--param", "number=7", "--param", "number=8"],
            2,
            &["--param: number is given twice"],
        ),
        (
            &["small", "--param", "size=12"],
            1,
            &["nothing was started: ", "the condition of its trigger is false"],
        ),
        (
            &["review", "--key", "two words"],
            2,
            &["a key has 1 to 255 visible ASCII characters"],
        ),
    ] {
        let ended = terminal.run(arguments);
        let err = refusal(&ended, code);
        for words in said {
            assert!(format!("\n{err}").contains(words), "{words}: {err}");
        }
    }
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);
}

#[test]
fn a_server_that_is_not_there_and_options_that_are_not_for_one_are_refused_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let shell = Shell::new().set("DRYDOCK_TOKEN", MADE_UP);
    let refused = |arguments: &[&str], code: i32, said: &str| {
        let ended = shell.run(&[&["run", "review"], arguments].concat());
        let err = refusal(&ended, code);
        assert!(err.contains(said), "{said}: {err}");
    };
    refused(
        &["--server", &url],
        1,
        "nothing was started; check the address of --server",
    );
    refused(
        &["--server", "http://drydock.example.com"],
        2,
        "begins with https://",
    );
    for (option, why) in [
        (
            &["--record", "here"][..],
            "the files about its steps are on that server",
        ),
        (
            &["--profile", "readonly"],
            "those of the definition and of the server",
        ),
        (&["--yes"], "its steps do not run in this terminal"),
        (&["--verbose"], "its steps do not run in this terminal"),
        (&["--tool-chars", "60"], "its steps do not run in this terminal"),
        (&["--set", "a.b=c"], "the run has the configuration of the server"),
    ] {
        let said = format!("leave {} out", option[0]);
        let arguments = [&["--server", &url], option].concat();
        refused(&arguments, 2, &said);
        refused(&arguments, 2, why);
    }
    for option in [
        &["--detach"][..],
        &["--key", "one"],
        &["--repository", "infra"],
        &["--token-file", "token"],
    ] {
        refused(option, 2, "--server <URL>");
    }
}

#[test]
fn a_command_of_runs_that_is_typed_after_run_leads_to_runs() {
    let shell = Shell::new();
    for arguments in [
        &["list"][..],
        &["list", "--status", "failed"],
        &["show", "7"],
        &["cancel", "7"],
        &["retry", "7", "--json"],
        &["show", "--server", "https://drydock.example.com"],
    ] {
        let ended = shell.run(&[&["run"], arguments].concat());
        assert!(matches!(ended.code, Some(1 | 2 | 78)), "{ended:?}");
        let advice = format!("there is `drydock runs {}`", arguments[0]);
        assert!(ended.err.contains(&advice), "{ended:?}");
    }
}
