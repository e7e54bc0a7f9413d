//! Finds the environment that a person means: by a path, a name, or the last components of a name.

use super::InspectError;
use crate::base::model::{self, cut_after, edit_distance, is_invisible};
use crate::rendering::tanka::{EnvironmentList, Renderer, TankaError, Target};
use std::collections::BTreeSet;
use tokio_util::sync::CancellationToken;

/// Maximum number of suggestions for an unknown name.
const NEAREST_MAX: usize = 3;
/// Maximum number of names listed for an ambiguous name.
const NAMES_MAX: usize = 10;
/// Maximum number of characters of the given text that are repeated.
const GIVEN_CHARS_MAX: usize = 80;

/// Message for a path that does not exist.
const NO_PATH: &str = " That path is not in the repository: what git ignores is not part of it.";

/// A candidate: its name and its entry point. An entry point that could not be loaded has the name of its
/// directory.
type Candidate<'a> = (&'a str, &'a str);

/// Returns the environment for a text. A path has priority over a name, and a name over the last components of one.
pub(super) async fn choose_environment(
    renderer: &Renderer,
    given: &str,
    cancel: &CancellationToken,
) -> Result<Target, InspectError> {
    let given = strip_code_marks(given);
    let note = match renderer.find_entrypoint(given).await {
        Ok(Some(_)) => return Ok(Target::from_path(given)),
        // The text may still be a name.
        Ok(None) if given.contains('/') => NO_PATH,
        Ok(None) | Err(TankaError::NoBase { .. } | TankaError::Path(_)) => "",
        Err(error) => return Err(error.into()),
    };
    let list = renderer.list(".", cancel).await?;
    choose_candidate(&candidates(&list), given).map_err(|error| match error {
        ChoiceError::Unknown(words) => InspectError::NoAnswer(format!("{words}{note}")),
        ChoiceError::Several(words) => InspectError::NoAnswer(words),
    })
}

/// The reason why no environment was chosen, phrased for the person.
enum ChoiceError {
    /// No environment matches.
    Unknown(String),
    /// Several environments match.
    Several(String),
}

/// Removes code marks around the text.
pub(super) fn strip_code_marks(given: &str) -> &str {
    given.trim().trim_matches('`').trim()
}

fn choose_candidate(candidates: &BTreeSet<Candidate<'_>>, given: &str) -> Result<Target, ChoiceError> {
    let is_end = |whole: &str| {
        let rest = whole.strip_suffix(given);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    let named = |(name, _): &Candidate<'_>| *name == given;
    let ends = |(name, entrypoint): &Candidate<'_>| is_end(name) || is_end(directory(entrypoint));
    let mut meant: Vec<Candidate<'_>> = candidates.iter().copied().filter(named).collect();
    if meant.is_empty() {
        meant = candidates.iter().copied().filter(ends).collect();
    }
    match meant.as_slice() {
        [] => Err(ChoiceError::Unknown(unknown(given, candidates))),
        [(name, entrypoint)] => Ok(Target {
            name: Some((*name).to_owned()),
            ..Target::from_path(*entrypoint)
        }),
        several => Err(ChoiceError::Several(ambiguous(given, several))),
    }
}

fn candidates(list: &EnvironmentList) -> BTreeSet<Candidate<'_>> {
    let found = list.environments.iter().map(|found| {
        (
            found.environment.metadata.name.as_str(),
            found.entrypoint.as_str(),
        )
    });
    let failed = list.failures.iter().map(|failure| {
        let entrypoint = failure.entrypoint.as_str();
        (directory(entrypoint), entrypoint)
    });
    found.chain(failed).collect()
}

fn directory(entrypoint: &str) -> &str {
    entrypoint
        .rsplit_once('/')
        .map_or(".", |(directory, _)| directory)
}

fn ambiguous(given: &str, several: &[Candidate<'_>]) -> String {
    let given = cut(given);
    let names: BTreeSet<&str> = several.iter().map(|(name, _)| *name).collect();
    // If names are equal, the entry points are listed instead.
    let ways: BTreeSet<&str> = match names.len() == several.len() {
        true => names,
        false => several.iter().map(|(_, entrypoint)| *entrypoint).collect(),
    };
    format!("`{given}` can be {}. Name one of them.", quoted(&ways))
}

/// Formats the answer for a name that matches no environment: similar names, or else some of all names.
fn unknown(given: &str, candidates: &BTreeSet<Candidate<'_>>) -> String {
    let names: BTreeSet<&str> = candidates.iter().map(|(name, _)| *name).collect();
    let short = cut(given);
    if names.is_empty() {
        return format!("There is no environment `{short}`, nor any other in this repository.");
    }
    let nearest = nearest(&short, &names);
    match nearest.is_empty() {
        false => format!(
            "There is no environment `{short}`. The nearest: {}.",
            quoted(&nearest)
        ),
        true => format!("There is no environment `{short}`. There are {}.", quoted(&names)),
    }
}

/// Returns the names within a small edit distance of the whole name or of its last component, and names that
/// contain the text.
fn nearest<'a>(given: &str, names: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let last = |name: &'a str| name.rsplit('/').next().unwrap_or(name);
    let given_last = given.rsplit('/').next().unwrap_or(given).to_lowercase();
    let wanted = given.to_lowercase();
    let far = |name: &'a str| {
        let whole = edit_distance(&wanted, &name.to_lowercase());
        let end = edit_distance(&given_last, &last(name).to_lowercase());
        whole.min(end)
    };
    let mut ranked: Vec<(usize, &str)> = names.iter().map(|name| (far(name), *name)).collect();
    let close = |far: usize| far * 3 <= given_last.chars().count().max(3);
    let contains = |name: &str| wanted.chars().count() >= 3 && name.to_lowercase().contains(&wanted);
    ranked.retain(|(far, name)| close(*far) || contains(name));
    ranked.sort_unstable();
    ranked
        .into_iter()
        .take(NEAREST_MAX)
        .map(|(_, name)| name)
        .collect()
}

fn quoted(names: &BTreeSet<&str>) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(NAMES_MAX)
        .map(|name| model::quoted(name))
        .collect();
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn cut(given: &str) -> String {
    let is_plain = |character: &char| *character != '`' && !is_invisible(*character);
    let line: String = given.chars().filter(is_plain).collect();
    cut_after(&line, GIVEN_CHARS_MAX).into_owned()
}

#[cfg(test)]
mod tests {
    use super::choose_candidate;
    use std::collections::BTreeSet;

    #[test]
    fn a_whole_name_counts_more_than_the_end_of_another() {
        let candidates = BTreeSet::from([
            ("environments/dev", "environments/dev/main.jsonnet"),
            ("dev", "inline/main.jsonnet"),
            ("web/eu", "inline/main.jsonnet"),
        ]);
        for (given, name, path) in [
            ("dev", "dev", "inline/main.jsonnet"),
            ("web/eu", "web/eu", "inline/main.jsonnet"),
            ("eu", "web/eu", "inline/main.jsonnet"),
        ] {
            let meant = choose_candidate(&candidates, given).ok();
            let meant = meant.map(|target| (target.name.unwrap_or_default(), target.path));
            assert_eq!(meant, Some((name.to_owned(), path.to_owned())), "{given}");
        }
    }
}
