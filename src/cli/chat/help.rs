//! The rows of `/help`. On a terminal, each text is wrapped beside its command.

use super::commands::{COMMAND_PREFIX, VERBS};

/// The columns of a command with its arguments, and of the space after it.
const USAGE_COLUMNS: usize = 19;
/// The fewest columns of a text, however narrow the terminal is.
const TEXT_COLUMNS_MIN: usize = 20;

/// The lines that are no commands.
const OTHERS: [(&str, &str); 2] = [
    ("Ctrl-C", "stop what is running"),
    (
        "queue: REQUEST",
        "run it after the running turn; any other line reaches its next step",
    ),
];

/// Returns the rows for a terminal with so many columns. Without them, each text is one row.
pub(super) fn help_rows(columns: Option<usize>) -> Vec<String> {
    let text_columns = columns.map_or(usize::MAX, |columns| {
        columns.saturating_sub(USAGE_COLUMNS).max(TEXT_COLUMNS_MIN)
    });
    let verbs = VERBS.iter().map(|(_, word, arguments, what)| {
        let usage = format!("{COMMAND_PREFIX}{word} {arguments}");
        (usage.trim_end().to_owned(), *what)
    });
    let others = OTHERS.iter().map(|(usage, what)| ((*usage).to_owned(), *what));
    let rows = verbs.chain(others).flat_map(|(usage, what)| {
        let texts = wrapped(what, text_columns).into_iter();
        texts.enumerate().map(move |(index, text)| match index {
            0 => format!("{usage:<USAGE_COLUMNS$}{text}"),
            _ => format!("{:<USAGE_COLUMNS$}{text}", ""),
        })
    });
    rows.collect()
}

/// Breaks a text between its words. A word that is longer than a row has a row of its own.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match rows.last_mut() {
            Some(row) if row.chars().count() + 1 + word.chars().count() <= columns => {
                row.push(' ');
                row.push_str(word);
            }
            _ => rows.push(word.to_owned()),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{USAGE_COLUMNS, VERBS, help_rows};

    #[test]
    fn no_row_of_the_help_is_wider_than_the_terminal_and_no_word_is_lost() {
        let words = |rows: &[String]| -> Vec<String> {
            let words = rows.iter().flat_map(|row| row.split_whitespace());
            words.map(str::to_owned).collect()
        };
        let whole = help_rows(None);
        assert_eq!(whole.len(), VERBS.len() + 2);
        for columns in [40, 60, 80, 200] {
            let rows = help_rows(Some(columns));
            let widest = rows.iter().map(|row| row.chars().count()).max();
            assert!(widest <= Some(columns), "{columns}: {widest:?}");
            assert_eq!(words(&rows), words(&whole), "{columns}");
        }
        assert!(
            help_rows(Some(1))
                .iter()
                .all(|row| row.chars().count() > USAGE_COLUMNS)
        );
    }
}
