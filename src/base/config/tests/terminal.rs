//! Tests of the settings that a terminal session needs, and of those that it does not.

use super::*;

fn terminal(text: Option<&str>, environment: &[(&str, &str)]) -> Result<(String, Vec<String>), String> {
    let file = text.map(|text| SourceFile {
        path: PathBuf::from("drydock.toml"),
        text: text.to_owned(),
    });
    let environment = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let sources = ConfigSources {
        file,
        environment: environment.collect(),
        ..ConfigSources::default()
    };
    let config = Config::for_terminal(sources).map_err(|error| error.to_string())?;
    assert!(config.channels.is_empty() && config.hooks.is_empty() && config.repositories.is_empty());
    Ok((config.model.default, config.providers.into_keys().collect()))
}

/// TK-22, TK-23
#[test]
fn the_provider_whose_key_is_present_answers_with_its_usual_model() {
    for (variable, model, provider) in [
        ("ANTHROPIC_API_KEY", "anthropic/claude-opus-4-6", "anthropic"),
        ("OPENAI_API_KEY", "openai/gpt-4o", "openai"),
        ("GEMINI_API_KEY", "google/gemini-3.5-flash", "google"),
        ("GOOGLE_API_KEY", "google/gemini-3.5-flash", "google"),
    ] {
        let found = terminal(None, &[(variable, "key-0123456789")]);
        assert_eq!(found, Ok((model.to_owned(), vec![provider.to_owned()])));
    }
}

/// TK-22: of two keys, that of the provider that comes first answers; Google is not preferred.
#[test]
fn of_several_keys_the_first_provider_of_the_list_answers() {
    let keys = ["GEMINI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"].map(|name| (name, "key-0123456789"));
    let answering = |keys: &[(&str, &str)]| terminal(None, keys).map(|(model, _)| model);
    assert_eq!(answering(&keys), Ok("anthropic/claude-opus-4-6".to_owned()));
    assert_eq!(answering(&keys[..2]), Ok("openai/gpt-4o".to_owned()));
    assert_eq!(answering(&keys[..1]), Ok("google/gemini-3.5-flash".to_owned()));
}

/// TK-16
#[test]
fn a_chosen_model_wins_over_the_keys_that_are_present() {
    let environment = [
        ("ANTHROPIC_API_KEY", "key-0123456789"),
        ("DRYDOCK_MODEL__DEFAULT", "ollama/llama3"),
    ];
    assert_eq!(
        terminal(None, &environment),
        Ok(("ollama/llama3".to_owned(), vec!["ollama".to_owned()]))
    );
}

fn model(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    let keys = ["ANTHROPIC", "OPENAI", "GEMINI", "OPENROUTER", "AZURE"].map(|name| format!("{name}_API_KEY"));
    let keys = keys.iter().map(|name| (name.as_str(), "key-0123456789"));
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    let environment: Vec<(&str, &str)> = keys.chain(environment.iter().copied()).collect();
    let config = Config::for_terminal(ConfigSources {
        environment: pairs(&environment).into_iter().collect(),
        flags: pairs(flags),
        ..sources(file)
    });
    config.map_or_else(|error| error.to_string(), |config| config.model.default)
}

/// TK-14, TK-15, TK-20: a provider that is set alone gets its default model, by any of its names, in every layer.
#[test]
fn a_provider_can_be_chosen_alone_in_every_layer() {
    let (key, variable) = ("model.provider", "DRYDOCK_MODEL__PROVIDER");
    let file = |name: &str| format!("[model]\nprovider = \"{name}\"\n");
    for (name, expected) in [
        ("gemini", "google/gemini-3.5-flash"),
        ("google", "google/gemini-3.5-flash"),
        ("openai", "openai/gpt-4o"),
        ("anthropic", "anthropic/claude-opus-4-6"),
    ] {
        assert_eq!(model(&file(name), &[], &[]), expected);
        assert_eq!(model("", &[(variable, name)], &[]), expected);
        assert_eq!(model("", &[], &[(key, name)]), expected);
        // The model of a lower layer is not used with the provider of a higher layer.
        let other = "[model]\ndefault = \"ollama/llama3\"\n";
        assert_eq!(model(other, &[(variable, name)], &[]), expected);
        assert_eq!(model(other, &[(variable, "ollama")], &[(key, name)]), expected);
    }
}

