//! Tests of refused configurations and their problems. Every problem is one line with place and key, and contains no
//! value.

use super::*;
use crate::base::system::LayerName;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Returns the problems of the good configuration with one change.
fn broken(from: &str, to: &str) -> Vec<String> {
    assert!(GOOD.contains(from), "{from}");
    problems(sources(&GOOD.replacen(from, to, 1)))
}

/// T10, CI-26: for every scheme, and also if the listener is on loopback.
#[test]
fn a_hook_without_a_secret_is_refused_by_name() {
    let expected = "drydock.toml:15: hooks.ci.secret: is required; write secret = { env = \"NAME\" } or { file = \"path\" }";
    let without = GOOD.replacen("secret = { env = \"HOOK_SECRET\" }", "", 1);
    for scheme in [
        "github",
        "slack",
        "generic",
        "generic-body\"\nallow_replayable = true #",
    ] {
        let text = without.replacen("\"github\"", &format!("\"{scheme}\""), 1);
        let loopback = with(&text, &[("DRYDOCK_SERVER__LISTEN", "127.0.0.1:7700")]);
        assert_eq!(problems(loopback), [expected], "{scheme}");
    }
}

/// T19
#[test]
fn an_empty_telegram_secret_is_refused_wherever_it_is_written() {
    let variable = with(GOOD, &[("TELEGRAM_SECRET_TOKEN", "")]);
    assert_eq!(
        problems(variable),
        ["drydock.toml:14: channels.phone.secret_token: the secret is empty"]
    );
    let layer = with(GOOD, &[("DRYDOCK_CHANNELS__PHONE__SECRET_TOKEN", "")]);
    let expected = "DRYDOCK_CHANNELS__PHONE__SECRET_TOKEN: channels.phone.secret_token: the secret is empty";
    assert_eq!(problems(layer), [expected]);
    let literal = broken(
        "secret_token = { env = \"TELEGRAM_SECRET_TOKEN\" }",
        "secret_token = \"\"",
    );
    let expected = "drydock.toml:14: channels.phone.secret_token: a secret does not belong in this file; write { env = \"NAME\" } or { file = \"path\" }";
    assert_eq!(literal, [expected]);
}

#[test]
fn all_configuration_problems_are_reported_at_once_in_file_order() {
    let mut sources = with(
        "[server]\nlisten = 1\n[limits]\nstep_max = 3\n[hooks.ci]\nscheme = \"github\"\n",
        &[
            ("DRYDOCK_SERVER__LISTNE", "x"),
            ("DRYDOCK_LIMITS__STEPS_MAX", "many"),
        ],
    );
    sources.flags = vec![
        ("limits.step_max".to_owned(), "1".to_owned()),
        ("channels.team.bot_token".to_owned(), "xoxb-canary".to_owned()),
    ];
    assert_eq!(
        problems(sources),
        [
            "drydock.toml:2: server.listen: expected an IP address and port, such as 127.0.0.1:7700, found a whole number",
            "drydock.toml:4: limits.step_max: unknown key; did you mean limits.steps_max?",
            "drydock.toml:5: hooks.ci.secret: is required; write secret = { env = \"NAME\" } or { file = \"path\" }",
            "drydock.toml:5: hooks.ci.repository: is required",
            "drydock.toml:5: hooks.ci.prompt: is required",
            "drydock.toml:5: hooks.ci.post_to.channel: is required",
            "drydock.toml:5: hooks.ci.post_to.chat: is required",
            "DRYDOCK_LIMITS__STEPS_MAX: limits.steps_max: expected a whole number from 1 to 200",
            "DRYDOCK_SERVER__LISTNE: unknown key; did you mean DRYDOCK_SERVER__LISTEN?",
            "command line: limits.step_max: unknown key; did you mean limits.steps_max?",
            "command line: channels.team.bot_token: every user of this machine can read a command line; set \
             DRYDOCK_CHANNELS__TEAM__BOT_TOKEN instead",
        ]
    );
}

