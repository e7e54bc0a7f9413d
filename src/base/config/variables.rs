//! Classifies names of environment variables: those of keys, those of other programs, and unknown ones, which are
//! ignored with a warning.

use crate::base::config::key_lookup::{self, KeyMatch};
use crate::base::config::keys::KEYS;
use crate::base::model::edit_distance;

const PREFIX: &str = "DRYDOCK_";
/// Variables that configure the program itself and are not keys.
const SHELL_VARIABLES: [&str; 3] = ["DRYDOCK_CONFIG", "DRYDOCK_LOG", "DRYDOCK_TOKEN"];
/// Prefixes of variables for tests, benchmarks and checks.
const RESERVED: [&str; 3] = ["DRYDOCK_TEST_", "DRYDOCK_BENCH_", "DRYDOCK_CI_"];
/// Prefixes of variables that Kubernetes sets in every pod next to a Service called `drydock`.
const SERVICE_VARIABLES: [&str; 2] = ["DRYDOCK_SERVICE_", "DRYDOCK_PORT"];
/// Parts of variables that Kubernetes sets for other Services whose names begin with `drydock-`.
const OTHER_SERVICE_MARKERS: [&str; 3] = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"];
/// Sections whose second name the operator chooses.
pub(super) const NAMED_SECTIONS: [&str; 7] = [
    "profiles",
    "providers",
    "repositories",
    "channels",
    "hooks",
    "schedules",
    "services",
];
/// The maximum edit distance between a variable and a key's name with single underscores.
const MISSPELT_EDITS_MAX: usize = 2;

/// The meaning of the name of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VariableMeaning {
    /// A variable of another program, or one that is not for the configuration.
    Unrelated,
    /// A key of this path, whether known or not.
    Key(Vec<String>),
    /// A misspelt key; this variable is the right one.
    Misspelt(String),
    /// A variable without a known meaning.
    Unknown,
}

/// Returns the meaning of a variable of this name. Only names of Drydock's keys contain two consecutive underscores.
pub(super) fn classify_variable(name: &str) -> VariableMeaning {
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return VariableMeaning::Unrelated;
    };
    if SHELL_VARIABLES.contains(&name) || RESERVED.iter().any(|prefix| name.starts_with(prefix)) {
        return VariableMeaning::Unrelated;
    }
    let path = path_of(rest);
    if rest.contains("__") || key_lookup::find(&path) != KeyMatch::Nothing {
        return VariableMeaning::Key(path);
    }
    if is_service_variable(name) {
        return VariableMeaning::Unrelated;
    }
    match misspelt(&rest.to_lowercase()) {
        Some(variable) => VariableMeaning::Misspelt(variable),
        None => VariableMeaning::Unknown,
    }
}

/// Returns a warning for each variable that has Drydock's prefix and no meaning, and is therefore ignored.
pub fn ignored_variables<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let unknown = names
        .into_iter()
        .filter(|name| classify_variable(name) == VariableMeaning::Unknown);
    let line = |name: &str| {
        let shown = crate::base::config::error::printable(name);
        let hint = nearest(name.strip_prefix(PREFIX).unwrap_or_default());
        let hint = hint
            .map(|near| format!("; did you mean {near}?"))
            .unwrap_or_default();
        format!("{shown}: no key has this variable, so it is ignored{hint}")
    };
    unknown.map(line).collect()
}

/// Returns the path of a variable. `CHANNELS__TEAM_A__BOT_TOKEN` is `channels.team-a.bot_token`: shells allow no `-`
/// in a variable's name, and Drydock's names contain no `_`.
fn path_of(rest: &str) -> Vec<String> {
    let mut path: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
    if let [first, second, ..] = path.as_mut_slice()
        && NAMED_SECTIONS.contains(&first.as_str())
    {
        *second = second.replace('_', "-");
    }
    path
}

/// Returns the variable of a key.
pub(super) fn variable_of_path(path: &[String]) -> String {
    format!("{PREFIX}{}", path.join("__").replace('-', "_").to_uppercase())
}

fn is_service_variable(name: &str) -> bool {
    SERVICE_VARIABLES.iter().any(|prefix| name.starts_with(prefix))
        || OTHER_SERVICE_MARKERS.iter().any(|part| name.contains(part))
        || name.ends_with("_PORT")
}

