//! Tests of limits and prices of models: the built-in ones, and those of an operator.

use super::{problems, sources};
use crate::base::config::Config;
use crate::base::model::{MediaType, Usage};

/// The usage of a call, with tokens of each kind.
const USAGE: Usage = Usage {
    input: 100_000,
    output: 1_000_000,
    cache_read: 50_000,
    cache_write: 50_000,
};

/// Returns window, longest answer, cost of a call and date of the price of `provider/model`.
fn facts(file: &str, model: &str) -> (Option<u32>, Option<u32>, Option<String>, Option<String>) {
    let config = Config::load(sources(file)).unwrap();
    let (provider, model) = model.split_once('/').unwrap();
    let facts = config.model_facts(provider, model);
    (
        facts.context_tokens,
        facts.answer_tokens_max,
        facts.price.map(|price| price.cost(USAGE).to_string()),
        facts
            .price
            .and_then(|price| price.as_of)
            .map(|date| date.to_string()),
    )
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn known_models_have_a_window_an_answer_limit_and_a_price() {
    let claude = (Some(200_000), Some(64_000), some("$15.51"), some("2026-10-10"));
    assert_eq!(facts("", "anthropic/claude-sonnet-4-5"), claude);
    assert_eq!(facts("", "anthropic/claude-sonnet-4-5-20250929"), claude);
    let gemini = (Some(1_048_576), Some(8_192), some("$0.4163"), some("2026-08-21"));
    assert_eq!(facts("", "google/gemini-2.0-flash"), gemini);
    assert_eq!(facts("", "gemini/gemini-2.0-flash-001"), gemini);
    assert_eq!(facts("", "ollama/llama3.2"), (None, None, some("$0"), None));
    for unknown in [
        "openai/gpt-99",
        "azure/gpt-4o",
        "openrouter/openai/gpt-4o",
        "house/qwen3",
    ] {
        assert_eq!(facts("", unknown), (None, None, None, None), "{unknown}");
    }
}

#[test]
fn an_operator_adds_models_and_replaces_single_facts() {
    let file = r#"
[providers.house]
base_url = "https://models.example.com"
keyless = true
[models."house/*"]
price_input = 0.5
price_output = 1
[models."house/qwen3.5-coder"]
context_tokens = 32_000
price_input = 1
price_output = 2.25
price_cache_write = 3
[models."gemini/gemini-2.5-pro"]
price_cache_read = 0
[models."openai/gpt-4o"]
context_tokens = 64_000
"#;
    // 0.1 M for 1, 1 M for 2.25, 0.05 M for 1, 0.05 M for 3.
    let coder = (Some(32_000), None, some("$2.55"), None);
    assert_eq!(facts(file, "house/qwen3.5-coder"), coder);
    assert_eq!(facts(file, "house/other"), (None, None, some("$1.10"), None));
    // The price of long prompts is gone with the first price of the operator.
    let gemini = (Some(1_048_576), Some(65_536), some("$10.19"), None);
    assert_eq!(facts(file, "google/gemini-2.5-pro"), gemini);
    let gpt = facts(file, "openai/gpt-4o-2024-08-06");
    assert_eq!(
        gpt,
        (Some(64_000), Some(16_384), some("$10.44"), some("2026-08-21"))
    );
}

/// The name of a model has quotes in a flag, as in a file, because it may have dots.
#[test]
fn a_flag_sets_a_fact_of_a_model_whose_name_has_quotes() {
    let cost = |flags: [&str; 2]| {
        let mut sources = sources("");
        let flags = flags.map(|flag| flag.split_once('=').unwrap());
        sources.flags = flags
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        Config::load(sources).map(|config| {
            let facts = config.model_facts("openai", "gpt-9.5");
            facts.price.map(|price| price.cost(USAGE).to_string())
        })
    };
    for name in ["\"openai/gpt-9.5\"", "'openai/gpt-9.5'", "openai/\"gpt-9.5\""] {
        let flags = ["input=1", "output=2"].map(|price| format!("models.{name}.price_{price}"));
        let known = cost(flags.each_ref().map(String::as_str));
        assert_eq!(known.unwrap(), some("$2.20"), "{name}");
    }
    let unquoted = [
        "models.openai/gpt-9.5.price_input=1",
        "models.openai/gpt-9.5.price_output=2",
    ];
    assert!(cost(unquoted).unwrap_err().to_string().contains("unknown key"));
}

/// STK-39
#[test]
fn the_files_that_a_model_takes_are_known_or_set() {
    let types = |file: &str, model: &str| {
        let config = Config::load(sources(file)).unwrap();
        let (provider, model) = model.split_once('/').unwrap();
        let types = config.model_facts(provider, model).attachments;
        types.map(|types| types.iter().map(MediaType::word).collect::<Vec<_>>())
    };
    let all = vec!["png", "jpeg", "gif", "webp", "pdf"];
    assert_eq!(types("", "anthropic/claude-sonnet-4-5"), Some(all.clone()));
    assert_eq!(types("", "openai/gpt-4o-2024-08-06"), Some(all));
    assert_eq!(types("", "openai/o3-mini"), Some(vec![]));
    assert_eq!(
        types("", "gemini/gemini-2.5-pro"),
        Some(vec!["png", "jpeg", "webp", "pdf"])
    );
    assert_eq!(types("", "ollama/llava"), None);
    let file = "[models.\"ollama/llava\"]\nattachments = [\"jpeg\", \"png\"]\n[models.\"openai/gpt-4o\"]\nattachments = []\n";
    assert_eq!(types(file, "ollama/llava"), Some(vec!["png", "jpeg"]));
    assert_eq!(types(file, "openai/gpt-4o"), Some(vec![]));
}

#[test]
fn facts_that_cannot_be_used_are_refused_with_their_line() {
    let file = r#"[models."claude-opus-4-6"]
context_tokens = 5
[models."hause/qwen3"]
price_input = 1
[models."openai/gpt-99"]
price_input = -1
price_output = 0.0000001
price_cache_read = "1"
[models."azure/gpt"]
context_tokens = 2_000
answer_tokens_max = 3_000
attachments = ["svg"]
price_output = 10_001
price_cache_write = inf
"#;
    insta::assert_snapshot!(problems(sources(file)).join("\n"), @r#"
    drydock.toml:1: models.claude-opus-4-6: expected provider/model, such as [models."openai/gpt-4o"]
    drydock.toml:2: models.claude-opus-4-6.context_tokens: expected a whole number from 1000 to 100000000
    drydock.toml:3: models.hause/qwen3: there is no provider hause; add [providers.hause], or correct the name
    drydock.toml:4: models.hause/qwen3.price_input: needs price_input and price_output: the other prices of this model are not known
    drydock.toml:6: models.openai/gpt-99.price_input: expected dollars from 0 to 10000, with at most 6 decimals
    drydock.toml:7: models.openai/gpt-99.price_output: expected dollars from 0 to 10000, with at most 6 decimals
    drydock.toml:8: models.openai/gpt-99.price_cache_read: expected dollars from 0 to 10000, with at most 6 decimals, found text
    drydock.toml:11: models.azure/gpt.answer_tokens_max: is more than context_tokens
    drydock.toml:12: models.azure/gpt.attachments: `svg` is no type of a file; the types are png, jpeg, gif, webp, pdf
    drydock.toml:13: models.azure/gpt.price_output: expected dollars from 0 to 10000, with at most 6 decimals
    drydock.toml:14: models.azure/gpt.price_cache_write: expected dollars from 0 to 10000, with at most 6 decimals
    "#);
}
