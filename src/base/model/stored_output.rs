//! Whole texts of tool results that were shortened.

use super::OutputNumber;
use std::str::FromStr;

/// The whole text of a tool result that was shortened, without secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredOutput {
    /// The number of the output in its conversation.
    pub number: OutputNumber,
    /// The text. If it was too long to be kept, a line in it says so.
    pub text: String,
}

impl std::fmt::Debug for StoredOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.number.reference(), self.text.len())
    }
}

impl OutputNumber {
    /// Returns the reference that the model reads, such as `out-7`.
    pub fn reference(self) -> String {
        format!("out-{self}")
    }

    /// Returns the note for the model about how to read an output.
    pub fn note(self, kept: KeptText) -> String {
        let reads = kept.words();
        format!("(`read_output` with ref={} reads {reads})", self.reference())
    }

    /// Returns the output whose note a shortened result contains, and how much of its text is kept; the last one, if there
    /// are several.
    pub fn in_shortened_result(content: &str) -> Option<(Self, KeptText)> {
        let (_, note) = content.rsplit_once("(`read_output` with ref=")?;
        let (reference, reads) = note.split_once(" reads ")?;
        let is_read = |kept: &KeptText| {
            let rest = reads.strip_prefix(kept.words());
            rest.is_some_and(|rest| rest.starts_with(')'))
        };
        let kept = [KeptText::Whole, KeptText::Part].into_iter().find(is_read)?;
        Some((reference.parse().ok()?, kept))
    }
}

/// The part of a shortened result that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptText {
    /// All of it.
    Whole,
    /// Its beginning and its end. A line in it says what is missing.
    Part,
}

impl KeptText {
    fn words(self) -> &'static str {
        match self {
            Self::Whole => "all of it",
            Self::Part => "what is kept of it",
        }
    }
}

/// The text is no reference to an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reference to an output is written like `out-7`")]
pub struct NoOutputReference;

impl FromStr for OutputNumber {
    type Err = NoOutputReference;

    fn from_str(text: &str) -> Result<Self, NoOutputReference> {
        let digits = text.trim().strip_prefix("out-").unwrap_or(text.trim());
        match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse().map(Self).map_err(|_| NoOutputReference),
            false => Err(NoOutputReference),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KeptText, NoOutputReference, OutputNumber};

    #[test]
    fn a_reference_is_read_as_it_is_written() {
        assert_eq!(OutputNumber(7).reference(), "out-7");
        for text in ["out-7", "7", " out-7 "] {
            assert_eq!(text.parse(), Ok(OutputNumber(7)), "{text}");
        }
        for kept in [KeptText::Whole, KeptText::Part] {
            let content = format!("head\n[...] {}\ntail", OutputNumber(7).note(kept));
            assert_eq!(
                OutputNumber::in_shortened_result(&content),
                Some((OutputNumber(7), kept))
            );
        }
        let other = "(`read_output` with ref=out-7 reads nothing)";
        assert_eq!(OutputNumber::in_shortened_result(other), None);
        for text in [
            "",
            "out-",
            "out--7",
            "out-+7",
            "out-x",
            "out-99999999999999999999",
        ] {
            assert_eq!(text.parse::<OutputNumber>(), Err(NoOutputReference), "{text}");
        }
    }
}