/// Returns the right variable for a key that was written with single underscores: `server_listen`, or
/// `providers_openai_api_key`.
fn misspelt(rest: &str) -> Option<String> {
    KEYS.iter().find_map(|key| match key.path.split_once(".*.") {
        None => {
            let (section, _) = key.path.split_once('.')?;
            let begins = rest.strip_prefix(section)?.starts_with('_');
            let near = edit_distance(rest, &key.path.replace('.', "_")) <= MISSPELT_EDITS_MAX;
            (begins && near).then(|| variable_of_path(&split(key.path)))
        }
        Some((section, last)) => {
            let name = rest.strip_prefix(section)?.strip_prefix('_')?;
            let name = name.strip_suffix(&last.replace('.', "_"))?.strip_suffix('_')?;
            (!name.is_empty()).then(|| variable_of_path(&split(&format!("{section}.{name}.{last}"))))
        }
    })
}

/// Returns the variable of the key with the nearest name, if one is similar enough.
fn nearest(rest: &str) -> Option<String> {
    let rest = rest.to_lowercase();
    let keys = KEYS.iter().filter(|key| !key.path.contains('*'));
    let near = keys
        .map(|key| (edit_distance(&rest, &key.path.replace('.', "_")), key.path))
        .min()?;
    (near.0 <= rest.chars().count() / 3).then(|| variable_of_path(&split(near.1)))
}

fn split(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{VariableMeaning, classify_variable, ignored_variables};

    #[test]
    fn drydock_variables_are_distinguished_from_those_of_other_programs() {
        let key = |path: &str| VariableMeaning::Key(super::split(path));
        let misspelt = |name: &str| VariableMeaning::Misspelt(name.to_owned());
        for (name, expected) in [
            ("PATH", VariableMeaning::Unrelated),
            ("DRYDOCK_CONFIG", VariableMeaning::Unrelated),
            ("DRYDOCK_TOKEN", VariableMeaning::Unrelated),
            ("DRYDOCK_BENCH_JSON", VariableMeaning::Unrelated),
            ("DRYDOCK_TEST_ANYTHING__AT_ALL", VariableMeaning::Unrelated),
            ("DRYDOCK_CI_CACHE", VariableMeaning::Unrelated),
            ("DRYDOCK_SERVICE_HOST", VariableMeaning::Unrelated),
            ("DRYDOCK_PORT_7700_TCP_ADDR", VariableMeaning::Unrelated),
            ("DRYDOCK_SERVICES_PORT", VariableMeaning::Unrelated),
            (
                "DRYDOCK_SERVICES__MY_BOT__REPOSITORY",
                key("services.my-bot.repository"),
            ),
            ("DRYDOCK_HOOKS_SERVICE_PORT_HTTP", VariableMeaning::Unrelated),
            ("DRYDOCK_DATA_PORT", VariableMeaning::Unrelated),
            ("DRYDOCK_SERVER__LISTEN", key("server.listen")),
            ("DRYDOCK_SEVER__LISTEN", key("sever.listen")),
            ("DRYDOCK_MODEL", key("model")),
            ("DRYDOCK_CHANNELS__TEAM_A__KIND", key("channels.team-a.kind")),
            (
                "DRYDOCK_SCHEDULES__AT_NIGHT__WHEN",
                key("schedules.at-night.when"),
            ),
            ("DRYDOCK_SERVER_LISTEN", misspelt("DRYDOCK_SERVER__LISTEN")),
            ("DRYDOCK_MODEL_DEFUALT", misspelt("DRYDOCK_MODEL__DEFAULT")),
            (
                "DRYDOCK_PROVIDERS_OPEN_AI_API_KEY",
                misspelt("DRYDOCK_PROVIDERS__OPEN_AI__API_KEY"),
            ),
            (
                "DRYDOCK_HOOKS_CI_POST_TO_CHAT",
                misspelt("DRYDOCK_HOOKS__CI__POST_TO__CHAT"),
            ),
            ("DRYDOCK_VERSION", VariableMeaning::Unknown),
            ("DRYDOCK_HOOKS_DIR", VariableMeaning::Unknown),
            ("DRYDOCK_", VariableMeaning::Unknown),
        ] {
            assert_eq!(classify_variable(name), expected, "{name}");
        }
    }

    #[test]
    fn an_ignored_variable_is_reported_with_the_nearest_key() {
        let ignored = ignored_variables([
            "DRYDOCK_DIRECTORY_DATA",
            "DRYDOCK_LOG",
            "DRYDOCK_A\nB",
            "DRYDOCK_SRVER_LISTEN",
        ]);
        assert_eq!(
            ignored,
            [
                "DRYDOCK_DIRECTORY_DATA: no key has this variable, so it is ignored",
                "DRYDOCK_A?B: no key has this variable, so it is ignored",
                "DRYDOCK_SRVER_LISTEN: no key has this variable, so it is ignored; did you mean DRYDOCK_SERVER__LISTEN?",
            ]
        );
    }
}