#[test]
fn a_switch_of_the_wrong_type_is_the_only_problem() {
    let wrong = |line: u32, key: &str| {
        [format!(
            "drydock.toml:{line}: {key}: expected true or false, found a whole number"
        )]
    };
    let hook = broken("[hooks.ci]\n", "[hooks.ci]\npipelines = 5\n");
    assert_eq!(hook, wrong(16, "hooks.ci.pipelines"));
    let address = "[server]\nlisten = \"0.0.0.0:7700\"\nbehind_proxy = 5\n";
    let server = broken("[server]\n", address);
    assert_eq!(server, wrong(3, "server.behind_proxy"));
    let house = "[model]\ndefault = \"my-house/m\"\n[providers.my-house]\n\
        base_url = \"https://models.example.com/v1\"\nkeyless = 5\n";
    assert_eq!(problems(sources(house)), wrong(5, "providers.my-house.keyless"));
    let schedule = "[schedules.nightly]\npipelines = 5\nrepository = \"infra\"\n\
        post_to = { channel = \"team\", chat = \"C1\" }\n[hooks.ci]\n";
    assert_eq!(
        broken("[hooks.ci]\n", schedule),
        wrong(16, "schedules.nightly.pipelines")
    );
}

#[test]
fn invalid_toml_is_reported_with_its_line() {
    let found = problems(sources("[server]\nlisten = \"127.0.0.1:1\"\nlisten = \"canary\n"));
    assert!(!found.is_empty());
    assert!(
        found
            .iter()
            .all(|line| line.starts_with("drydock.toml:3: this is not TOML: ")),
        "{found:#?}"
    );
    assert!(!found.join("\n").contains("canary"));
}

#[test]
fn keys_set_in_an_invalid_toml_file_are_not_reported_as_missing() {
    let mut sources = sources(&format!("{GOOD}\n[server\n"));
    sources.environment.clear();
    let found = problems(sources);
    assert!(
        !found.is_empty() && found.iter().all(|line| line.contains("this is not TOML")),
        "{found:#?}"
    );
}

/// TK-10
#[test]
fn a_model_whose_provider_has_no_key_names_the_variable() {
    let mut sources = sources(GOOD);
    sources.environment.remove("ANTHROPIC_API_KEY");
    let expected = "configuration: providers.anthropic.api_key: the API key is missing; set ANTHROPIC_API_KEY or this key";
    assert_eq!(problems(sources), [expected]);
}

/// T89: a secret in any key, as any type, is never repeated.
#[test]
fn no_value_is_ever_repeated_in_a_problem() {
    let canary = "Canary9f8e7d6c5b4a";
    for key in crate::base::config::KEYS.iter() {
        let path = key.path.replace(".*", ".name");
        for value in [
            format!("\"{canary}\""),
            format!("[\"{canary}\", 1]"),
            format!("{{ env = \"{canary}\" }}"),
            format!("{{ file = \"{canary}\" }}"),
            format!("{{ x = \"{canary}\" }}"),
        ] {
            let text = format!("{path} = {value}\n");
            let variable = format!("DRYDOCK_{}", path.replace('.', "__").to_uppercase());
            for sources in [sources(&text), with("", &[(&variable, canary)])] {
                let found = problems(sources).join("\n");
                assert!(!found.contains(canary), "{text}{found}");
            }
        }
    }
}

#[test]
fn names_with_control_characters_cannot_forge_a_line() {
    let found = problems(sources("\"a\\nforged: line\\u001b[31m\" = 1\n"));
    assert_eq!(
        found,
        ["drydock.toml:1: a?forged: line?[31m: unknown key; `config/drydock.toml` lists all keys"]
    );
}

#[test]
fn a_section_is_not_a_key() {
    let found = problems(with("", &[("DRYDOCK_MODEL", "openai/gpt-4o")]));
    assert_eq!(
        found,
        ["DRYDOCK_MODEL: is a section, not a key; set one of its keys, such as DRYDOCK_MODEL__DEFAULT"]
    );
}

