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
    pub fn note(self) -> String {
        format!("(`read_output` with ref={} reads all of it)", self.reference())
    }

    /// Returns the output whose note a shortened result contains; the last one, if there are several.
    pub fn in_shortened_result(content: &str) -> Option<Self> {
        let (_, note) = content.rsplit_once("(`read_output` with ref=")?;
        let (reference, _) = note.split_once(" reads all of it)")?;
        reference.parse().ok()
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
    use super::{NoOutputReference, OutputNumber};

    #[test]
    fn a_reference_is_read_as_it_is_written() {
        assert_eq!(OutputNumber(7).reference(), "out-7");
        for text in ["out-7", "7", " out-7 "] {
            assert_eq!(text.parse(), Ok(OutputNumber(7)), "{text}");
        }
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
