//! `drydock init`: a configuration from options or from answers at a terminal.

use crate::cli_channels::ChannelSetup;
use crate::support::screen::ScreenProgram;
use crate::support::shell::{Shell, commit};
use drydock::simulation::emulator::model::{ModelEmulator, ModelRequest, says};
use std::os::unix::fs::PermissionsExt;

const KEY: &str = "sk-ant-test-0123456789";
const ALONE: [&str; 3] = ["init", "--non-interactive", "--yes"];

/// Returns a home with a repository and no configuration, whose platforms and model are emulators.
async fn setup(model: &ModelEmulator) -> ChannelSetup {
    let mut setup = ChannelSetup::new().await;
    let shell = std::mem::replace(&mut setup.shell, Shell::new());
    setup.shell = shell
        .set("ANTHROPIC_API_KEY", KEY)
        .set("DRYDOCK_PROVIDERS__ANTHROPIC__BASE_URL", model.url())
        .set("DRYDOCK_DATA__DIRECTORY", "data");
    std::fs::remove_file(setup.shell.work().join("drydock.toml")).unwrap();
    let infra = setup.shell.home().join("infra");
    std::fs::create_dir(&infra).unwrap();
    commit(&infra, &[("main.jsonnet", "{}\n")]);
    setup
}

fn infra(setup: &ChannelSetup) -> String {
    let infra = setup.shell.home().join("infra").canonicalize().unwrap();
    infra.display().to_string()
}

/// STK-13, STK-26
#[tokio::test(flavor = "multi_thread")]
async fn options_alone_make_a_configuration_that_works() {
    let model = ModelEmulator::start(|_: &ModelRequest| says("ok")).unwrap();
    let mut setup = setup(&model).await;
    let address = setup.telegram.api_base_url();
    let shell = std::mem::replace(&mut setup.shell, Shell::new());
    setup.shell = shell.set("DRYDOCK_CHANNELS__TELEGRAM__API_BASE_URL", &address);
    let infra = infra(&setup);
    let options = ["--repository", "../infra", "--chat", "telegram"];
    let ended = setup.run(&[&ALONE[..], &options].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expected = format!(
        "# Written by `drydock init`. `drydock check` validates it, and `drydock doctor` tries all connections.\n\n\
         [model]\ndefault = \"anthropic/claude-opus-4-6\"\n\n[providers.anthropic]\n\
         api_key = {{ env = \"ANTHROPIC_API_KEY\" }}\n\n[repositories.infra]\npath = \"{infra}\"\n\n\
         [channels.telegram]\nkind = \"telegram\"\nbot_token = {{ env = \"TELEGRAM_BOT_TOKEN\" }}\nrepository = \"infra\"\n"
    );
    assert_eq!(setup.shell.get("drydock.toml"), expected);
    assert!(ended.out.contains("channel telegram: token"), "{ended:?}");
    let last = ended.err.lines().last().unwrap();
    assert!(
        last.ends_with("then write to the bot in Telegram: what environments are there?"),
        "{last}"
    );
    assert_eq!(setup.run(&["check"]).code, Some(0));
    // A second run overwrites nothing.
    let again = setup.run(&[&ALONE[..], &options].concat());
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.err.contains("is not overwritten"), "{again:?}");
    assert_eq!(setup.shell.get("drydock.toml"), expected);
    model.shutdown().await;
}

