//! Tests of the layers' priority and syntax.

use super::*;
use crate::base::config::{AnswerMode, ChannelSettings, HookScheme, RichMessages, TelegramMode};
use std::collections::BTreeSet;

#[test]
fn a_complete_file_loads_with_its_secrets() {
    let config = Config::load(sources(GOOD)).unwrap();
    let ChannelSettings::Slack(slack) = &config.channels["team"] else {
        panic!("`team` is a Slack channel");
    };
    assert_eq!(slack.bot_token.expose(), "xoxb-17653672481-canaryslack");
    assert_eq!(slack.api_base_url, "https://slack.com/api");
    assert_eq!(slack.repository.as_deref(), Some("infra"));
    let ChannelSettings::Telegram(telegram) = &config.channels["phone"] else {
        panic!("`phone` is a Telegram bot");
    };
    assert_eq!(telegram.mode, TelegramMode::Webhook);
    assert_eq!(telegram.rich_messages, RichMessages::Auto);
    assert_eq!(config.hooks["ci"].scheme, HookScheme::Github);
    assert_eq!(config.hooks["ci"].grants.environments, ["**"]);
    assert_eq!(
        config.providers["anthropic"].base_url,
        "https://api.anthropic.com"
    );
    let secrets: BTreeSet<String> = config
        .secrets()
        .iter()
        .map(|secret| secret.expose().to_owned())
        .collect();
    assert_eq!(
        secrets,
        SECRETS.iter().map(|(_, value)| (*value).to_owned()).collect()
    );
}

#[test]
fn rich_messages_can_be_turned_off() {
    let (mode, off) = (
        "mode = \"webhook\"",
        "mode = \"webhook\"\nrich_messages = \"off\"",
    );
    let config = Config::load(sources(&GOOD.replace(mode, off))).unwrap();
    let is_off = |channel: &ChannelSettings| matches!(channel, ChannelSettings::Telegram(telegram) if telegram.rich_messages == RichMessages::Off);
    assert!(is_off(&config.channels["phone"]));
}

/// TK-22
#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let steps = |text: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]| {
        let mut sources = with(text, environment);
        sources.flags = flags
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Config::load(sources).unwrap().limits.turn.steps_max
    };
    let file = "[limits]\nsteps_max = 30";
    let environment = [("DRYDOCK_LIMITS__STEPS_MAX", "40")];
    assert_eq!(steps("", &[], &[]), 20);
    assert_eq!(steps(file, &[], &[]), 30);
    assert_eq!(steps(file, &environment, &[]), 40);
    assert_eq!(steps(file, &environment, &[("limits.steps_max", "50")]), 50);
}

#[test]
fn a_variable_is_read_as_the_type_its_key_wants() {
    let config = Config::load(with(
        "",
        &[
            ("DRYDOCK_SERVER__LISTEN", "[::1]:80"),
            ("DRYDOCK_SERVER__LINK_HOSTS", "a.example.com, b.example.com"),
            ("DRYDOCK_SERVER__BODY_BYTES_MAX", "2_000_000"),
            ("DRYDOCK_MODEL__STREAM", "false"),
        ],
    ))
    .unwrap();
    assert_eq!(config.server.listen.to_string(), "[::1]:80");
    assert_eq!(config.server.link_hosts, ["a.example.com", "b.example.com"]);
    assert_eq!(config.server.body_bytes_max, 2_000_000);
    assert_eq!(config.model.answer_mode, AnswerMode::Whole);
    let config = Config::load(with("", &[("DRYDOCK_SERVER__LINK_HOSTS", "[\"a.b\"]")])).unwrap();
    assert_eq!(config.server.link_hosts, ["a.b"]);
}

#[test]
fn the_environment_alone_can_configure_a_channel() {
    let config = Config::load(with(
        "",
        &[
            ("DRYDOCK_CHANNELS__TEAM_A__KIND", "slack"),
            ("DRYDOCK_CHANNELS__TEAM_A__BOT_TOKEN", "xoxb-1234567890-abc"),
            (
                "DRYDOCK_CHANNELS__TEAM_A__SIGNING_SECRET__ENV",
                "SLACK_SIGNING_SECRET",
            ),
        ],
    ))
    .unwrap();
    let ChannelSettings::Slack(slack) = &config.channels["team-a"] else {
        panic!("`team-a` is a Slack channel");
    };
    assert_eq!(slack.bot_token.expose(), "xoxb-1234567890-abc");
    assert_eq!(
        slack.signing_secret.as_ref().unwrap().expose(),
        "canary-8f742231b10e8888abcd99"
    );
}

#[test]
fn a_slack_app_needs_a_signing_secret_or_an_app_token() {
    let signed = "signing_secret = { env = \"SLACK_SIGNING_SECRET\" }";
    let over_sockets = GOOD.replace(signed, "app_token = { env = \"SLACK_APP_TOKEN\" }");
    let config = Config::load(with(&over_sockets, &[APP_TOKEN])).unwrap();
    let ChannelSettings::Slack(slack) = &config.channels["team"] else {
        panic!("`team` is a Slack channel");
    };
    let app_token = slack.app_token.as_ref().unwrap();
    assert_eq!(app_token.expose(), APP_TOKEN.1);
    assert!(slack.signing_secret.is_none());
}

