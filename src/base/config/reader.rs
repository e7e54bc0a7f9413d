//! A typed reader of keys for the section modules. It records every problem and continues, so that one start reports
//! all of them.

mod secrets;

pub(super) use secrets::ConventionalSecret;

use crate::base::config::error::{ConfigError, Problems, SettingLocation};
use crate::base::config::key_lookup::{self, KeyMatch};
use crate::base::config::keys::{ConfigKey, UnsetRule, ValueKind};
use crate::base::config::layers::Layers;
use crate::base::config::secrets::SecretResolver;
use crate::base::config::sources::ConfigSources;
use crate::base::config::url::Url;
use crate::base::config::value::{self, Value};
use crate::base::model::{Secret, TokenPrice, edit_distance};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A reader of settings that records the values and every problem.
pub(super) struct SettingsReader<'a> {
    layers: Layers,
    problems: Problems,
    secret_resolver: SecretResolver<'a>,
    stored_keys: &'a BTreeMap<String, Secret>,
    /// The defaults that were read, by the path in the table of keys. Each section of many has the same.
    defaults: HashMap<&'static str, Option<Value>>,
}

impl<'a> SettingsReader<'a> {
    pub(super) fn new(sources: &'a ConfigSources) -> Self {
        let mut problems = Problems::default();
        let layers = Layers::read(sources, &mut problems);
        let directory = sources.file.as_ref().and_then(|file| file.path.parent());
        let directory = directory.map(Path::to_owned).unwrap_or_default();
        Self {
            layers,
            problems,
            secret_resolver: SecretResolver::new(&sources.environment, directory),
            stored_keys: &sources.stored_keys,
            defaults: HashMap::new(),
        }
    }

    /// Returns every secret that was fetched, or else all problems.
    pub(super) fn finish(self) -> Result<Vec<Secret>, ConfigError> {
        let mut problems = self.problems;
        if self.layers.is_file_unread {
            problems.forget_what_is_not_set();
        }
        problems.finish()?;
        Ok(self.secret_resolver.into_fetched())
    }

    /// Returns the operator's names in a section: for `channels`, `team` of `[channels.team]`.
    pub(super) fn names(&self, section: &str) -> BTreeSet<String> {
        let mut names = self.dotted_names(section);
        names.retain(|name| !name.contains('.'));
        names
    }

    /// Returns the operator's names in a section whose tables have no tables of their own. Such a name may have dots.
    pub(super) fn dotted_names(&self, section: &str) -> BTreeSet<String> {
        let prefix = format!("{section}.");
        let from = self.layers.sections.range(prefix.clone()..);
        let below = from.map_while(|(path, _)| path.strip_prefix(&prefix));
        below.map(str::to_owned).collect()
    }

    /// Returns the keys set directly in a section.
    pub(super) fn keys_in(&self, section: &str) -> Vec<String> {
        self.layers.entries.names_in(section)
    }

    /// Returns true if a layer sets the key, validly or not.
    pub(super) fn is_set(&self, path: &str) -> bool {
        self.layers.entries.get(path).is_some()
    }

    /// Returns true if the key's value was refused; the problem is already recorded.
    pub(super) fn refused(&self, path: &str) -> bool {
        self.layers
            .entries
            .get(path)
            .is_some_and(|entry| entry.value.is_none())
    }

    /// Returns the layer that set a key.
    pub(super) fn layer(&self, path: &str) -> Option<SettingLayer> {
        match self.layers.entries.get(path)?.location {
            SettingLocation::File { .. } | SettingLocation::WholeFile { .. } => Some(SettingLayer::File),
            SettingLocation::Variable(_) => Some(SettingLayer::Environment),
            SettingLocation::Flag => Some(SettingLayer::Flags),
            SettingLocation::Nowhere => None,
        }
    }

    /// Records a problem at the key's location, or else at the beginning of its section.
    pub(super) fn problem(&mut self, path: &str, message: impl Into<String>) {
        let place = self.location(path);
        self.problems.add(&place, path, message);
    }

    /// Records a problem of a key that is not set but is required because of the key `cause`. It is recorded at the
    /// section of the key, or at the cause if there is no such section.
    pub(super) fn problem_because_of(&mut self, cause: &str, path: &str, message: impl Into<String>) {
        let section = path.rsplit_once('.').map_or(path, |(section, _)| section);
        let place = match self.layers.sections.get(section) {
            Some(place) => place.clone(),
            None => self.location(cause),
        };
        self.problems.add(&place, path, message);
    }

    fn location(&self, path: &str) -> SettingLocation {
        if let Some(entry) = self.layers.entries.get(path) {
            return entry.location.clone();
        }
        let mut above = path;
        loop {
            if let Some(place) = self.layers.sections.get(above) {
                return place.clone();
            }
            match above.rsplit_once('.') {
                Some((shorter, _)) => above = shorter,
                None => return SettingLocation::Nowhere,
            }
        }
    }

    pub(super) fn integer<T: TryFrom<u64> + Default>(&mut self, path: &str) -> T {
        match self.value(path) {
            // The bounds in the table of keys fit the types of the settings, so the conversion cannot fail.
            Some(Value::Integer(number)) => T::try_from(number).unwrap_or_default(),
            _ => T::default(),
        }
    }

    /// Returns a number, if it is set.
    pub(super) fn optional_integer<T: TryFrom<u64>>(&mut self, path: &str) -> Option<T> {
        match self.value(path) {
            Some(Value::Integer(number)) => T::try_from(number).ok(),
            _ => None,
        }
    }

