//! Tests that the reference file and the table of keys agree.

use super::*;
use crate::base::config::entries::Entry;
use crate::base::config::error::Problems;
use crate::base::config::keys::{KEYS, UnsetRule};
use crate::base::config::layers::Layers;
use crate::base::config::reader::default_value;
use crate::base::config::value::{SecretSource, Value};
use crate::base::config::{LimitSettings, RetentionSettings, SandboxSettings, ServerSettings, ValueKind};
use crate::base::redact::Redactor;
use std::collections::{BTreeMap, BTreeSet};

const REFERENCE: &str = include_str!("../../../../config/drydock.toml");

/// Returns the reference file with every documented key and section uncommented.
fn uncommented() -> String {
    let lines = REFERENCE.lines().map(|line| match line.strip_prefix("# ") {
        Some(rest) if is_toml(rest) => rest,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn is_toml(line: &str) -> bool {
    let key = line.split_once(" = ").map_or("", |(key, _)| key);
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
    is_key || (line.starts_with('[') && line.ends_with(']') && !line.contains(' '))
}

/// Returns a path of the file in the notation of the table of keys.
fn pattern(path: &str) -> String {
    let mut names: Vec<&str> = path.split('.').collect();
    if matches!(
        names[0],
        "profiles"
            | "providers"
            | "models"
            | "repositories"
            | "channels"
            | "hooks"
            | "schedules"
            | "services"
    ) {
        names[1] = "*";
    }
    if names.len() == 4 && names[2] == "fields" {
        names[3] = "*";
    }
    if names.len() == 3 && names[1] == "programs" {
        names[2] = "*";
    }
    names.join(".")
}

fn shown(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        Value::List(entries) => format!("{entries:?}"),
        Value::Address(address) => address.to_string(),
        Value::Url(url) => format!("{url:?}"),
        Value::Path(path) => path.display().to_string(),
        Value::Price(price) => price.of_a_million().to_string(),
        Value::Secret(_) => "a secret".to_owned(),
    }
}

/// Returns every key that is set, with its path.
fn keys_of(layers: &Layers) -> impl Iterator<Item = (String, &Entry)> {
    let keys = layers.entries.all();
    keys.map(|((section, name), entry)| {
        let path = [section, name].join(".");
        (path.trim_start_matches('.').to_owned(), entry)
    })
}

/// STK-6, STK-7, STK-9
#[test]
fn the_reference_file_holds_every_key_with_its_default_and_no_other() {
    let mut problems = Problems::default();
    let layers = Layers::read(
        &ConfigSources {
            environment: Default::default(),
            ..sources(&uncommented())
        },
        &mut problems,
    );
    problems.finish().unwrap();
    let documented: BTreeSet<String> = keys_of(&layers).map(|(path, _)| pattern(&path)).collect();
    assert_eq!(documented, KEYS.iter().map(|key| key.path.to_owned()).collect());
    for (path, entry) in keys_of(&layers) {
        let key = KEYS.iter().find(|key| key.path == pattern(&path)).unwrap();
        if let UnsetRule::Default(text) = key.unset {
            let default = default_value(key.kind, text).expect(key.path);
            assert_eq!(shown(entry.value.as_ref().unwrap()), shown(&default), "{path}");
        }
    }
}

#[test]
fn the_reference_file_states_every_bound() {
    for key in KEYS.iter() {
        let crate::base::config::ValueKind::Integer { min, max } = key.kind else {
            continue;
        };
        let name = key.path.rsplit('.').next().unwrap();
        let documented = REFERENCE
            .replace('_', "")
            .contains(&format!("[{min}, {max}]\n# {}", name.replace('_', "")));
        assert!(documented, "{} does not say [{min}, {max}]", key.path);
    }
}

#[test]
fn every_default_is_a_value_of_its_key() {
    for key in KEYS.iter() {
        if let UnsetRule::Default(text) = key.unset {
            assert!(default_value(key.kind, text).is_some(), "{}", key.path);
        }
    }
}

#[test]
fn the_reference_file_changes_nothing_as_it_is() {
    let reference = Config::load(sources(REFERENCE)).unwrap();
    assert_eq!(reference.server, ServerSettings::default());
    assert_eq!(reference.retention, RetentionSettings::default());
    assert_eq!(reference.limits, LimitSettings::default());
    assert_eq!(reference.sandbox, SandboxSettings::default());
    assert!(reference.channels.is_empty() && reference.hooks.is_empty());
}

/// R29
#[test]
fn every_kind_of_data_expires_by_default_and_0_keeps_it_forever() {
    let RetentionSettings {
        message_days,
        usage_days,
        change_days,
        recording_days,
        dead_letter_days,
        invite_days,
        audit_days,
        base_days,
        mirror_days,
    } = RetentionSettings::default();
    let days = [
        message_days,
        usage_days,
        change_days,
        recording_days,
        dead_letter_days,
        invite_days,
        audit_days,
        base_days,
        mirror_days,
    ];
    let expected = [90, 730, 180, 90, 30, 90, 3_650, 7, 30];
    assert_eq!(days, expected.map(Some));
    let config = Config::load(sources(
        "[retention]\nmessage_days_kept = 0\naudit_days_kept = 0\n",
    ))
    .unwrap();
    let kept = RetentionSettings {
        message_days: None,
        audit_days: None,
        ..RetentionSettings::default()
    };
    assert_eq!(config.retention, kept);
}

/// Loads the examples of the reference file. Returns also each secret key and its value.
fn examples() -> (Config, Vec<(String, String)>) {
    let text = uncommented().replace("{ file = \"apps-token\" }", "{ env = \"APPS_TOKEN\" }");
    let layers = Layers::read(&sources(&text), &mut Problems::default());
    let (mut environment, mut values) = (BTreeMap::new(), Vec::new());
    for (path, entry) in keys_of(&layers) {
        let Some(Value::Secret(SecretSource::Variable(name))) = &entry.value else {
            continue;
        };
        // A value in the form of its platform, if it is known.
        let known = SECRETS
            .iter()
            .chain([&APP_TOKEN, &DISCORD_TOKEN])
            .find(|(known, _)| known == name);
        let value = known.map_or_else(
            || format!("canary-of-{name}-8f742231b1"),
            |(_, value)| (*value).to_owned(),
        );
        let is_first = environment.insert(name.as_str(), value.clone()).is_none();
        assert!(is_first, "{path}: another key has the variable {name} as well");
        values.push((pattern(&path), value));
    }
    let environment: Vec<(&str, &str)> = environment
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    (Config::load(with(&text, &environment)).unwrap(), values)
}

#[test]
fn the_examples_of_the_reference_file_fit_together() {
    let (config, _) = examples();
    assert_eq!(config.hooks["release"].fields["version"], "/release/tag_name");
    let program = &config.pipelines.programs["kubeconform"];
    assert_eq!(program, std::path::Path::new("/usr/local/bin/kubeconform"));
}

/// Every secret key of the table is in the reference file, so this test includes a new one automatically.
#[test]
fn the_secret_of_every_secret_key_is_redacted() {
    let (config, values) = examples();
    let configured: BTreeSet<&str> = values.iter().map(|(path, _)| path.as_str()).collect();
    let secret_keys = KEYS
        .iter()
        .filter(|key| matches!(key.kind, ValueKind::Secret { .. }));
    assert_eq!(configured, secret_keys.map(|key| key.path).collect());
    let redactor = Redactor::new(config.secrets());
    for (path, value) in &values {
        assert!(!redactor.redact(value).contains(value), "{path} is not redacted");
    }
}

#[test]
fn limits_of_a_turn_have_one_set_of_defaults() {
    assert_eq!(
        LimitSettings::default().turn,
        crate::base::model::Limits::default()
    );
}
