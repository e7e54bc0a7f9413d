//! Tests of the profiles of terminal sessions, and of the order in which the sources of a key are used.

use super::*;
use crate::base::config::{KeyOrigin, ProfileAccess};
use crate::base::model::Secret;

const PROFILES: &str = "[model]\ndefault = \"ollama/llama3\"\n[profiles.default]\nprovider = \"openai\"\n\
    model = \"gpt-4o\"\n[profiles.readonly]\naccess = \"read\"\n[profiles.large]\nmodel = \"anthropic/claude-opus-4-6\"\n";

/// No variables or flags.
const NONE: &[(&str, &str)] = &[];

fn with_keys(text: &str, environment: &[(&str, &str)], stored: &[(&str, &str)]) -> ConfigSources {
    let pairs = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let stored = stored
        .iter()
        .map(|(name, key)| ((*name).to_owned(), Secret::new((*key).to_owned())));
    ConfigSources {
        environment: pairs.collect(),
        stored_keys: stored.collect(),
        ..sources(text)
    }
}

/// Returns the model, the fallbacks and the access of a session.
fn session(
    text: &str,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<(String, Vec<String>, ProfileAccess), String> {
    let keys = [
        ("OPENAI_API_KEY", "key-0123456789"),
        ("ANTHROPIC_API_KEY", "key-0123456789"),
    ];
    let flags = flags
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let config = Config::for_terminal(ConfigSources {
        flags: flags.collect(),
        ..with_keys(text, &[&keys[..], environment].concat(), &[])
    });
    let config = config.map_err(|error| error.to_string())?;
    Ok((
        config.model.default,
        config.model.fallbacks,
        config.profile.access,
    ))
}

/// STK-29, STK-31
#[test]
fn the_readonly_profile_has_the_model_of_default_and_edits_nothing() {
    let chosen = |name: &str| session(PROFILES, &[("DRYDOCK_PROFILE", name)], &[]);
    let openai = |access| Ok(("openai/gpt-4o".to_owned(), Vec::new(), access));
    assert_eq!(session(PROFILES, &[], &[]), openai(ProfileAccess::Edit));
    assert_eq!(chosen("default"), openai(ProfileAccess::Edit));
    assert_eq!(chosen("readonly"), openai(ProfileAccess::Read));
    let large = (
        "anthropic/claude-opus-4-6".to_owned(),
        Vec::new(),
        ProfileAccess::Edit,
    );
    assert_eq!(chosen("large"), Ok(large));
    // Whatever changes `default` changes `readonly`; its own keys stay its own.
    let changed = PROFILES.replace("\"openai\"", "\"anthropic\"").replace(
        "\"gpt-4o\"",
        "\"claude-opus-4-6\"\nfallbacks = [\"openai/gpt-4o\"]",
    );
    let fallbacks = vec!["openai/gpt-4o".to_owned()];
    assert_eq!(
        session(&changed, &[], &[("profile", "readonly")]),
        Ok((
            "anthropic/claude-opus-4-6".to_owned(),
            fallbacks,
            ProfileAccess::Read
        ))
    );
    let own = changed.replace("access = \"read\"", "fallbacks = [\"openai/gpt-4.1\"]");
    let fallbacks = vec!["openai/gpt-4.1".to_owned()];
    assert_eq!(
        session(&own, &[], &[("profile", "readonly")]),
        Ok((
            "anthropic/claude-opus-4-6".to_owned(),
            fallbacks,
            ProfileAccess::Read
        ))
    );
}

#[test]
fn a_profile_replaces_the_model_of_the_file_and_not_that_of_a_variable_or_a_flag() {
    let model = |environment: &[(&str, &str)], flags: &[(&str, &str)]| {
        session(PROFILES, environment, flags).map(|(model, ..)| model)
    };
    let expected = |model: &str| Ok(model.to_owned());
    assert_eq!(model(&[], &[]), expected("openai/gpt-4o"));
    let variable = ("DRYDOCK_MODEL__DEFAULT", "claude-opus-4-6");
    assert_eq!(model(&[variable], &[]), expected("anthropic/claude-opus-4-6"));
    let provider = ("model.provider", "anthropic");
    assert_eq!(model(&[], &[provider]), expected("anthropic/claude-opus-4-6"));
    let profile = ("profile", "default");
    let other = ("DRYDOCK_PROFILE", "large");
    assert_eq!(model(&[other], &[]), expected("anthropic/claude-opus-4-6"));
    assert_eq!(model(&[other], &[profile]), expected("openai/gpt-4o"));
    // A server has no profile.
    let server =
        Config::load(with(PROFILES, &[("DRYDOCK_PROFILE", "large")])).map(|config| config.model.default);
    assert_eq!(server, Ok("ollama/llama3".to_owned()));
}

/// STK-31
#[test]
fn a_profile_that_cannot_be_used_is_refused_with_the_names_that_exist() {
    for (text, environment, flags, why) in [
        (
            PROFILES,
            &[("DRYDOCK_PROFILE", "nobody")][..],
            NONE,
            "DRYDOCK_PROFILE: profile: does not name one of the profiles; there are default, large, readonly",
        ),
        (
            PROFILES,
            NONE,
            &[("profile", "readonyl")],
            "command line: profile: does not name one of the profiles; did you mean readonly?",
        ),
        (
            "",
            NONE,
            &[("profile", "readonly")],
            "command line: profile: does not name one of the profiles; there is no [profiles.<name>]",
        ),
        (
            "[profiles.readonly]\nmodel = \"openai/gpt-4o\"\n",
            NONE,
            &[("model.default", "openai/gpt-4o")],
            "drydock.toml:2: profiles.readonly.model: this profile has the model of `default`; remove this key, or give the profile another name",
        ),
        (
            "[profiles.readonly]\naccess = \"edit\"\n",
            NONE,
            &[("model.default", "openai/gpt-4o")],
            "drydock.toml:2: profiles.readonly.access: this profile only reads; write \"read\", or give the profile another name",
        ),
        (
            "[profiles.own]\naccess = \"all\"\n",
            NONE,
            &[("model.default", "openai/gpt-4o")],
            "drydock.toml:2: profiles.own.access: expected one of edit, read",
        ),
    ] {
        assert_eq!(session(text, environment, flags), Err(why.to_owned()));
    }
}

/// STK-30
#[test]
fn a_key_comes_from_the_configuration_then_the_environment_then_the_stored_keys() {
    let configured = "[providers.openai]\napi_key = { env = \"HOUSE_KEY\" }\n";
    let variables = [
        ("HOUSE_KEY", "sk-configured-11"),
        ("OPENAI_API_KEY", "sk-environment-22"),
    ];
    let stored = [("openai", "sk-stored-33"), ("google", "gm-stored-44")];
    let model = ("DRYDOCK_MODEL__DEFAULT", "openai/gpt-4o");
    for (text, variables, expected) in [
        (configured, &variables[..], "sk-configured-11"),
        ("", &variables[1..], "sk-environment-22"),
        ("", NONE, "sk-stored-33"),
    ] {
        let environment = [&[model][..], variables].concat();
        let config = Config::for_terminal(with_keys(text, &environment, &stored)).unwrap();
        let key = config.providers["openai"].api_key.as_ref().unwrap();
        assert_eq!(key.expose(), expected);
        // The redactor learns the stored keys of all providers, used or not.
        let secrets = config.secrets();
        let holds = |wanted: &str| secrets.iter().any(|secret| secret.expose() == wanted);
        assert!(holds(expected) && holds("sk-stored-33") && holds("gm-stored-44"));
    }
    let origins = |text: &str, variables: &[(&str, &str)]| -> Vec<(String, KeyOrigin)> {
        let keys = Config::provider_keys(&with_keys(text, variables, &stored)).unwrap();
        keys.into_iter().map(|key| (key.provider, key.origin)).collect()
    };
    let listed = |provider: &str, origin| (provider.to_owned(), origin);
    let environment = KeyOrigin::Environment("OPENAI_API_KEY".to_owned());
    let configuration = KeyOrigin::Configuration("env HOUSE_KEY".to_owned());
    assert_eq!(
        origins(configured, &variables),
        [
            listed("openai", configuration),
            listed("openai", environment),
            listed("openai", KeyOrigin::Stored),
            listed("google", KeyOrigin::Stored),
        ]
    );
    // A stored key alone chooses the model, after every other key.
    let model = |environment: &[(&str, &str)]| {
        let config = Config::for_terminal(with_keys("", environment, &[("openai", "sk-stored-33")]));
        config
            .map(|config| config.model.default)
            .map_err(|error| error.to_string())
    };
    assert_eq!(model(&[]), Ok("openai/gpt-4o".to_owned()));
    let google = ("GEMINI_API_KEY", "gm-environment-1");
    assert_eq!(model(&[google]), Ok("google/gemini-3.5-flash".to_owned()));
}

#[test]
fn a_stored_key_that_cannot_be_one_is_a_problem_only_if_it_is_needed() {
    let model = |name| ("DRYDOCK_MODEL__DEFAULT", name);
    let needed = with_keys("", &[model("openai/gpt-4o")], &[("openai", "changeme-now")]);
    let why = "auth.toml: providers.openai.api_key: the secret is a placeholder; put the real one there";
    assert_eq!(
        Config::for_terminal(needed).map(drop).unwrap_err().to_string(),
        why
    );
    let other = with_keys("", &[model("ollama/llama3")], &[("openai", "changeme-now")]);
    assert!(Config::for_terminal(other).is_ok());
}

#[test]
fn a_provider_is_found_by_its_section_its_name_or_its_alias() {
    let name = |text: &str, typed: &str| Config::provider_name(&sources(text), typed);
    assert_eq!(name("", "gemini"), Ok("google".to_owned()));
    let section = "[providers.gemini]\n[providers.house]\nbase_url = \"https://house.example\"\n";
    assert_eq!(name(section, "gemini"), Ok("gemini".to_owned()));
    assert_eq!(name(section, "house"), Ok("house".to_owned()));
    let why = "no provider has this name; there are anthropic, azure, custom, google, ollama, openai, openrouter, and each section [providers.<name>] adds one";
    assert_eq!(name("", "antropic"), Err(why.to_owned()));
}
