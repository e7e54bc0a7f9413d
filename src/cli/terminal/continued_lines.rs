//! The backslash that continues a line at the prompt. It is one that the person typed before Enter; what is pasted or
//! recalled stays as it is.

use reedline::{
    EditCommand, EditMode, Emacs, PromptEditMode, ReedlineEvent, ReedlineRawEvent, ValidationResult,
    Validator,
};

/// The mark after a backslash that ends a line and continues none. The editor knows only texts, so the mark is a part of
/// the text: a variation selector, which has no width and moves with the backslash. It is removed from the request, also
/// where a person has pasted one after a backslash.
const MARK: char = '\u{e01ef}';

/// Continues a line that ends with a backslash.
pub(super) struct BackslashContinues;

impl Validator for BackslashContinues {
    fn validate(&self, line: &str) -> ValidationResult {
        match line.ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Complete,
        }
    }
}

/// The keys of the prompt. The only texts that it inserts as a whole are those that are pasted.
pub(super) struct KeysAndPastes(pub(super) Emacs);

impl EditMode for KeysAndPastes {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        match self.0.parse_event(event) {
            ReedlineEvent::Edit(commands) => {
                let commands = commands.into_iter().map(|command| match command {
                    EditCommand::InsertString(text) => EditCommand::InsertString(as_it_is(&text)),
                    command => command,
                });
                ReedlineEvent::Edit(commands.collect())
            }
            event => event,
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.0.edit_mode()
    }
}

/// Returns a text for the prompt of which no backslash continues a line.
pub(super) fn as_it_is(text: &str) -> String {
    let marked = format!("\\{MARK}");
    let lines = text.split('\n').map(|line| match line.strip_suffix('\\') {
        Some(before) => format!("{before}{marked}"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a text for the prompt whose last line is not entered yet.
pub(super) fn typed_so_far(text: &str) -> String {
    match text.rsplit_once('\n') {
        Some((before, last)) => format!("{}\n{last}", as_it_is(before)),
        None => text.to_owned(),
    }
}

/// Returns the request of an entered text: without the backslashes that continue lines, and without the marks.
pub(super) fn request_of(entered: &str) -> String {
    let joined = entered.replace("\\\n", "\n");
    joined.replace(&format!("\\{MARK}"), "\\")
}

#[cfg(test)]
mod tests {
    use super::{BackslashContinues, MARK, as_it_is, request_of, typed_so_far};
    use reedline::{ValidationResult, Validator};

    #[test]
    fn only_a_typed_backslash_continues_a_line() {
        assert_eq!(request_of("one\\\ntwo\nthree\\"), "one\ntwo\nthree\\");
        for pasted in ["a \\\n  b \\\n\nc", "\\", "\\\\\n\\", "C:\\dir\n", ""] {
            let text = as_it_is(pasted);
            assert_eq!(request_of(&text), pasted, "{pasted:?}");
            let ended = BackslashContinues.validate(&text);
            assert!(matches!(ended, ValidationResult::Complete), "{pasted:?}");
        }
        // What was typed without Enter goes on at the next prompt.
        assert_eq!(typed_so_far("a\\\nb\\"), format!("a\\{MARK}\nb\\"));
        // A person goes on typing after a pasted text.
        let text = format!("run {} \\\nnow", as_it_is("a \\\nb\\"));
        assert_eq!(request_of(&text), "run a \\\nb\\ \nnow");
    }
}
