//! `drydock auth`: stored keys of model providers, and the profiles that it writes.

use crate::support::screen::ScreenProgram;
use crate::support::shell::{BlockingModel, ProgramOutput, Shell};
use drydock::simulation::emulator::model::{AnswerFault, calls, queue, says};
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const KEY: &str = "sk-test-71f2c09be4d85a36";
const OTHER_KEY: &str = "sk-ant-test-93b7e1d04c58";
/// No more arguments.
const NONE: &[&str] = &[];
const MAIN: &str = "environments/dev/main.jsonnet";

fn shell() -> Shell {
    Shell::with_repository(&[
        (MAIN, "{ replicas: 2 }\n"),
        ("notes.txt", &format!("key: {KEY}\n")),
    ])
}

fn directory(shell: &Shell) -> PathBuf {
    shell.home().join(".config/drydock")
}

fn stored(shell: &Shell) -> String {
    std::fs::read_to_string(directory(shell).join("auth.toml")).unwrap_or_default()
}

fn configuration(shell: &Shell) -> String {
    std::fs::read_to_string(directory(shell).join("drydock.toml")).unwrap_or_default()
}

/// Writes the configuration of a user whose providers are an emulator.
fn at_emulator(shell: &Shell, model: &BlockingModel) -> String {
    let url = model.url();
    let text = format!(
        "# Mine.\n[providers.openai]\nbase_url = \"{url}/v1\"\n\n[providers.anthropic]\nbase_url = \"{url}\"\n"
    );
    std::fs::create_dir_all(directory(shell)).unwrap();
    std::fs::write(directory(shell).join("drydock.toml"), &text).unwrap();
    text
}

fn log_in(shell: &Shell, provider: &str, key: &str, more: &[&str]) -> ProgramOutput {
    let arguments = ["auth", "login", "--provider", provider, "--api-key-stdin"];
    shell.run_with_input(&[&arguments[..], more].concat(), format!("{key}\n"))
}

fn succeeded(ended: &ProgramOutput) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    hides_keys(ended);
}

fn refused(ended: &ProgramOutput, code: i32, why: &str) {
    assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{ended:?}");
    assert!(ended.err.contains(why), "{why}: {ended:?}");
    hides_keys(ended);
}

