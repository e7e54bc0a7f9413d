//! Combines file, environment and flags into one flat list of typed values; later layers override earlier ones. All
//! checks that need only the table of keys are made here.

use crate::base::config::entries::{Entries, Entry};
use crate::base::config::error::{Problems, SettingLocation};
use crate::base::config::key_lookup::{self, KeyMatch};
use crate::base::config::keys::{ConfigKey, ValueKind};
use crate::base::config::sources::{ConfigSources, SourceFile};
use crate::base::config::value::{self, SecretSource, Value};
use crate::base::config::variables::{self, NAMED_SECTIONS, VariableMeaning, variable_of_path};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// All keys that were set, by dotted path, and the sections that exist.
#[derive(Default)]
pub(super) struct Layers {
    pub(super) entries: Entries,
    pub(super) sections: BTreeMap<String, SettingLocation>,
    /// True if the file is not TOML, so the keys that it sets are unknown.
    pub(super) is_file_unread: bool,
}

impl Layers {
    /// Reads all layers, from the lowest priority to the highest.
    pub(super) fn read(sources: &ConfigSources, problems: &mut Problems) -> Self {
        let mut layers = Self::default();
        if let Some(file) = &sources.file {
            layers.read_file(file, problems);
        }
        layers.read_environment(&sources.environment, problems);
        layers.read_flags(&sources.flags, problems);
        layers
    }

    fn read_file(&mut self, file: &SourceFile, problems: &mut Problems) {
        let lines = Lines::new(file);
        let (document, errors) = DeTable::parse_recoverable(&file.text);
        for error in &errors {
            let message = error.message().replace('\n', " ");
            let start = error.span().map_or(0, |span| span.start);
            problems.add(&lines.location(start), "", format!("this is not TOML: {message}"));
        }
        // Values that were recovered after a syntax error would only cause misleading problems.
        self.is_file_unread = !errors.is_empty();
        if errors.is_empty() {
            self.read_table(document.get_ref(), &mut Vec::new(), &lines, problems);
        }
    }

    /// Reads a table of the file. `path` are the names of the table, which is noted as a section.
    fn read_table<'a>(
        &mut self,
        table: &'a DeTable<'_>,
        path: &mut Vec<&'a str>,
        lines: &Lines,
        problems: &mut Problems,
    ) {
        let mut keys = Vec::new();
        for (name, value) in table {
            if problems.is_full() {
                break;
            }
            path.push(name.get_ref());
            let place = lines.location(name.span().start);
            match (key_lookup::find(path), value.get_ref()) {
                (KeyMatch::Key(key), value) => {
                    let value = value::from_toml(key.kind, value);
                    let entry = entry(key, path, (value, place), problems);
                    keys.push((name.get_ref().to_string(), entry));
                }
                // Recursion is bounded by the table of keys: no path is longer than four names.
                (KeyMatch::Section, DeValue::Table(table)) => {
                    self.note_section(path, &place, problems);
                    self.read_table(table, path, lines, problems);
                }
                (KeyMatch::Section, _) => problems.add(&place, &path.join("."), "expected a table"),
                (KeyMatch::Nothing, _) => {
                    let names = owned(path);
                    problems.add(&place, &path.join("."), unknown(&names, &|path| path.join(".")))
                }
            }
            path.pop();
        }
        self.entries.insert_section(path.join("."), keys);
    }

    fn read_environment(&mut self, environment: &BTreeMap<String, String>, problems: &mut Problems) {
        for (name, text) in environment {
            let place = SettingLocation::Variable(name.clone());
            let path = match variables::classify_variable(name) {
                VariableMeaning::Key(path) => path,
                VariableMeaning::Misspelt(meant) => {
                    problems.add(&place, "", format!("unknown key; did you mean {meant}?"));
                    continue;
                }
                VariableMeaning::Unrelated | VariableMeaning::Unknown => continue,
            };
            if path.first().is_some_and(|section| section == "models") {
                // The names of models have characters that no variable has.
                let why = "[models] cannot be set by variables; write it into the configuration file";
                problems.add(&place, "", why);
                continue;
            }
            match find_text(&path) {
                Some((key, path, KeyPart::Whole)) => {
                    let value = value::from_text(key.kind, text);
                    self.set_with_sections(key, &path, value, place, problems);
                }
                Some((key, path, part)) => {
                    self.set_with_sections(key, &path, Ok(part.reference(text)), place, problems)
                }
                None => problems.add(&place, "", unknown(&path, &|path| variable_of_path(path))),
            }
        }
    }

    fn read_flags(&mut self, flags: &[(String, String)], problems: &mut Problems) {
        for (name, text) in flags {
            let path = names_of(name);
            match find_text(&path) {
                Some((
                    ConfigKey {
                        kind: ValueKind::Secret { .. },
                        ..
                    },
                    path,
                    KeyPart::Whole,
                )) => {
                    let variable = variable_of_path(&path);
                    let why =
                        format!("every user of this machine can read a command line; set {variable} instead");
                    problems.add(&SettingLocation::Flag, name, why);
                }
                Some((key, path, KeyPart::Whole)) => {
                    let value = value::from_text(key.kind, text);
                    self.set_with_sections(key, &path, value, SettingLocation::Flag, problems);
                }
                Some((key, path, part)) => {
                    let value = Ok(part.reference(text));
                    self.set_with_sections(key, &path, value, SettingLocation::Flag, problems);
                }
                None => problems.add(
                    &SettingLocation::Flag,
                    name,
                    unknown(&path, &|path| path.join(".")),
                ),
            }
        }
    }

    /// Sets a key, and notes its sections.
    fn set_with_sections(
        &mut self,
        key: &ConfigKey,
        path: &[String],
        value: Result<Value, String>,
        place: SettingLocation,
        problems: &mut Problems,
    ) {
        let path: &[&str] = &path.iter().map(String::as_str).collect::<Vec<_>>();
        for length in 1..path.len() {
            self.note_section(path.get(..length).unwrap_or_default(), &place, problems);
        }
        let entry = entry(key, path, (value, place), problems);
        self.entries.insert(&path.join("."), entry);
    }

    fn note_section(&mut self, path: &[&str], place: &SettingLocation, problems: &mut Problems) {
        let name = path.join(".");
        if self.sections.contains_key(&name) {
            return;
        }
        if let [first, second] = path
            && NAMED_SECTIONS.contains(first)
            && !is_name(second)
        {
            problems.add(place, &name, "a name is 1 to 32 of a-z, 0-9 and -");
        }
        self.sections.insert(name, place.clone());
    }
}

