//! Shorthands: words that stand for standard requests. The texts are embedded from `config/prompts`.

const DEBUG: &str = include_str!("../../../config/prompts/debug.md");
const REVIEW: &str = include_str!("../../../config/prompts/review.md");
const ANALYZE: &str = include_str!("../../../config/prompts/analyze.md");

/// A word that stands for a standard request, which ends with a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shorthand {
    /// Finds the cause of a failure.
    Debug,
    /// Reviews a change.
    Review,
    /// Analyses the repository.
    Analyze,
}

impl Shorthand {
    /// All shorthands.
    pub const ALL: [Self; 3] = [Self::Debug, Self::Review, Self::Analyze];

    /// Returns the word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Review => "review",
            Self::Analyze => "analyze",
        }
    }

    /// Returns the request that it stands for.
    pub fn text(self) -> &'static str {
        match self {
            Self::Debug => DEBUG,
            Self::Review => REVIEW,
            Self::Analyze => ANALYZE,
        }
        .trim_end()
    }

    /// Returns the shorthand that a prompt is; a prompt of any other words is none.
    pub fn of_prompt(prompt: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shorthand| shorthand.word() == prompt)
    }
}

#[cfg(test)]
mod tests {
    use super::Shorthand;

    /// CI-3, CI-28
    #[test]
    fn three_words_stand_for_standard_requests_and_any_other_text_for_itself() {
        for shorthand in Shorthand::ALL {
            assert_eq!(Shorthand::of_prompt(shorthand.word()), Some(shorthand));
            let text = shorthand.text();
            assert!(
                text.contains("Do not change any file.") && text.contains("Conclude with `"),
                "{text}"
            );
        }
        for other in ["", "Review", "review the change", "debugging"] {
            assert_eq!(Shorthand::of_prompt(other), None, "{other}");
        }
    }
}
