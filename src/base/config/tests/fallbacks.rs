//! Tests of the fallback models.

use super::*;

const HOUSE: &str = "[providers.house]\nkeyless = true\nbase_url = \"https://models.example.com/v1\"\n";

fn models(sources: ConfigSources) -> Vec<String> {
    let config = Config::load(sources).unwrap();
    config.model.in_order().map(str::to_owned).collect()
}

fn file(fallbacks: &str) -> String {
    format!("[model]\ndefault = \"anthropic/claude-sonnet-4-5\"\nfallbacks = {fallbacks}\n{HOUSE}")
}

#[test]
fn fallbacks_have_an_order_and_the_names_of_known_providers() {
    let text = file(r#"["gemini/gemini-2.5-pro", "house/maker/qwen3", "gpt-4o", "claude-haiku-4-5"]"#);
    let keys = [
        ("OPENAI_API_KEY", "sk-0123456789"),
        ("GEMINI_API_KEY", "gm-0123456789"),
    ];
    let expected = [
        "anthropic/claude-sonnet-4-5",
        "google/gemini-2.5-pro",
        "house/maker/qwen3",
        "openai/gpt-4o",
        "anthropic/claude-haiku-4-5",
    ];
    assert_eq!(models(with(&text, &keys)), expected);
    // Every key that may be sent is a secret that is redacted.
    let config = Config::load(with(&text, &keys)).unwrap();
    let secrets = config.secrets();
    for (_, key) in keys {
        assert!(secrets.iter().any(|secret| secret.expose() == key));
    }
    assert_eq!(models(sources(&file("[]"))), ["anthropic/claude-sonnet-4-5"]);
}

#[test]
fn a_fallback_that_cannot_be_used_is_a_problem_and_its_key_is_named() {
    let problem = |fallbacks: &str| problems(sources(&file(fallbacks))).join("\n");
    for (fallbacks, expected) in [
        (
            r#"["openai/gpt-4o"]"#,
            "drydock.toml:3: providers.openai.api_key: the API key is missing; set OPENAI_API_KEY or this key",
        ),
        (
            r#"["anthropic/claude-sonnet-4-5"]"#,
            "drydock.toml:3: model.fallbacks: model 1 is the default model; remove it here",
        ),
        (
            r#"["house/a", "house/b", "house/a"]"#,
            "drydock.toml:3: model.fallbacks: model 3 is listed twice",
        ),
        (
            r#"["hause/a"]"#,
            "drydock.toml:3: model.fallbacks: model 1: its provider is neither known nor configured; did you mean house?",
        ),
        (
            r#"["qwen3"]"#,
            "drydock.toml:3: model.fallbacks: model 1: names no provider; expected provider/model, such as anthropic/claude-sonnet-4-5",
        ),
        (
            r#"["house/a", "house/b", "house/c", "house/d", "house/e"]"#,
            "drydock.toml:3: model.fallbacks: has more than 4 models",
        ),
    ] {
        assert_eq!(problem(fallbacks), expected);
    }
    // The cost of every model that may answer must be known.
    let bound = format!("{}[budgets]\nday_cents_max = 500\n", file(r#"["house/a"]"#));
    let problem = problems(sources(&bound)).join("\n");
    assert!(
        problem.contains("the prices of house/a are not known"),
        "{problem}"
    );
}

#[test]
fn a_fallback_that_is_chosen_as_the_default_model_leaves_the_others() {
    let text = file(r#"["house/a", "house/b"]"#);
    let chosen = with(&text, &[("DRYDOCK_MODEL__DEFAULT", "house/b")]);
    assert_eq!(models(chosen), ["house/b", "house/a"]);
    let other = ConfigSources {
        flags: vec![("model.default".to_owned(), "house/c".to_owned())],
        ..sources(&text)
    };
    assert_eq!(models(other), ["house/c", "house/a", "house/b"]);
}