/// Returns the entry of a key, whose value is missing if it was refused.
fn entry(
    key: &ConfigKey,
    path: &[&str],
    (value, location): (Result<Value, String>, SettingLocation),
    problems: &mut Problems,
) -> Entry {
    debug_assert_eq!(key.path.split('.').count(), path.len());
    if let [.., section, name] = path
        && let Some(what) = owner_of_name(section)
        && !is_field_name(name)
    {
        let why = format!("{what} name is 1 to 64 of a-z, A-Z, 0-9, _ and -");
        problems.add(&location, &path.join("."), why);
    }
    let value = value
        .map_err(|why| problems.add(&location, &path.join("."), why))
        .ok();
    Entry { value, location }
}

/// The start of each line of the file, used to convert offsets to lines.
struct Lines {
    shown: Arc<str>,
    starts: Vec<usize>,
}

impl Lines {
    fn new(file: &SourceFile) -> Self {
        let breaks = file.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self {
            shown: file.path.display().to_string().into(),
            starts: std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect(),
        }
    }

    fn location(&self, offset: usize) -> SettingLocation {
        SettingLocation::File {
            shown: Arc::clone(&self.shown),
            line: self.starts.partition_point(|start| *start <= offset),
        }
    }
}

/// Returns the names of a dotted key. A name in quotes may have dots, as in a file: `models."house/qwen3.5".price_input`.
fn names_of(key: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut quote = None;
    for character in key.chars() {
        match (quote, character) {
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '.') => names.push(String::new()),
            (_, character) => {
                if let Some(name) = names.last_mut() {
                    name.push(character);
                }
            }
        }
    }
    names
}

/// The part of a key that a variable or flag sets: the whole value, or a reference to its secret.
#[derive(Clone, Copy)]
enum KeyPart {
    Whole,
    Variable,
    File,
}

impl KeyPart {
    fn reference(self, text: &str) -> Value {
        Value::Secret(match self {
            Self::Variable => SecretSource::Variable(text.to_owned()),
            Self::File | Self::Whole => SecretSource::File(PathBuf::from(text)),
        })
    }
}

/// Returns the key of a variable or flag. `<secret>.env` and `<secret>.file` refer to a secret.
fn find_text(path: &[String]) -> Option<(&'static ConfigKey, Vec<String>, KeyPart)> {
    if let KeyMatch::Key(key) = key_lookup::find(path) {
        return Some((key, path.to_vec(), KeyPart::Whole));
    }
    let (last, above) = path.split_last()?;
    let part = match last.as_str() {
        "env" => KeyPart::Variable,
        "file" => KeyPart::File,
        _ => return None,
    };
    match key_lookup::find(above) {
        KeyMatch::Key(key) if matches!(key.kind, ValueKind::Secret { .. }) => {
            Some((key, above.to_vec(), part))
        }
        KeyMatch::Key(_) | KeyMatch::Section | KeyMatch::Nothing => None,
    }
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|name| (*name).to_owned()).collect()
}

fn unknown(path: &[String], written: &dyn Fn(&[String]) -> String) -> String {
    let split = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
    if let Some(key) = key_lookup::first_in(path) {
        return format!(
            "is a section, not a key; set one of its keys, such as {}",
            written(&split(&key))
        );
    }
    let Some(known) = key_lookup::nearest(path) else {
        return "unknown key; `config/drydock.toml` lists all keys".to_owned();
    };
    let known = split(&known);
    format!(
        "unknown key; did you mean {}?",
        crate::base::config::error::printable(&written(&known))
    )
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=32).contains(&text.len()) && text.chars().all(fits)
}

/// Returns the owner of the names of the keys in a section, if the operator chooses these names.
fn owner_of_name(section: &str) -> Option<&'static str> {
    match section {
        "fields" => Some("a field's"),
        "programs" => Some("a program's"),
        _ => None,
    }
}

fn is_field_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=64).contains(&text.len()) && text.chars().all(fits)
}