/// STK-26
#[tokio::test(flavor = "multi_thread")]
async fn options_for_slack_give_the_link_that_creates_the_app() {
    let model = ModelEmulator::start(|_: &ModelRequest| says("ok")).unwrap();
    let mut setup = setup(&model).await;
    let address = setup.slack.api_base_url();
    let shell = std::mem::replace(&mut setup.shell, Shell::new());
    setup.shell = shell.set("DRYDOCK_CHANNELS__SLACK__API_BASE_URL", &address);
    let options = [
        "--repository",
        "../infra",
        "--chat",
        "slack",
        "--public-url",
        "https://drydock.example.com",
    ];
    let ended = setup.run(&[&ALONE[..], &options, &["--json", "--config", "own.toml"]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let answer = ended.json();
    assert_eq!(
        (&answer["file"], &answer["doctor"]["ok"]),
        (&"own.toml".into(), &true.into())
    );
    let link = answer["create_link"].as_str().unwrap();
    assert!(
        link.starts_with("https://api.slack.com/apps?new_app=1&manifest_json="),
        "{link}"
    );
    let text = setup.shell.get("own.toml");
    assert!(
        text.contains("\n[server]\npublic_url = \"https://drydock.example.com\"\n"),
        "{text}"
    );
    assert!(
        text.contains("signing_secret = { env = \"SLACK_SIGNING_SECRET\" }\n"),
        "{text}"
    );
    model.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_options_write_nothing() {
    let model = ModelEmulator::start(|_: &ModelRequest| says("ok")).unwrap();
    let setup = setup(&model).await;
    let infra = ["--repository", "../infra"];
    for (options, code, why) in [
        (&["--chat", "none"][..], 2, "give --repository"),
        (&["--repository", "../nothing"], 2, "--repository ../nothing: "),
        (
            &["--repository", "../infra", "--branch", "release"],
            2,
            "--repository ../infra: ",
        ),
        (
            &["--repository", "http://git.example.com/a"],
            78,
            "repositories.a.url",
        ),
        (
            &["--repository", "../infra", "--model", "opus"],
            2,
            "--model: write provider/model",
        ),
        (
            &["--repository", "../infra", "--model-key", KEY],
            2,
            "--model-key: write env:NAME or file:PATH",
        ),
        (
            &["--repository", "../infra", "--chat", "slack", "--slack", "url"],
            2,
            "give --public-url",
        ),
        (
            &[
                "--repository",
                "../infra",
                "--chat",
                "slack",
                "--public-url",
                "http://a.example",
            ],
            2,
            "Slack needs an https",
        ),
    ] {
        let ended = setup.run(&[&ALONE[..], options].concat());
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (Some(code), ""),
            "{options:?}: {ended:?}"
        );
        assert!(
            ended.err.contains(why) && !ended.err.contains(KEY),
            "{options:?}: {ended:?}"
        );
    }
    let ended = setup.run(&["init", "--repository", "../infra"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("there is no terminal to ask at"), "{ended:?}");
    let ended = setup.run(&[&["init", "--non-interactive"][..], &infra].concat());
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("--yes"), "{ended:?}");
    assert_eq!(std::fs::read_dir(setup.shell.work()).unwrap().count(), 0);
    model.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_secret_is_not_shown_and_goes_to_a_private_file() {
    let model = ModelEmulator::start(|_: &ModelRequest| says("ok")).unwrap();
    let setup = setup(&model).await;
    let token = "7700000001:AAF0fKqL2mNpR5sTuVwXyZ12345678abcde";
    let shell = Shell::new()
        .set("ANTHROPIC_API_KEY", KEY)
        .set("DRYDOCK_PROVIDERS__ANTHROPIC__BASE_URL", model.url())
        .set(
            "DRYDOCK_CHANNELS__TELEGRAM__API_BASE_URL",
            &setup.telegram.api_base_url(),
        )
        .set("DRYDOCK_DATA__DIRECTORY", "data");
    commit(&shell.work(), &[("main.jsonnet", "{}\n")]);
    let screen = ScreenProgram::start(&shell, &["init"], 110, "xterm");
    tokio::task::block_in_place(|| {
        screen.wait_for("on this machine, or an https URL [.]:");
        screen.enter("");
        screen.wait_for("The trusted branch of the repository [main]:");
        screen.enter("");
        screen.wait_for("The model [anthropic/claude-opus-4-6]:");
        screen.enter("");
        screen.wait_for("slack, telegram, discord or none [none]:");
        screen.enter("telegram");
        screen.wait_for("or press Enter to set the variable later:");
        screen.wait_until("a hidden input", |_| !screen.has_echo());
        screen.enter(token);
        screen.wait_for("Write drydock.toml? [Y/n]:");
        assert!(screen.has_echo());
        screen.enter("y");
        screen.wait_for("what environments are there?");
    });
    let ended = tokio::task::block_in_place(|| screen.end());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.written.contains(token), "{}", ended.written);
    let text = shell.get("drydock.toml");
    assert!(
        text.contains("bot_token = { file = \"telegram-bot-token\" }\n"),
        "{text}"
    );
    assert_eq!(shell.get("telegram-bot-token"), format!("{token}\n"));
    let about = std::fs::metadata(shell.work().join("telegram-bot-token")).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    model.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_stops_or_says_no_leaves_nothing_behind() {
    let shell = Shell::new().set("ANTHROPIC_API_KEY", KEY);
    commit(&shell.work(), &[("main.jsonnet", "{}\n")]);
    let options = [
        "init",
        "--repository",
        ".",
        "--branch",
        "main",
        "--model",
        "anthropic/claude-opus-4-6",
        "--chat",
        "none",
    ];
    for key in ["n\r", "\u{4}", "\u{3}"] {
        let screen = ScreenProgram::start(&shell, &options, 110, "xterm");
        let ended = tokio::task::block_in_place(|| {
            screen.wait_for("Write drydock.toml? [Y/n]:");
            screen.press(key);
            screen.end()
        });
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.written.contains("nothing was written"), "{ended:?}");
        assert!(!shell.work().join("drydock.toml").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slack_without_a_public_address_is_proposed_over_sockets() {
    let shell = Shell::new().set("ANTHROPIC_API_KEY", KEY);
    commit(&shell.work(), &[("main.jsonnet", "{}\n")]);
    let options = [
        "init",
        "--repository",
        ".",
        "--branch",
        "main",
        "--model",
        "anthropic/claude-opus-4-6",
    ];
    let screen = ScreenProgram::start(&shell, &options, 110, "xterm");
    let ended = tokio::task::block_in_place(|| {
        screen.wait_for("slack, telegram, discord or none [none]:");
        screen.enter("slack");
        screen.wait_for("socket, which needs no public address, or url [socket]:");
        screen.enter("");
        screen.wait_for("a token with the scope connections:write");
        screen.wait_for("Paste the secret for the file slack-bot-token");
        screen.wait_until("a hidden input", |_| !screen.has_echo());
        screen.enter("");
        screen.wait_for("Paste the secret for the file slack-app-token");
        screen.wait_until("a hidden input", |_| !screen.has_echo());
        screen.enter("");
        screen.wait_for("app_token = { env = \"SLACK_APP_TOKEN\" }");
        screen.wait_for("Write drydock.toml? [Y/n]:");
        screen.enter("n");
        screen.end()
    });
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(!ended.written.contains("signing_secret"), "{}", ended.written);
}