fn hides_keys(ended: &ProgramOutput) {
    for key in [KEY, OTHER_KEY] {
        assert!(!ended.out.contains(key) && !ended.err.contains(key), "{ended:?}");
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// STK-27, STK-28, STK-29, STK-30
#[test]
fn a_stored_key_answers_requests_and_is_never_shown() {
    let model = BlockingModel::start(queue([
        says("ok"),
        calls("file_read", json!({ "path": "notes.txt" })),
        says(format!("There is {KEY}.")),
    ]));
    let shell = shell();
    let before = at_emulator(&shell, &model);
    let ended = log_in(&shell, "openai", KEY, &[]);
    succeeded(&ended);
    let (keys, profiles) = (
        directory(&shell).join("auth.toml"),
        directory(&shell).join("drydock.toml"),
    );
    assert_eq!(
        ended.out,
        format!(
            "Stored the key of openai in {}.\nThe profiles default and readonly in {} use openai/gpt-4o.\n",
            keys.display(),
            profiles.display()
        )
    );
    assert_eq!(mode(&keys), 0o600);
    assert!(stored(&shell).ends_with(&format!("\n[openai]\napi_key = \"{KEY}\"\n")));
    let written = "\n[profiles.default]\nprovider = \"openai\"\nmodel = \"gpt-4o\"\n\n[profiles.readonly]\naccess = \"read\"\n";
    assert_eq!(configuration(&shell), format!("{before}{written}"));

    let ended = shell.run(&["ask", "what is in notes.txt?"]);
    succeeded(&ended);
    let asked = model.asked();
    assert_eq!(asked.len(), 3);
    for request in &asked {
        assert_eq!(
            (request.api_key.as_deref(), request.model.as_str()),
            (Some(KEY), "gpt-4o")
        );
        assert!(!request.raw.contains(KEY), "{}", request.raw);
    }
    assert!(asked[2].raw.contains("key: "), "{}", asked[2].raw);

    let listed = shell.run(&["auth", "list"]);
    succeeded(&listed);
    let rows: Vec<Vec<&str>> = listed
        .out
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(
        rows,
        [
            vec!["PROVIDER", "SOURCE", "KEY", "USED"],
            vec!["openai", "auth.toml", "…5a36", "yes"]
        ]
    );
    let shell = shell.set("OPENAI_API_KEY", OTHER_KEY);
    let listed = shell.run(&["auth", "list", "--json"]);
    succeeded(&listed);
    let row = |source: &str, detail: &str, last: &str, used: bool| {
        json!({
            "provider": "openai", "source": source, "detail": detail, "last": last, "used": used, "problem": null,
        })
    };
    assert_eq!(
        listed.json(),
        json!({ "keys": [
            row("environment", "environment (OPENAI_API_KEY)", "4c58", true),
            row("auth.toml", "auth.toml", "5a36", false),
        ]})
    );
    let ended = shell.run(&["auth", "logout", "--provider", "openai"]);
    succeeded(&ended);
    assert_eq!(
        ended.out,
        format!("Removed the key of openai from {}.\n", keys.display())
    );
    assert!(!stored(&shell).contains("api_key"));
    refused(
        &shell.run(&["auth", "logout", "--provider", "openai"]),
        1,
        "no key of openai is stored; `drydock auth list` shows where its key comes from",
    );
}

/// STK-27
#[test]
fn a_refused_key_is_not_stored_unless_it_is_not_checked() {
    let refusal = AnswerFault::Status {
        status: 401,
        headers: Vec::new(),
        body: json!({ "error": { "message": format!("Incorrect API key provided: {KEY}"), "type": "invalid_request_error" } })
            .to_string(),
    };
    let model = BlockingModel::start(queue([says("no").with_fault(refusal)]));
    let shell = shell();
    let before = at_emulator(&shell, &model);
    let why = "the key of openai is not stored: the model provider refused the request: the key was not accepted (401)";
    refused(&log_in(&shell, "openai", KEY, &[]), 1, why);
    assert_eq!((stored(&shell), configuration(&shell)), (String::new(), before));
    // The typed key was asked about, whatever the environment holds.
    let shell = shell.set("OPENAI_API_KEY", OTHER_KEY);
    assert_eq!(model.asked()[0].api_key.as_deref(), Some(KEY));
    let arguments = [
        "auth",
        "login",
        "--provider",
        "openai",
        "--no-check",
        "--api-key",
        KEY,
    ];
    let ended = shell.run(&arguments);
    succeeded(&ended);
    assert_eq!(
        ended.err,
        "Other people on this machine can see a key in the list of processes, and your shell may record it. \
         --api-key-stdin and --api-key-file show it to nobody.\n\
         The key of openai in the environment (OPENAI_API_KEY) is used before the stored one.\n"
    );
    assert!(stored(&shell).contains(KEY));
    assert_eq!(model.asked().len(), 1);
}

/// STK-28, STK-29, STK-31
#[test]
fn the_readonly_profile_writes_nothing_and_follows_the_default_profile() {
    let edit = json!({ "path": MAIN, "old": "replicas: 2", "new": "replicas: 4" });
    let model = BlockingModel::start(queue([
        calls("file_edit", edit),
        says("I cannot edit here."),
        says("Two replicas."),
    ]));
    let shell = shell();
    at_emulator(&shell, &model);
    succeeded(&log_in(&shell, "openai", KEY, &["--no-check"]));
    let ended = shell.run(&["ask", "--profile", "readonly", "four replicas in dev"]);
    succeeded(&ended);
    assert!(ended.err.contains("No file was changed."), "{ended:?}");
    assert_eq!(shell.get(MAIN), "{ replicas: 2 }\n");
    for request in model.asked() {
        assert_eq!(request.model, "gpt-4o");
        let offers = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        assert!(offers("file_read") && !offers("file_edit") && !offers("file_write"));
    }

    // A person adds a key to `readonly`; then `default` changes.
    let file = directory(&shell).join("drydock.toml");
    let own = "[profiles.readonly]\nfallbacks = [\"openai/gpt-4o\"] # mine\n";
    std::fs::write(&file, configuration(&shell).replace("[profiles.readonly]\n", own)).unwrap();
    let more = ["--no-check", "--model", "anthropic/claude-sonnet-4-5"];
    succeeded(&log_in(&shell, "anthropic", OTHER_KEY, &more));
    assert!(configuration(&shell).contains(own), "{}", configuration(&shell));
    let changed = "[profiles.default]\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"\n";
    assert!(
        configuration(&shell).contains(changed),
        "{}",
        configuration(&shell)
    );
    let shell = shell.set("DRYDOCK_PROFILE", "readonly");
    let ended = shell.run(&["ask", "how many?"]);
    succeeded(&ended);
    assert!(ended.err.contains("anthropic/claude-sonnet-4-5"), "{ended:?}");
    let last = model.asked().pop().unwrap();
    assert_eq!(
        (last.api_key.as_deref(), last.model.as_str()),
        (Some(OTHER_KEY), "claude-sonnet-4-5")
    );
    // Another key of the same provider keeps the model.
    let before = configuration(&shell);
    succeeded(&log_in(&shell, "anthropic", OTHER_KEY, &["--no-check"]));
    assert_eq!(configuration(&shell), before);
    refused(
        &shell.run(&["ask", "--profile", "writer", "how many?"]),
        78,
        "command line: profile: does not name one of the profiles; there are default, readonly\n",
    );
}

/// STK-27
#[test]
fn a_key_typed_at_a_terminal_is_not_shown() {
    let shell = Shell::new();
    let screen = ScreenProgram::start(&shell, &["auth", "login", "--no-check"], 100, "xterm");
    screen.wait_for("Provider (anthropic, openai, google, openrouter, azure, custom): ");
    screen.enter("gemini");
    screen.wait_for("Key of google: ");
    assert!(!screen.has_echo());
    screen.enter(KEY);
    let ended = screen.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.written.contains(KEY), "{ended:?}");
    assert!(stored(&shell).contains(&format!("[google]\napi_key = \"{KEY}\"\n")));
    assert_eq!(mode(&directory(&shell)), 0o700);
    assert!(configuration(&shell).contains("model = \"gemini-3.5-flash\"\n"));
}

/// STK-27, STK-30
#[test]
fn a_login_that_cannot_work_says_what_to_do_and_stores_nothing() {
    let shell = shell();
    for (provider, key, more, code, why) in [
        (
            "antropic",
            KEY,
            NONE,
            2,
            "--provider: no provider has this name; there are anthropic, ",
        ),
        ("ollama", KEY, &["--model", "qwen3"], 2, "ollama needs no key"),
        (
            "openrouter",
            KEY,
            NONE,
            2,
            "openrouter has no known default model; add --model NAME",
        ),
        (
            "azure",
            KEY,
            &["--model", "gpt-4o"],
            78,
            "providers.azure.base_url: is required",
        ),
        (
            "openai",
            "sk-1",
            NONE,
            2,
            "the key is not stored: the secret is too short",
        ),
        (
            "openai",
            "changeme-later",
            NONE,
            2,
            "the key is not stored: the secret is a placeholder",
        ),
        (
            "openai",
            "",
            NONE,
            2,
            "the key is not stored: the secret is empty",
        ),
    ] {
        let more = [&["--no-check"][..], more].concat();
        refused(&log_in(&shell, provider, key, &more), code, why);
    }
    let login = ["auth", "login", "--provider", "openai", "--no-check"];
    refused(
        &shell.run(&login),
        2,
        "there is no terminal to ask for the key; give --api-key-stdin or --api-key-file",
    );
    refused(
        &shell.run(&["auth", "login"]),
        2,
        "give --provider: anthropic, openai, ",
    );
    shell.put("key.txt", &format!("{KEY}\n"));
    let from_file = [&login[..], &["--api-key-file", "key.txt"]].concat();
    let file = shell.work().join("key.txt");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused(
        &shell.run(&from_file),
        2,
        "--api-key-file: others can read the secret file; run: chmod 600 key.txt",
    );
    assert!(!directory(&shell).exists());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    succeeded(&shell.run(&from_file));
    assert!(stored(&shell).contains(KEY));

    // A file that is a link, that others can read, or that is none of ours.
    let keys = directory(&shell).join("auth.toml");
    std::fs::rename(&keys, directory(&shell).join("elsewhere")).unwrap();
    symlink("elsewhere", &keys).unwrap();
    for command in [&from_file[..], &["auth", "list"], &["ask", "how many?"]] {
        refused(
            &shell.run(command),
            1,
            "it is a symbolic link; put the file itself there",
        );
    }
    std::fs::remove_file(&keys).unwrap();
    std::fs::write(&keys, format!("[openai]\napi_kye = \"{KEY}\"\n")).unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o640)).unwrap();
    refused(
        &shell.run(&["auth", "list"]),
        1,
        "others can read or write the keys in ",
    );
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    refused(
        &shell.run(&["auth", "list"]),
        1,
        "auth.toml was not written by this program",
    );
}
