//! Commands: words that are answered without a model. This file knows which there are, how people
//! write them on each surface, and what `/help` says. The gateway carries them out.

/// What a person can ask for without spending a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// What can I do here?
    Help,
    /// What runs, what waits, what is prepared?
    Status,
    /// Shows the prepared change.
    Diff,
    /// Sends the prepared change as a patch file.
    Patch,
    /// Takes back the last turn's edits.
    Undo,
    /// Throws the prepared change away.
    Discard,
    /// Starts a fresh history; the workspace stays.
    Clear,
    /// What the model sees of this conversation.
    Context,
    /// Tokens used.
    Usage,
    /// Stops the running turn.
    Stop,
}

/// Every command with what `/help` says about it.
pub const ALL: [(Verb, &str, &str); 10] = [
    (Verb::Help, "help", "what I can do here"),
    (Verb::Status, "status", "what is running, waiting and prepared"),
    (Verb::Diff, "diff", "show the prepared change"),
    (Verb::Patch, "patch", "send the prepared change as a patch file"),
    (Verb::Undo, "undo", "take back the edits of the last turn"),
    (Verb::Discard, "discard", "throw the prepared change away"),
    (
        Verb::Clear,
        "clear",
        "start a fresh history; the prepared change stays",
    ),
    (
        Verb::Context,
        "context",
        "what the model sees of this conversation",
    ),
    (Verb::Usage, "usage", "the tokens you used"),
    (Verb::Stop, "stop", "stop what is running"),
];

impl Verb {
    /// The word people type.
    pub fn word(self) -> &'static str {
        ALL.iter()
            .find(|(verb, ..)| *verb == self)
            .map_or("", |(_, word, _)| word)
    }

    /// Finds a command by its word.
    pub fn parse(word: &str) -> Option<Self> {
        let word = word.to_lowercase();
        ALL.iter()
            .find(|(_, known, _)| *known == word)
            .map(|(verb, ..)| *verb)
    }
}

/// Finds a command in a typed message: `/verb` or `!verb` first, or the message is exactly one of
/// the words (`@drydock status`, which arrives without its mention). A slash or exclamation mark
/// before any other word is no command of ours, so that paths and emphasis reach the model.
pub fn in_text(text: &str) -> Option<Verb> {
    let text = text.trim();
    let marked = text.strip_prefix(['/', '!']);
    match marked {
        Some(rest) => Verb::parse(rest.split_whitespace().next()?),
        None => Verb::parse(text),
    }
}

/// The answer to a command that does not exist.
pub fn unknown(word: &str) -> String {
    unknown_among(word, &ALL.map(|(_, known, _)| known))
}

/// The answer to a command that is none of `known`: the nearest of them, and all.
pub fn unknown_among(word: &str, known: &[&str]) -> String {
    let shown: String = word.chars().take(40).collect();
    let nearest = known
        .iter()
        .map(|known| (distance(&shown.to_lowercase(), known), known))
        .min()
        .filter(|(distance, _)| *distance <= 2)
        .map(|(_, known)| format!(" Did you mean `{known}`?"))
        .unwrap_or_default();
    let words: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    format!(
        "I don't know the command `{shown}`.{nearest} I know {}.",
        words.join(", ")
    )
}

/// Edits between two words of at most 40 characters.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{ALL, Verb, in_text, unknown};

    #[test]
    fn every_verb_is_listed_once_and_found_by_its_word() {
        for (verb, word, _) in ALL {
            assert_eq!(Verb::parse(word), Some(verb));
            assert_eq!(verb.word(), word);
        }
    }

    #[test]
    fn commands_are_found_however_people_write_them() {
        for text in ["/status", "!status", " /STATUS now ", "status", "Status"] {
            assert_eq!(in_text(text), Some(Verb::Status), "{text}");
        }
        for text in [
            "",
            "/",
            "!",
            "status of web in dev?",
            "diff between dev and prod",
            "/etc/hosts",
            "!important",
            "/statusx",
        ] {
            assert_eq!(in_text(text), None, "{text}");
        }
    }

    #[test]
    fn an_unknown_command_is_answered_with_the_nearest_and_all() {
        let answer = unknown("statsu");
        assert!(
            answer.starts_with("I don't know the command `statsu`. Did you mean `status`? I know `help`"),
            "{answer}"
        );
        assert!(!unknown("scale").contains("Did you mean"));
    }
}
