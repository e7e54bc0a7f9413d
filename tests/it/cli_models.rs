//! `drydock models`: the list of models, and the check of each provider.

use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{AnswerFault, queue, says};
use serde_json::{Value, json};

const KEYS: [(&str, &str); 2] = [
    ("OPENAI_API_KEY", "sk-test-0123456789ab"),
    ("GEMINI_API_KEY", "gm-test-0123456789ab"),
];

fn shell() -> Shell {
    let shell = KEYS
        .iter()
        .fold(Shell::new(), |shell, (name, key)| shell.set(name, key));
    shell.set("MY_HOUSE_API_KEY", "mh-test-0123456789ab")
}

/// The configuration of a user with three providers, at an emulator.
fn configured(shell: &Shell, model: &BlockingModel) {
    let url = model.url();
    let file = shell.home().join(".config/drydock/drydock.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = format!(
        r#"[model]
default = "google/gemini-2.5-pro"
[providers.google]
base_url = "{url}/v1beta"
[providers.openai]
base_url = "{url}/v1"
[providers.my-house]
base_url = "{url}/v1"
[models."my-house/qwen3.5-coder"]
context_tokens = 32_000
answer_tokens_max = 4_000
attachments = ["png"]
price_input = 0.25
price_output = 1
"#
    );
    std::fs::write(file, text).unwrap();
}

#[test]
fn models_are_listed_with_their_limits_and_prices() {
    let model = BlockingModel::start(queue([]));
    let shell = shell();
    configured(&shell, &model);
    let ended = shell.run(&["models"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let row = |name: &str| {
        let mut rows = ended.out.lines().filter(|line| line.starts_with(name));
        let row: Vec<&str> = rows.next().expect(name).split("  ").map(str::trim).collect();
        row.into_iter()
            .filter(|cell| !cell.is_empty())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        row("MODEL"),
        [
            "MODEL",
            "WIRE",
            "WINDOW",
            "ANSWER",
            "INPUT",
            "OUTPUT",
            "CACHE READ",
            "CACHE WRITE",
            "PRICE OF"
        ]
    );
    assert_eq!(
        row("google/gemini-2.5-pro"),
        [
            "google/gemini-2.5-pro *",
            "gemini-generate",
            "1,048,576",
            "65,536",
            "$1.25",
            "$10.00",
            "$0.1250",
            "-",
            "2026-08-21, more above 200,000 tokens"
        ]
    );
    assert_eq!(
        row("openai/gpt-4o "),
        [
            "openai/gpt-4o",
            "openai-responses",
            "128,000",
            "16,384",
            "$2.50",
            "$10.00",
            "$1.25",
            "-",
            "2026-08-21"
        ]
    );
    assert_eq!(
        row("my-house/"),
        [
            "my-house/qwen3.5-coder",
            "openai-chat",
            "32,000",
            "4,000",
            "$0.2500",
            "$1.00",
            "-",
            "-",
            "configuration"
        ]
    );
    let listed = shell.run(&["models", "--json"]).json();
    assert_eq!(listed["default"], "google/gemini-2.5-pro");
    let find = |name: &str| {
        let models = listed["models"].as_array().unwrap();
        models
            .iter()
            .find(|model| model["model"] == name)
            .cloned()
            .unwrap_or_default()
    };
    let expected = json!({
        "model": "my-house/qwen3.5-coder", "wire": "openai-chat", "default": false, "context_tokens": 32_000,
        "answer_tokens_max": 4_000, "attachments": ["png"], "price_as_of": null,
        "price_nano_dollars_per_million_tokens":
            {"input": 250_000_000, "output": 1_000_000_000, "cache_read": null, "cache_write": null},
    });
    assert_eq!(find("my-house/qwen3.5-coder"), expected);
    assert_eq!(find("google/gemini-2.5-pro")["default"], true);
    let types = &find("google/gemini-2.5-pro")["attachments"];
    assert_eq!(*types, json!(["png", "jpeg", "webp", "pdf"]));
    assert_eq!(model.asked().len(), 0);
}

/// CI-20, CI-21
#[test]
fn each_provider_is_asked_once_and_a_failure_says_what_to_set() {
    let refused = AnswerFault::Status {
        status: 401,
        headers: Vec::new(),
        body: String::new(),
    };
    // The providers are asked at the same time, and each by its own model.
    let script = move |asked: &drydock::simulation::emulator::model::ModelRequest| match asked.model.as_str()
    {
        "gpt-4o" => says("no").with_fault(refused.clone()),
        _ => says("ok"),
    };
    let model = BlockingModel::start(script);
    let shell = shell();
    configured(&shell, &model);
    let ended = shell.run(&["models", "--check"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.err, "1 provider did not answer\n");
    let (_, checks) = ended.out.split_once("\nPROVIDER").expect("a second table");
    for line in [
        "google    ok      gemini-2.5-pro answered, 1,050 tokens",
        "my-house  ok      qwen3.5-coder answered, 1,050 tokens",
        "openai    FAILED  gpt-4o: the model provider refused the request: the key was not accepted (401); check `providers.openai.api_key`",
    ] {
        assert!(checks.contains(line), "{line}: {checks}");
    }
    let asked = model.asked();
    let mut models: Vec<&str> = asked.iter().map(|asked| asked.model.as_str()).collect();
    models.sort_unstable();
    assert_eq!(models, ["gemini-2.5-pro", "gpt-4o", "qwen3.5-coder"]);
    let checked = shell.run(&["models", "--check", "--json"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let checks = checked.json()["checks"].clone();
    let ok: Vec<&Value> = checks
        .as_array()
        .unwrap()
        .iter()
        .map(|check| &check["ok"])
        .collect();
    assert_eq!(ok, [&json!(true), &json!(true), &json!(false)]);
    assert_eq!(checks[2]["model"], "gpt-4o");
}

#[test]
fn each_model_that_did_not_answer_is_named_and_counted() {
    let refused = AnswerFault::Status {
        status: 401,
        headers: Vec::new(),
        body: String::new(),
    };
    let script = move |asked: &drydock::simulation::emulator::model::ModelRequest| match asked.model.as_str()
    {
        "qwen3.5-coder" => says("ok"),
        _ => says("no").with_fault(refused.clone()),
    };
    let model = BlockingModel::start(script);
    let shell = shell();
    configured(&shell, &model);
    let fallback = "model.fallbacks=[\"google/gemini-2.5-flash\"]";
    let alone = "google FAILED gemini-2.5-flash: ";
    let ended = shell.run(&["models", "--check", "--set", fallback]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.err, "3 models of 2 providers did not answer\n");
    let words = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in [
        alone,
        "google FAILED gemini-2.5-pro: ",
        "openai FAILED gpt-4o: ",
        "my-house ok qwen3.5-coder answered",
    ] {
        assert!(words.contains(row), "{row}: {}", ended.out);
    }
    let checked = shell
        .run(&["models", "--check", "--json", "--set", fallback])
        .json();
    let models = checked["checks"].as_array().unwrap().iter();
    let models: Vec<&Value> = models.map(|check| &check["model"]).collect();
    assert_eq!(
        models,
        ["gemini-2.5-pro", "gemini-2.5-flash", "qwen3.5-coder", "gpt-4o"]
    );
}

/// TK-10, CI-21
#[test]
fn without_any_key_the_list_says_which_variables_to_set() {
    let ended = Shell::new().run(&["models"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let why =
        "no model is set and no API key was found; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY";
    assert!(ended.err.contains(why), "{ended:?}");
}
