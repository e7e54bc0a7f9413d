//! The words of `run` and `runs`.

use crate::base::model::RunId;

pub(in crate::engine::gateway) const RUN_USAGE: &str =
    "Write `!run NAME`, with `name=value` or `name=\"a longer value\"` for each parameter.";
pub(in crate::engine::gateway) const RUNS_USAGE: &str = "Write `!runs`, or `!runs` with `show`, `cancel` or `retry` and the number of a run, such as `!runs show 12`, or `!runs answer 12` with a choice.";

/// A request to start a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::gateway) struct RunRequest {
    /// The name of the pipeline.
    pub(in crate::engine::gateway) name: String,
    /// The parameters with their texts, in order.
    pub(in crate::engine::gateway) params: Vec<(String, String)>,
}

/// A request about the runs that exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::gateway) enum RunsRequest {
    /// Lists them.
    List,
    /// Is about one of them.
    About(RunVerb, RunId),
    /// Answers a question of one of them, with these words.
    Answer(RunId, String),
}

/// A request about one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::gateway) enum RunVerb {
    Show,
    Cancel,
    Retry,
}

/// Parses the words after `run`, without the name of the repository. An error is a text for the person.
pub(in crate::engine::gateway) fn parse_run(text: &str) -> Result<RunRequest, String> {
    let text = text.trim();
    let (name, mut rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let name = name.trim_matches(['`', '"']);
    if name.is_empty() || name.contains('=') {
        return Err(RUN_USAGE.to_owned());
    }
    let mut params = Vec::new();
    while !rest.trim_start().is_empty() {
        let (param, after) = parameter(rest.trim_start()).ok_or(RUN_USAGE)?;
        if params.iter().any(|(known, _)| *known == param.0) {
            return Err(format!("The parameter `{}` is given twice. {RUN_USAGE}", param.0));
        }
        params.push(param);
        rest = after;
    }
    Ok(RunRequest {
        name: name.to_owned(),
        params,
    })
}

/// Returns the parameter at the beginning, and the rest. A value with spaces has quotation marks, which a phone may have
/// made typographic.
fn parameter(text: &str) -> Option<((String, String), &str)> {
    let is_mark = |char: char| matches!(char, '"' | '“' | '”' | '„');
    let (name, rest) = text.split_once('=')?;
    let fits = |char: char| char.is_ascii_alphanumeric() || char == '_';
    if name.is_empty() || !name.chars().all(fits) {
        return None;
    }
    let (value, rest) = match rest.strip_prefix(is_mark) {
        Some(quoted) => {
            let (value, rest) = quoted.split_once(is_mark)?;
            // A value ends with its mark.
            if !(rest.is_empty() || rest.starts_with(char::is_whitespace)) {
                return None;
            }
            (value, rest)
        }
        None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
    };
    Some(((name.to_owned(), value.to_owned()), rest))
}

/// Parses the words after `runs`. An error is a text for the person.
pub(in crate::engine::gateway) fn parse_runs(text: &str) -> Result<RunsRequest, String> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let verb = match word.to_ascii_lowercase().as_str() {
        "answer" => return parse_answer(rest),
        "" | "list" if rest.is_empty() => return Ok(RunsRequest::List),
        "show" => RunVerb::Show,
        "cancel" => RunVerb::Cancel,
        "retry" => RunVerb::Retry,
        _ => return Err(RUNS_USAGE.to_owned()),
    };
    match run_number(rest.trim()) {
        Some(id) => Ok(RunsRequest::About(verb, id)),
        None => Err(RUNS_USAGE.to_owned()),
    }
}

/// Parses the number of a run and a choice, which may be in quotation marks.
fn parse_answer(text: &str) -> Result<RunsRequest, String> {
    let (number, words) = text.trim().split_once(char::is_whitespace).ok_or(RUNS_USAGE)?;
    let words = words.trim().trim_matches(['`', '"', '“', '”', '„']);
    match run_number(number) {
        Some(id) if !words.is_empty() => Ok(RunsRequest::Answer(id, words.to_owned())),
        _ => Err(RUNS_USAGE.to_owned()),
    }
}

fn run_number(text: &str) -> Option<RunId> {
    let number = text.trim_matches('`').trim_start_matches('#');
    number.parse::<i64>().ok().filter(|number| *number > 0).map(RunId)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{RUN_USAGE, RUNS_USAGE, RunVerb, RunsRequest, parse_run, parse_runs};
    use crate::base::model::RunId;

    #[test]
    fn the_words_of_a_run_are_its_name_and_its_parameters() {
        let params = |text| parse_run(text).unwrap().params;
        assert_eq!(parse_run(" `review` ").unwrap().name, "review");
        for (text, expected) in [
            ("review", vec![]),
            ("review number=7", vec![("number", "7")]),
            (
                "review number=7  title=“two words”",
                vec![("number", "7"), ("title", "two words")],
            ),
            (
                "review url=https://example.com/?a=b",
                vec![("url", "https://example.com/?a=b")],
            ),
            (
                "review title=\"\" draft=true",
                vec![("title", ""), ("draft", "true")],
            ),
        ] {
            let found = params(text);
            let found: Vec<_> = found
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            assert_eq!(found, expected, "{text}");
        }
        for wrong in [
            "",
            "number=7",
            "review 7",
            "review =7",
            "review a-b=7",
            "review title=\"two words",
            "review title=\"two\"words",
            "review a=1 words",
        ] {
            assert_eq!(parse_run(wrong), Err(RUN_USAGE.to_owned()), "{wrong}");
        }
        let twice = parse_run("review a=1 a=2").unwrap_err();
        assert!(twice.starts_with("The parameter `a` is given twice."), "{twice}");
    }

    #[test]
    fn the_words_about_runs_name_one_by_its_number() {
        for (text, expected) in [
            ("", RunsRequest::List),
            (" list ", RunsRequest::List),
            ("show 12", RunsRequest::About(RunVerb::Show, RunId(12))),
            ("Cancel #3", RunsRequest::About(RunVerb::Cancel, RunId(3))),
            ("retry `4`", RunsRequest::About(RunVerb::Retry, RunId(4))),
            (
                "answer 12  not yet ",
                RunsRequest::Answer(RunId(12), "not yet".to_owned()),
            ),
            (
                "answer #12 “yes”",
                RunsRequest::Answer(RunId(12), "yes".to_owned()),
            ),
        ] {
            assert_eq!(parse_runs(text), Ok(expected), "{text}");
        }
        for wrong in [
            "list all",
            "show",
            "show review",
            "show 0",
            "show -1",
            "stop 3",
            "answer",
            "answer 12",
            "answer yes 12",
            "7",
        ] {
            assert_eq!(parse_runs(wrong), Err(RUNS_USAGE.to_owned()), "{wrong}");
        }
    }
}
