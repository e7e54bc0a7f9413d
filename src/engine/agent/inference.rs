//! The verdict in the words of a model that did not conclude. It is a guess, so it is always labelled as inferred.

use crate::base::model::Verdict;

/// The number of words before a word within which a negation belongs to it.
const NEGATION_WORDS: usize = 5;

/// The beginnings of words that report a failure.
const FAILURES: [&str; 20] = [
    "fail",
    "error",
    "bug",
    "broke",
    "break",
    "crash",
    "regress",
    "incorrect",
    "wrong",
    "invalid",
    "violat",
    "vulnerab",
    "defect",
    "problem",
    "issue",
    "reject",
    "unsafe",
    "panic",
    "mistake",
    "unsuccessful",
];
/// The beginnings of words that report a success; denied, they report a failure.
const SUCCESSES: [&str; 10] = [
    "pass", "succe", "work", "correct", "valid", "complete", "safe", "green", "compile", "fine",
];
/// Words that deny what follows.
const NEGATIONS: [&str; 13] = [
    "no", "not", "none", "never", "without", "zero", "0", "cannot", "neither", "nor", "free", "unable",
    "nothing",
];
/// The beginnings of words after which an earlier failure is one no more.
const REMEDIES: [&str; 8] = [
    "fixed",
    "resolved",
    "corrected",
    "repaired",
    "solved",
    "gone",
    "addressed",
    "fixes",
];
/// Words after a failure that make it a subject: `error handling`.
const SUBJECTS: [&str; 12] = [
    "handling", "handler", "handlers", "message", "messages", "code", "codes", "budget", "rate", "page",
    "pages", "tracker",
];
/// The beginnings of words that begin another statement within a sentence.
const TURNS: [&str; 6] = ["but", "however", "although", "though", "yet", "except"];

/// Infers a verdict from the text of a model: fail if it is empty or reports a failure, otherwise pass.
pub(super) fn inferred_verdict(text: &str) -> Verdict {
    let has_words = text.chars().any(char::is_alphanumeric);
    let marks = text.contains(['❌', '✗', '✘']);
    match has_words && !marks && !statements(text).iter().any(|words| reports_failure(words)) {
        true => Verdict::Pass,
        false => Verdict::Fail,
    }
}

/// Splits a text into statements of lower-case words. `don't` becomes `don` and `not`.
fn statements(text: &str) -> Vec<Vec<String>> {
    let text = text.to_lowercase().replace('’', "'").replace("n't", " not");
    let is_end = |(index, character): (usize, char)| match character {
        // A point within a number or a name, such as `main.jsonnet`, ends nothing.
        '.' => !text
            .get(index + 1..)
            .is_some_and(|rest| rest.starts_with(char::is_alphanumeric)),
        ';' | '!' | '?' | '\n' => true,
        _ => false,
    };
    let ends = text
        .char_indices()
        .filter(|place| is_end(*place))
        .map(|(index, _)| index);
    let mut statements = Vec::new();
    let mut start = 0;
    for end in ends.chain([text.len()]) {
        let words = text.get(start..end).unwrap_or_default();
        let words = words
            .split(|character: char| !character.is_alphanumeric())
            .filter(|word| !word.is_empty());
        let mut statement = Vec::new();
        for word in words {
            if TURNS.contains(&word) {
                statements.push(std::mem::take(&mut statement));
            } else {
                statement.push(word.to_owned());
            }
        }
        statements.push(statement);
        start = end;
    }
    statements
}

fn reports_failure(words: &[String]) -> bool {
    let is_remedied = words.iter().any(|word| begins(word, &REMEDIES));
    // The end of the last failure word, and whether it was denied: `no errors or failures` denies both.
    let (mut from, mut was_denied) = (0, false);
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).map_or("", String::as_str);
        let before = words
            .get(from.max(index.saturating_sub(NEGATION_WORDS))..index)
            .unwrap_or_default();
        let negations = before
            .iter()
            .filter(|word| NEGATIONS.contains(&word.as_str()))
            .count();
        if begins(word, &FAILURES) {
            let is_joined = before
                .iter()
                .all(|word| matches!(word.as_str(), "or" | "and" | "nor"));
            // Two negations cancel each other.
            let is_denied = negations % 2 == 1 || was_denied && is_joined;
            let is_harmless = matches!(next, "0" | "none" | "free") || SUBJECTS.contains(&next);
            if !is_denied && !is_harmless && !is_remedied {
                return true;
            }
            (from, was_denied) = (index + 1, is_denied);
        } else if begins(word, &SUCCESSES) {
            let is_denied = before
                .iter()
                .any(|word| matches!(word.as_str(), "not" | "cannot" | "never"));
            let is_name = matches!(next, "directory" | "tree" | "space");
            if is_denied && negations % 2 == 1 && !is_name {
                return true;
            }
        }
    }
    false
}

fn begins(word: &str, stems: &[&str]) -> bool {
    stems.iter().any(|stem| word.starts_with(stem))
}

#[cfg(test)]
mod tests {
    use super::inferred_verdict;
    use crate::base::model::Verdict;

    /// CI-7, CI-28
    #[test]
    fn a_verdict_is_inferred_from_words_with_regard_to_negation() {
        for text in [
            "0 errors found",
            "No errors.",
            "no error",
            "Done without failures.",
            "All tests passed.",
            "I found no bugs in the change.",
            "There are zero failures and no regressions.",
            "I could not find any problem.",
            "Errors: 0, failures: none.",
            "The diff is error-free.",
            "It didn't fail.",
            "Nothing fails: there's no failing test.",
            "I fixed the bug that broke staging.",
            "The error is resolved.",
            "The error handling looks good.",
            "The change sets four replicas in environments/dev/main.jsonnet.",
            "No tests failed.",
            "There were no errors or failures.",
            "no bugs, errors, or regressions",
        ] {
            assert_eq!(inferred_verdict(text), Verdict::Pass, "{text}");
        }
        for text in [
            "",
            " \n",
            "...",
            "3 errors found",
            "The build failed.",
            "I found a bug: the port is wrong.",
            "No errors in dev, but prod fails.",
            "Not all tests passed.",
            "It does not work.",
            "The tests don’t pass.",
            "It is not without errors.",
            "I did not run the tests of staging because its build failed.",
            "dev is fine. Staging has an error.",
            "Result: FAIL",
            "❌ staging",
        ] {
            assert_eq!(inferred_verdict(text), Verdict::Fail, "{text}");
        }
    }
}
