//! The problems of a file of pipelines: file, line, key and what to write instead. Texts of the file are repeated only
//! as names, printable and short.

use std::fmt;

/// The maximum number of problems that are listed.
const PROBLEMS_MAX: usize = 100;
/// The maximum number of characters of an untrusted name in a problem.
const SHOWN_CHARS_MAX: usize = 64;

/// A problem of a file of pipelines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefinitionProblem {
    /// The line, from 1; `None` for the value of a program, which has no lines.
    pub line: Option<u32>,
    /// The path of the key, such as `pipelines.review.steps[0].agent.model`; empty for the whole file.
    pub key: String,
    /// The problem, and what to do next.
    pub message: String,
}

/// All problems of a file of pipelines, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DefinitionError {
    /// The path of the file.
    pub file: String,
    /// The problems; at least one.
    pub problems: Vec<DefinitionProblem>,
}

impl DefinitionError {
    /// Creates the error of a whole file.
    pub(super) fn whole_file(file: &str, message: impl Into<String>) -> Self {
        let problem = DefinitionProblem {
            line: None,
            key: String::new(),
            message: message.into(),
        };
        Self {
            file: file.to_owned(),
            problems: vec![problem],
        }
    }
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.file)?;
            if let Some(line) = problem.line {
                write!(f, ":{line}")?;
            }
            if !problem.key.is_empty() {
                write!(f, ":{}", problem.key)?;
            }
            write!(f, ": {}", problem.message)?;
        }
        Ok(())
    }
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(super) struct FoundProblems(Vec<DefinitionProblem>);

impl FoundProblems {
    pub(super) fn add(&mut self, line: Option<u32>, key: &str, message: impl Into<String>) {
        if !self.is_full() {
            self.0.push(DefinitionProblem {
                line,
                key: key.to_owned(),
                message: message.into(),
            });
        }
    }

    /// Returns true if no more problems will be listed.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= PROBLEMS_MAX
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an error with every problem, if there is any.
    pub(super) fn finish(mut self, file: &str) -> Result<(), DefinitionError> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.sort();
        self.0.dedup();
        Err(DefinitionError {
            file: file.to_owned(),
            problems: self.0,
        })
    }
}

/// Returns an untrusted name as a part of one line.
pub(super) fn shown_name(name: &str) -> String {
    let mut shown: String = name
        .chars()
        .take(SHOWN_CHARS_MAX)
        .map(|next| if next.is_control() { '?' } else { next })
        .collect();
    if name.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns the known name that a misspelt one probably means: at most a third of its characters differ.
pub(super) fn similar_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    use crate::base::model::edit_distance_within;
    let candidates = known.into_iter().filter_map(|candidate| {
        let longer = name.chars().count().max(candidate.chars().count());
        Some((edit_distance_within(name, candidate, longer / 3)?, candidate))
    });
    candidates.min().map(|(_, candidate)| candidate)
}

/// Returns `; did you mean NAME?`, or the known names if there are few.
pub(super) fn name_hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    const LISTED_MAX: usize = 12;
    if let Some(near) = similar_name(name, known.clone()) {
        return format!("; did you mean {}?", shown_name(near));
    }
    let mut names: Vec<String> = known.into_iter().map(shown_name).take(LISTED_MAX + 1).collect();
    match names.len() {
        0 => String::new(),
        count if count > LISTED_MAX => {
            names.truncate(LISTED_MAX);
            format!("; there are {} and others", names.join(", "))
        }
        _ => format!("; there are {}", names.join(", ")),
    }
}
