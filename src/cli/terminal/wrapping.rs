//! Wrapping of styled text between words.

use crate::cli::output::OutputStyle;
use unicode_width::UnicodeWidthChar;

/// A text of one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StyledRun {
    /// The text; a line end starts another row.
    pub(super) text: String,
    /// The styles, all of them at once.
    pub(super) styles: Vec<OutputStyle>,
}

/// Returns the rows of a text. A word that is wider than a row has a row of its own.
pub(super) fn wrapped(runs: &[StyledRun], columns: usize) -> Vec<Vec<StyledRun>> {
    let mut wrapper = Wrapper {
        columns,
        rows: Vec::new(),
        row: Row::default(),
        word: Row::default(),
        space: None,
    };
    for run in runs {
        for character in run.text.chars() {
            match character {
                '\n' => wrapper.end_row(),
                ' ' | '\t' => wrapper.end_word(Some(&run.styles)),
                _ => wrapper.word.push(character, &run.styles),
            }
        }
    }
    wrapper.end_row();
    wrapper.rows
}

#[derive(Default)]
struct Row {
    runs: Vec<StyledRun>,
    columns: usize,
}

impl Row {
    fn push(&mut self, character: char, styles: &[OutputStyle]) {
        self.columns += character.width().unwrap_or(0);
        match self.runs.last_mut() {
            Some(last) if last.styles == styles => last.text.push(character),
            _ => self.runs.push(StyledRun {
                text: character.to_string(),
                styles: styles.to_vec(),
            }),
        }
    }
}

struct Wrapper {
    columns: usize,
    rows: Vec<Vec<StyledRun>>,
    row: Row,
    word: Row,
    // The space before the word, with its styles.
    space: Option<Vec<OutputStyle>>,
}

impl Wrapper {
    fn end_word(&mut self, space: Option<&Vec<OutputStyle>>) {
        let word = std::mem::take(&mut self.word);
        if !word.runs.is_empty() {
            let is_first = self.row.runs.is_empty();
            if !is_first && self.row.columns + 1 + word.columns > self.columns {
                self.rows.push(std::mem::take(&mut self.row).runs);
            } else if let Some(styles) = self.space.take().filter(|_| !is_first) {
                self.row.push(' ', &styles);
            }
            self.space = None;
            for run in &word.runs {
                run.text
                    .chars()
                    .for_each(|character| self.row.push(character, &run.styles));
            }
        }
        if let Some(styles) = space {
            self.space = Some(styles.clone());
        }
    }

    fn end_row(&mut self) {
        self.end_word(None);
        self.space = None;
        self.rows.push(std::mem::take(&mut self.row).runs);
    }
}

#[cfg(test)]
mod tests {
    use super::{StyledRun, wrapped};
    use crate::cli::output::OutputStyle;

    #[test]
    fn text_is_wrapped_between_words_and_keeps_its_styles() {
        let run = |text: &str, styles: &[OutputStyle]| StyledRun {
            text: text.to_owned(),
            styles: styles.to_vec(),
        };
        let bold = &[OutputStyle::Bold];
        let runs = [
            run("one ", &[]),
            run("two three", bold),
            run(", 日本語 x\nend-of-a-long-word", &[]),
        ];
        assert_eq!(
            wrapped(&runs, 9),
            [
                vec![run("one ", &[]), run("two", bold)],
                vec![run("three", bold), run(",", &[])],
                vec![run("日本語 x", &[])],
                vec![run("end-of-a-long-word", &[])],
            ]
        );
    }
}
