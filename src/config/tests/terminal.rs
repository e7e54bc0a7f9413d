//! What a terminal session needs, and what it does not.

use super::*;

fn terminal(text: Option<&str>, environment: &[(&str, &str)]) -> Result<(String, Vec<String>), String> {
    let file = text.map(|text| SourceFile {
        path: PathBuf::from("drydock.toml"),
        text: text.to_owned(),
    });
    let environment = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let sources = Sources {
        file,
        environment: environment.collect(),
        flags: Vec::new(),
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
        ("GEMINI_API_KEY", "google/gemini-2.0-flash", "google"),
        ("GOOGLE_API_KEY", "google/gemini-2.0-flash", "google"),
    ] {
        let found = terminal(None, &[(variable, "key-0123456789")]);
        assert_eq!(found, Ok((model.to_owned(), vec![provider.to_owned()])));
    }
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

/// TK-10
#[test]
fn a_missing_key_names_the_variable_to_set() {
    let why = "configuration: model.default: no model is set and no API key was found; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or choose a model with DRYDOCK_MODEL__DEFAULT";
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
fn a_mistake_in_the_file_is_told_in_the_terminal_too() {
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
