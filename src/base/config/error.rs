//! The problems of a configuration, one line each. No problem contains a value.

use std::fmt;
use std::sync::Arc;

/// `EX_CONFIG` of `sysexits.h`: the configuration is wrong, and a restart will not help.
const EXIT_CONFIG: u8 = 78;
/// The maximum number of problems that are listed.
const PROBLEMS_MAX: usize = 100;
/// The maximum number of characters of an untrusted name that are repeated in a problem.
const SHOWN_CHARS_MAX: usize = 100;

/// The problems of a configuration, one line each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    /// Returns the exit status: 78.
    pub fn exit_code(&self) -> u8 {
        EXIT_CONFIG
    }

    /// Returns the problems, in the order of the file.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    pub(super) fn one(place: SettingLocation, message: impl Into<String>) -> Self {
        let mut problems = Problems::default();
        problems.add(&place, "", message);
        Self { problems: problems.0 }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

/// A problem of the configuration. Its text is one line and contains no value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    location: SettingLocation,
    key: String,
    message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            SettingLocation::File { shown, line } => write!(f, "{}:{line}: ", printable(shown))?,
            SettingLocation::WholeFile { shown } => write!(f, "{}: ", printable(shown))?,
            SettingLocation::Variable(name) => write!(f, "{}: ", printable(name))?,
            SettingLocation::Flag => f.write_str("command line: ")?,
            SettingLocation::Nowhere => f.write_str("configuration: ")?,
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", printable(&self.key))?;
        }
        f.write_str(&self.message)
    }
}

/// The place in which a value was set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SettingLocation {
    /// A line of the file.
    File { shown: Arc<str>, line: usize },
    /// The file as a whole.
    WholeFile { shown: String },
    /// An environment variable, by name.
    Variable(String),
    /// The command line.
    Flag,
    /// The value was not set.
    Nowhere,
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    /// Removes the problems of keys that are not set. Used if the file could not be parsed, because it may set them.
    pub(super) fn forget_what_is_not_set(&mut self) {
        self.0
            .retain(|problem| problem.location != SettingLocation::Nowhere);
    }

    pub(super) fn add(&mut self, place: &SettingLocation, key: &str, message: impl Into<String>) {
        let problem = Problem {
            location: place.clone(),
            key: key.to_owned(),
            message: message.into(),
        };
        if !self.is_full() && !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// Returns true if no more problems will be listed.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= PROBLEMS_MAX
    }

    /// Returns an error with every problem, if there is any.
    pub(super) fn finish(mut self) -> Result<(), ConfigError> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.sort_by(|left, right| left.location.cmp(&right.location));
        Err(ConfigError { problems: self.0 })
    }
}

/// Returns any text as one line of bounded length.
pub(super) fn printable(text: &str) -> String {
    let shown = text.chars().take(SHOWN_CHARS_MAX);
    shown.map(|c| if c.is_control() { '?' } else { c }).collect()
}