    pub(super) fn price(&mut self, path: &str) -> Option<TokenPrice> {
        match self.value(path) {
            Some(Value::Price(price)) => Some(price),
            _ => None,
        }
    }

    pub(super) fn boolean(&mut self, path: &str) -> bool {
        matches!(self.value(path), Some(Value::Boolean(true)))
    }

    pub(super) fn text(&mut self, path: &str) -> Option<String> {
        match self.value(path) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the meaning of a chosen word. A word without a meaning in `meanings` is refused, even if the table of
    /// keys lists it, so that it cannot be mistaken for another.
    pub(super) fn choice<T: Copy>(&mut self, path: &str, meanings: &[(&str, T)]) -> Option<T> {
        let word = self.text(path)?;
        let meaning = meanings.iter().find(|(known, _)| *known == word);
        if meaning.is_none() {
            self.problem(path, format!("`{word}` is not supported yet; use another value"));
        }
        meaning.map(|(_, meaning)| *meaning)
    }

    pub(super) fn list(&mut self, path: &str) -> Vec<String> {
        match self.value(path) {
            Some(Value::List(entries)) => entries,
            _ => Vec::new(),
        }
    }

    pub(super) fn address(&mut self, path: &str) -> Option<SocketAddr> {
        match self.value(path) {
            Some(Value::Address(address)) => Some(address),
            _ => None,
        }
    }

    pub(super) fn url(&mut self, path: &str) -> Option<Url> {
        match self.value(path) {
            Some(Value::Url(url)) => url,
            _ => None,
        }
    }

    pub(super) fn path(&mut self, path: &str) -> Option<PathBuf> {
        match self.value(path) {
            Some(Value::Path(directory)) => Some(directory),
            _ => None,
        }
    }

    /// Gives a key the value of another one, or none, unless a variable or a flag sets it.
    pub(super) fn replace_in_file(&mut self, path: &str, other: &str) {
        if self.layer(path) > Some(SettingLayer::File) {
            return;
        }
        match self.layers.entries.get(other).cloned() {
            Some(entry) => self.layers.entries.insert(path, entry),
            None => self.layers.entries.remove(path),
        }
    }

    /// Reads the name of an entry in another section, which must exist there.
    pub(super) fn reference(&mut self, path: &str, section: &str) -> Option<String> {
        let name = self.text(path)?;
        // The names of such sections have no dots.
        if !name.contains('.') && self.layers.sections.contains_key(&format!("{section}.{name}")) {
            return Some(name);
        }
        let names = self.names(section);
        let near = names.iter().find(|known| edit_distance(known, &name) <= 2);
        let hint = match near {
            Some(known) => format!("; did you mean {known}?"),
            None if names.is_empty() => format!("; there is no [{section}.<name>]"),
            None => {
                let listed = names.into_iter().collect::<Vec<_>>().join(", ");
                format!("; there are {}", crate::base::config::error::printable(&listed))
            }
        };
        self.problem(path, format!("does not name one of the {section}{hint}"));
        None
    }

    fn value(&mut self, path: &str) -> Option<Value> {
        if let Some(entry) = self.layers.entries.get(path) {
            return entry.value.clone();
        }
        let key = key(path)?;
        match key.unset {
            UnsetRule::Default(text) => {
                let read = || default_value(key.kind, text);
                self.defaults.entry(key.path).or_insert_with(read).clone()
            }
            UnsetRule::Absent => None,
            UnsetRule::Required => {
                self.problem(path, required(path, key.kind));
                None
            }
        }
    }
}

/// The layer in which a key was set, from the lowest priority to the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SettingLayer {
    /// The configuration file.
    File,
    /// An environment variable.
    Environment,
    /// The command line.
    Flags,
}

fn required(path: &str, kind: ValueKind) -> String {
    let name = path.rsplit('.').next().unwrap_or(path);
    match kind {
        ValueKind::Secret { .. } => {
            format!("is required; write {name} = {{ env = \"NAME\" }} or {{ file = \"path\" }}")
        }
        ValueKind::Choice(words) => format!("is required: one of {}", words.join(", ")),
        _ => "is required".to_owned(),
    }
}

fn key(path: &str) -> Option<&'static ConfigKey> {
    let path: Vec<&str> = path.split('.').collect();
    match key_lookup::find(&path) {
        KeyMatch::Key(key) => Some(key),
        KeyMatch::Section | KeyMatch::Nothing => None,
    }
}

/// Parses a default in the same way as a value of the file.
pub(super) fn default_value(kind: ValueKind, text: &str) -> Option<Value> {
    let value = toml::de::DeValue::parse(text).ok()?;
    value::from_toml(kind, value.get_ref()).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::SettingsReader;
    use crate::base::config::sources::{ConfigSources, SourceFile};

    #[test]
    fn an_unsupported_value_is_refused_and_never_mapped_to_another() {
        let file = SourceFile {
            path: "drydock.toml".into(),
            text: "[hooks.ci]\nscheme = \"generic-body\"\n".to_owned(),
        };
        let sources = ConfigSources {
            file: Some(file),
            ..ConfigSources::default()
        };
        let mut reader = SettingsReader::new(&sources);
        let known = [("github", 1), ("generic-body", 2)];
        assert_eq!(reader.choice("hooks.ci.scheme", &known), Some(2));
        assert_eq!(reader.choice("hooks.ci.scheme", &known[..1]), None);
        let error = reader.finish().map(drop).unwrap_err().to_string();
        assert!(
            error.contains("2: hooks.ci.scheme: `generic-body` is not supported yet"),
            "{error}"
        );
    }
}