#[test]
fn variables_that_are_not_keys_are_left_alone() {
    let environment = [
        ("DRYDOCK_TEST_ANYTHING__AT_ALL", "1"),
        ("DRYDOCK_CONFIG", "x"),
        ("DRYDOCK_LOG", "debug"),
        ("DRYDOCK_SERVICE_HOST", "10.0.0.1"),
        ("DRYDOCK_PORT_7700_TCP_ADDR", "10.0.0.1"),
        ("DRYDOCK_BENCH_JSON", "1"),
        ("DRYDOCK_CI_CACHE", "/tmp"),
        ("DRYDOCK_HOME", "/srv"),
        ("PATH", "/bin"),
    ];
    assert_eq!(problems(with(GOOD, &environment)), [] as [&str; 0]);
    let misspelt = with(GOOD, &[("DRYDOCK_SERVER_LISTEN", "127.0.0.1:1")]);
    let expected = "DRYDOCK_SERVER_LISTEN: unknown key; did you mean DRYDOCK_SERVER__LISTEN?";
    assert_eq!(problems(misspelt), [expected]);
}

#[test]
fn a_secret_file_is_found_beside_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("token");
    std::fs::write(&secret, "ghs-0123456789\n").unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let path = directory.path().join("drydock.toml");
    let text = "[repositories.apps]\nurl = \"https://git.example.com/apps\"\ntoken = { file = \"token\" }\n";
    std::fs::write(&path, text).unwrap();
    let environment = [("ANTHROPIC_API_KEY".to_owned(), "sk-ant-0123456789".to_owned())];
    let config = Config::load(ConfigSources::read(Some(&path), environment, Vec::new()).unwrap()).unwrap();
    assert_eq!(
        config.repositories["apps"].token.as_ref().unwrap().expose(),
        "ghs-0123456789"
    );
}

#[test]
fn a_file_that_cannot_be_read_says_so() {
    let error = ConfigSources::read(Some(&PathBuf::from("/nowhere/drydock.toml")), [], Vec::new())
        .err()
        .unwrap();
    let why =
        "/nowhere/drydock.toml: cannot read the configuration file: No such file or directory (os error 2)";
    assert_eq!((error.to_string().as_str(), error.exit_code()), (why, 78));
}

/// TK-17, TK-18, TK-19, CI-21
#[test]
fn each_known_provider_finds_its_conventional_key_and_address() {
    for (model, variable, base_url) in [
        ("anthropic/m", "ANTHROPIC_API_KEY", "https://api.anthropic.com"),
        ("openai/m", "OPENAI_API_KEY", "https://api.openai.com/v1"),
        (
            "openrouter/a/m",
            "OPENROUTER_API_KEY",
            "https://openrouter.ai/api/v1",
        ),
        (
            "google/m",
            "GEMINI_API_KEY",
            "https://generativelanguage.googleapis.com/v1beta",
        ),
        (
            "gemini/m",
            "GEMINI_API_KEY",
            "https://generativelanguage.googleapis.com/v1beta",
        ),
        (
            "google/m",
            "GOOGLE_API_KEY",
            "https://generativelanguage.googleapis.com/v1beta",
        ),
    ] {
        let config = Config::load(with(
            "",
            &[("DRYDOCK_MODEL__DEFAULT", model), (variable, "key-0123456789")],
        ));
        let provider = match model.split('/').next().unwrap() {
            "gemini" => "google",
            provider => provider,
        };
        let settings = &config.unwrap().providers[provider];
        assert_eq!(
            settings.api_key.as_ref().unwrap().expose(),
            "key-0123456789",
            "{variable}"
        );
        assert_eq!(settings.base_url, base_url);
    }
    let config = Config::load(with("", &[("DRYDOCK_MODEL__DEFAULT", "ollama/llama3")])).unwrap();
    assert!(config.providers["ollama"].api_key.is_none());
    assert_eq!(config.providers["ollama"].base_url, "http://localhost:11434/v1");
}

/// CI-21
#[test]
fn a_named_provider_finds_its_key_by_its_name_or_is_refused() {
    let file = "[model]\ndefault = \"my-house/m\"\n[providers.my-house]\nbase_url = \"https://models.example.com/v1\"\n";
    let missing = "drydock.toml:3: providers.my-house.api_key: the API key is missing; set MY_HOUSE_API_KEY or this \
                   key, or keyless = true for a service that needs none";
    assert_eq!(problems(sources(file)), [missing]);
    let config = Config::load(with(file, &[("MY_HOUSE_API_KEY", "key-0123456789")])).unwrap();
    let house = &config.providers["my-house"];
    assert_eq!(house.api_key.as_ref().unwrap().expose(), "key-0123456789");
    // A provider configured as keyless gets no key, whatever is in the environment.
    let keyless = format!("{file}keyless = true\n");
    let config = Config::load(with(&keyless, &[("MY_HOUSE_API_KEY", "key-0123456789")])).unwrap();
    let house = &config.providers["my-house"];
    assert!(house.api_key.is_none() && !house.needs_key);
    for (model, variable) in [
        ("custom/m", "CUSTOM_API_KEY"),
        ("azure/m", "AZURE_API_KEY"),
        ("azure/m", "AZURE_OPENAI_API_KEY"),
    ] {
        let provider = model.split('/').next().unwrap();
        let file = format!(
            "[model]\ndefault = \"{model}\"\n[providers.{provider}]\nbase_url = \"https://models.example.com\"\n"
        );
        let found = problems(sources(&file));
        assert!(found.len() == 1 && found[0].contains(variable), "{found:?}");
        assert_eq!(problems(with(&file, &[(variable, "key-0123456789")])), [""; 0]);
    }
}