/// TK-20
#[test]
fn a_model_finds_its_provider() {
    let named = |model_name: &str| model("", &[], &[("model.default", model_name)]);
    for (name, expected) in [
        ("gpt-4o", "openai/gpt-4o"),
        ("o3-mini", "openai/o3-mini"),
        ("claude-opus-4-6", "anthropic/claude-opus-4-6"),
        ("gemini-2.0-flash", "google/gemini-2.0-flash"),
        ("gemini/gemini-2.0-flash", "google/gemini-2.0-flash"),
        ("openrouter/openai/gpt-4o", "openrouter/openai/gpt-4o"),
    ] {
        assert_eq!(named(name), expected);
    }
    for name in ["llama3", "olmo", "o", "4o"] {
        let expected = "command line: model.default: names no provider; expected provider/model, such as anthropic/claude-sonnet-4-5";
        assert_eq!(named(name), expected);
    }
}

/// TK-14, TK-15, TK-20
#[test]
fn a_provider_and_a_model_go_together_as_far_as_they_can() {
    let file = |name: &str| format!("[model]\nprovider = \"{name}\"\n");
    let flag = |name| [("model.default", name)];
    for (found, expected) in [
        (
            model(&file("openrouter"), &[], &flag("qwen/qwen3")),
            "openrouter/qwen/qwen3",
        ),
        (model(&file("ollama"), &[], &flag("llama3")), "ollama/llama3"),
        // A provider that hosts other makers' models can have this one; a maker has only its own.
        (model(&file("ollama"), &[], &flag("gpt-oss")), "ollama/gpt-oss"),
        (model(&file("anthropic"), &[], &flag("gpt-4o")), "openai/gpt-4o"),
        (
            model(&file("anthropic"), &[], &flag("openai/gpt-4o")),
            "openai/gpt-4o",
        ),
        (
            model(
                "[model]\nprovider = \"openai\"\ndefault = \"openai/gpt-4o\"\n",
                &[],
                &[],
            ),
            "openai/gpt-4o",
        ),
        (
            model(
                "[model]\nprovider = \"gemini\"\ndefault = \"google/gemini-2\"\n",
                &[],
                &[],
            ),
            "google/gemini-2",
        ),
        (
            model(
                "[model]\nprovider = \"openrouter\"\ndefault = \"openai/gpt-4o\"\n",
                &[],
                &[],
            ),
            "openrouter/openai/gpt-4o",
        ),
        // A configured section takes precedence over the alias of the same name.
        (
            model(
                "[model]\nprovider = \"gemini\"\ndefault = \"m\"\n[providers.gemini]\n",
                &[],
                &[],
            ),
            "gemini/m",
        ),
    ] {
        assert_eq!(found, expected);
    }
}

/// TK-10
#[test]
fn a_missing_key_names_the_variable_to_set() {
    let why = "configuration: model.default: no model is set and no API key was found; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, run `drydock auth login`, or choose a model with DRYDOCK_MODEL__DEFAULT";
    assert_eq!(terminal(None, &[]), Err(why.to_owned()));
    let why = "DRYDOCK_MODEL__DEFAULT: providers.openai.api_key: the API key is missing; set OPENAI_API_KEY or this key";
    assert_eq!(
        terminal(None, &[("DRYDOCK_MODEL__DEFAULT", "openai/gpt-4o")]),
        Err(why.to_owned())
    );
}

#[test]
fn a_servers_file_works_on_a_laptop_without_its_secrets() {
    let found = terminal(Some(GOOD), &[("OPENAI_API_KEY", "key-0123456789")]);
    assert_eq!(found, Ok(("openai/gpt-4o".to_owned(), vec!["openai".to_owned()])));
}

#[test]
fn a_mistake_in_the_file_is_reported_in_terminal_mode_too() {
    let error = terminal(
        Some("[limits]\nsteps = 3"),
        &[("OPENAI_API_KEY", "key-0123456789")],
    )
    .unwrap_err();
    assert_eq!(
        error,
        "drydock.toml:2: limits.steps: unknown key; did you mean limits.steps_max?"
    );
}
