//! The model that answers `drydock ask`: by which names it is chosen, whose key it gets, and what a failure says.

use crate::cli_ask::{KEY, MAIN, anthropic, edit, shell};
use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{AnswerFault, calls, queue, says};
use serde_json::json;

/// TK-19 TK-20 TK-23
#[test]
fn an_openai_compatible_model_answers_as_json() {
    let model = BlockingModel::start(queue([calls("file_edit", edit()), says("Done.")]));
    let shell = shell().set("OPENAI_API_KEY", "sk-test-0123456789ab");
    let url = format!("providers.openai.base_url={}/v1", model.url());
    let ended = shell.run(&[
        "ask",
        "--json",
        "--provider",
        "openai",
        "--set",
        &url,
        "four replicas",
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let value = ended.json();
    assert_eq!(value["answer"], "Done.");
    assert_eq!(value["verdict"], "pass");
    assert_eq!(value["model"], "openai/gpt-4o");
    assert_eq!((&value["steps"], &value["tool_calls"]), (&json!(2), &json!(1)));
    assert_eq!(
        value["files"],
        json!([{ "path": MAIN, "added": 1, "removed": 1, "binary": false }])
    );
    assert!(value["patch"].as_str().unwrap().contains("+{ replicas: 4 }"));
    let checks: Vec<(&str, &str)> = value["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| (check["name"].as_str().unwrap(), check["state"].as_str().unwrap()))
        .collect();
    let expected = [
        ("base is the newest commit", "pass"),
        ("JSON parses", "not_run"),
        ("no conflict markers", "pass"),
        ("no secrets in added lines", "pass"),
        ("every changed Jsonnet file parses", "pass"),
        ("imports resolve", "not_run"),
        ("every affected environment renders", "not_run"),
        ("both engines agree", "not_run"),
    ];
    assert_eq!(checks, expected);
    assert_eq!(model.asked()[0].model, "gpt-4o");
}

/// TK-16 TK-20 TK-22: flags override the environment, which overrides the file, which overrides the default model.
#[test]
fn the_model_of_a_flag_wins_over_the_environment_and_the_file() {
    let model = BlockingModel::start(queue(["flag", "named", "variable", "file", "usual"].map(says)));
    let file = "[model]\ndefault = \"anthropic/of-the-file\"\n";
    let at = anthropic(&model);
    let with = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut shell = shell().set(KEY.0, KEY.1);
        std::fs::create_dir_all(shell.home().join(".config/drydock")).unwrap();
        for (name, value) in variables {
            if *name == "file" {
                std::fs::write(shell.home().join(".config/drydock/drydock.toml"), value).unwrap();
            } else {
                shell = shell.set(name, value);
            }
        }
        let ended = shell.run(&[&["ask", "--set", &at], arguments, &["which?"]].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
    };
    let variable = ("DRYDOCK_MODEL__DEFAULT", "anthropic/of-the-variable");
    with(&[("file", file), variable], &["--model", "anthropic/of-the-flag"]);
    with(&[variable], &["--provider", "anthropic", "--model", "named"]);
    with(&[("file", file), variable], &[]);
    with(&[("file", file)], &[]);
    with(&[], &[]);
    let models: Vec<String> = model.asked().iter().map(|asked| asked.model.clone()).collect();
    assert_eq!(
        models,
        [
            "of-the-flag",
            "named",
            "of-the-variable",
            "of-the-file",
            "claude-opus-4-6"
        ]
    );
}

/// TK-14, TK-15, TK-20
#[test]
fn a_model_and_a_provider_are_found_by_the_names_people_use() {
    let model = BlockingModel::start(queue(["1", "2", "3", "4"].map(says)));
    let shell = || {
        shell()
            .set("OPENAI_API_KEY", "sk-test-0123456789ab")
            .set("GEMINI_API_KEY", "gm-test-0123456789ab")
            .set(
                "DRYDOCK_PROVIDERS__OPENAI__BASE_URL",
                &format!("{}/v1", model.url()),
            )
            .set(
                "DRYDOCK_PROVIDERS__GOOGLE__BASE_URL",
                &format!("{}/v1beta", model.url()),
            )
    };
    let asked = |shell: Shell, arguments: &[&str]| {
        let ended = shell.run(&[&["ask", "--json"], arguments, &["which?"]].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.json()["model"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        asked(shell(), &["--provider", "gemini"]),
        "google/gemini-3.5-flash"
    );
    assert_eq!(asked(shell(), &["--model", "o3-mini"]), "openai/o3-mini");
    let variable = shell().set("DRYDOCK_MODEL__PROVIDER", "gemini");
    assert_eq!(asked(variable, &[]), "google/gemini-3.5-flash");
    let own = shell();
    std::fs::create_dir_all(own.home().join(".config/drydock")).unwrap();
    let file = own.home().join(".config/drydock/drydock.toml");
    std::fs::write(
        file,
        "[model]\nprovider = \"gemini\"\ndefault = \"gemini-2.5-pro\"\n",
    )
    .unwrap();
    assert_eq!(asked(own, &[]), "google/gemini-2.5-pro");

    let ended = shell().run(&["ask", "--model", "llama3", "which?"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let why =
        "model.default: names no provider; expected provider/model, such as anthropic/claude-sonnet-4-5";
    assert!(ended.err.contains(why), "{ended:?}");
}

/// CI-21: a service with its own name gets no request without its key.
#[test]
fn a_named_service_without_its_key_is_asked_nothing() {
    let model = BlockingModel::start(queue([says("Hello.")]));
    let shell = || {
        shell().set(
            "DRYDOCK_PROVIDERS__MY_HOUSE__BASE_URL",
            &format!("{}/v1", model.url()),
        )
    };
    let ask = ["ask", "--model", "my-house/m", "hello"];
    let ended = shell().run(&ask);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(
        ended
            .err
            .contains("the API key is missing; set MY_HOUSE_API_KEY or this key"),
        "{ended:?}"
    );
    assert!(model.asked().is_empty());
    let ended = shell().set("MY_HOUSE_API_KEY", "mh-test-0123456789ab").run(&ask);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(model.asked().len(), 1);
}

/// Checks that a clone of another person's repository cannot redirect the user's key.
#[test]
fn a_repository_cannot_configure_where_the_key_goes() {
    let (model, trap) = (
        BlockingModel::start(queue([says("Hello.")])),
        BlockingModel::start(queue([])),
    );
    let shell = shell().set(KEY.0, KEY.1);
    shell.put(
        "drydock.toml",
        &format!("[providers.anthropic]\nbase_url = \"{}\"\n", trap.url()),
    );
    let url = format!("DRYDOCK_PROVIDERS__ANTHROPIC__BASE_URL={}", model.url());
    let (name, value) = url.split_once('=').unwrap();
    let shell = shell.set(name, value);
    assert_eq!(shell.run(&["ask", "hello"]).code, Some(0));
    assert!(trap.asked().is_empty());

    let shell = self::shell();
    shell.put("drydock.toml", "[model]\ndefault = \"custom/trap\"\n");
    let ended = shell.run(&["ask", "hello"]);
    assert_eq!(ended.code, Some(78));
    assert!(ended.err.contains("no model is set"), "{ended:?}");
}

/// TK-10
#[test]
fn a_missing_key_names_the_variable_to_set() {
    let shell = shell();
    for (arguments, why) in [
        (
            vec!["ask", "hello"],
            "configuration: model.default: no model is set and no API key was found; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, run `drydock auth login`, or choose a model with DRYDOCK_MODEL__DEFAULT\n",
        ),
        (
            vec!["ask", "--model", "openai/gpt-4o", "hello"],
            "command line: providers.openai.api_key: the API key is missing; set OPENAI_API_KEY or this key\n",
        ),
        (
            vec!["ask", "--provider", "google", "hello"],
            "command line: providers.google.api_key: the API key is missing; set GEMINI_API_KEY or GOOGLE_API_KEY or this key\n",
        ),
    ] {
        let ended = shell.run(&arguments);
        assert_eq!((ended.code, ended.err.as_str()), (Some(78), why));
    }
}

#[test]
fn a_model_that_refuses_ends_with_code_1_and_its_reason() {
    let refusal = AnswerFault::Status {
        status: 401,
        headers: Vec::new(),
        body: json!({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}})
            .to_string(),
    };
    let model = BlockingModel::start(queue([says("").with_fault(refusal)]));
    let shell = shell().set(KEY.0, KEY.1);
    let ended = shell.run(&["ask", "--set", &anthropic(&model), "hello"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.contains("No answer: "), "{ended:?}");
    assert!(!ended.err.contains(KEY.1), "{ended:?}");
}

#[test]
fn the_model_that_answered_is_named_after_a_fallback() {
    let first = BlockingModel::start(queue([says("").with_fault(AnswerFault::Status {
        status: 400,
        headers: Vec::new(),
        body: json!({"type": "error", "error": {"type": "billing_error", "message": "no credit"}})
            .to_string(),
    })]));
    let second = BlockingModel::start(queue([says("Two replicas.")]));
    let shell = shell().set(KEY.0, KEY.1);
    let settings = [
        anthropic(&first),
        "model.fallbacks=backup/second".to_owned(),
        "providers.backup.keyless=true".to_owned(),
        format!("providers.backup.base_url={}", second.url()),
    ];
    let options = settings.iter().flat_map(|setting| ["--set", setting.as_str()]);
    let arguments: Vec<&str> = ["ask"].into_iter().chain(options).chain(["how many?"]).collect();
    let ended = shell.run(&arguments);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "Two replicas.\n"),
        "{ended:?}"
    );
    assert!(
        ended.err.contains("1 step, 1050 tokens, backup/second"),
        "{ended:?}"
    );
}