/// TK-10
#[test]
fn a_missing_key_is_reported_at_the_line_that_chose_the_model() {
    let found = problems(sources("[model]\ndefault = \"openai/gpt-4o\"\n"));
    assert_eq!(
        found,
        ["drydock.toml:2: providers.openai.api_key: the API key is missing; set OPENAI_API_KEY or this key"]
    );
    let why =
        "providers.google.api_key: the API key is missing; set GEMINI_API_KEY or GOOGLE_API_KEY or this key";
    let other = "[providers.openrouter]\napi_key = { env = \"ANTHROPIC_API_KEY\" }\n";
    let google = "google/gemini-2.5-pro";
    let chosen = |text: String| problems(with(&text, &[("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")]));
    // A section of another provider is not the reason.
    let by_default = chosen(format!("[model]\ndefault = \"{google}\"\n\n{other}"));
    assert_eq!(by_default, [format!("drydock.toml:2: {why}")]);
    let fallback =
        format!("[model]\ndefault = \"anthropic/claude-haiku-4-5\"\nfallbacks = [\"{google}\"]\n\n{other}");
    assert_eq!(chosen(fallback), [format!("drydock.toml:3: {why}")]);
    let own_section = chosen(format!(
        "[model]\ndefault = \"{google}\"\n[providers.google]\nattempts_max = 2\n{other}"
    ));
    assert_eq!(own_section, [format!("drydock.toml:3: {why}")]);
    let key = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
    let by_variable = problems(with(other, &[key, ("DRYDOCK_MODEL__DEFAULT", google)]));
    assert_eq!(by_variable, [format!("DRYDOCK_MODEL__DEFAULT: {why}")]);
    let mut by_flag = with(other, &[key]);
    by_flag
        .flags
        .push(("model.default".to_owned(), google.to_owned()));
    let found = problems(by_flag).join("\n");
    assert!(found.ends_with(why) && !found.contains("drydock.toml"), "{found}");
}

#[test]
fn a_file_that_is_wrong_everywhere_gets_a_list_that_ends() {
    let text: String = (0..20_000)
        .map(|number| format!("unknown{number} = 1\n"))
        .collect();
    assert_eq!(problems(sources(&text)).len(), 100);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn any_text_loads_or_is_refused_line_by_line(text in "[a-z\\[\\]{}=\",.#\n 0-9\\PC]{0,200}", cut in 0..GOOD.len()) {
        for text in [text.clone(), format!("{}{text}", GOOD.chars().take(cut).collect::<String>())] {
            for line in problems(sources(&text)) {
                let placed = line.starts_with("drydock.toml:") || line.starts_with("configuration: ");
                prop_assert!(placed && line.chars().count() < 400, "{line}");
            }
        }
    }
}

/// T50
#[test]
fn a_program_that_is_not_ours_is_named_by_its_absolute_path() {
    let text = "[helm]\nprogram = \"bin/helm\"\n[kustomize]\nprogram = \"/usr/bin/kustomize\"\n";
    let error = Config::for_rendering(sources(text)).unwrap_err().to_string();
    let expected = "drydock.toml:2: helm.program: expected an absolute path, such as /usr/local/bin/helm";
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains("kustomize"), "{error}");
}

#[test]
fn layers_and_globs_of_the_sandbox_are_checked() {
    let layers = LayerName::ALL.map(LayerName::name);
    let text = format!(
        "[sandbox]\nimports_denied = [\"secrets/**\", \"[\"]\nlayers_missing = [\"{}\", \"walls\"]\n",
        layers[0]
    );
    let problems = problems(with(&text, &[]));
    let no_layer = format!(
        "drydock.toml:3: sandbox.layers_missing: entry 2 is not a layer of this system; its layers are {}",
        layers.join(", ")
    );
    for expected in [
        "drydock.toml:2: sandbox.imports_denied: entry 2 is not a glob",
        &no_layer,
    ] {
        assert!(problems.iter().any(|problem| problem == expected), "{problems:?}");
    }
}
