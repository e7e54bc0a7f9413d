//! The name of a change as people write it: `CHG-42`, or `CHG-42 rev 2`.

use super::ChangeNumber;
use std::str::FromStr;

/// The name of a change, or of one of its revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeName {
    /// The number of the change.
    pub number: ChangeNumber,
    /// The revision; `None` means whichever is the newest.
    pub revision: Option<u32>,
}

/// The error for a text that names no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("that names no change")]
pub struct InvalidChangeName;

impl ChangeName {
    /// Returns true if a change of this number and revision has the name.
    pub fn is_of(self, number: ChangeNumber, revision: u32) -> bool {
        self.number == number && self.revision.is_none_or(|named| named == revision)
    }
}

impl FromStr for ChangeName {
    type Err = InvalidChangeName;

    fn from_str(text: &str) -> Result<Self, InvalidChangeName> {
        let words: Vec<&str> = text.trim().trim_matches('`').split_whitespace().collect();
        let (name, revision) = match words.as_slice() {
            [name] => (name, None),
            [name, rev, number] if rev.eq_ignore_ascii_case("rev") => (name, Some(number)),
            _ => return Err(InvalidChangeName),
        };
        let revision = revision.map(|number| number.parse()).transpose();
        let (prefix, number) = name.split_at_checked(4).ok_or(InvalidChangeName)?;
        match (prefix.eq_ignore_ascii_case("chg-"), number.parse(), revision) {
            (true, Ok(number), Ok(revision)) => Ok(Self {
                number: ChangeNumber(number),
                revision,
            }),
            _ => Err(InvalidChangeName),
        }
    }
}

impl std::fmt::Display for ChangeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CHG-{}", self.number)?;
        match self.revision {
            Some(revision) => write!(f, " rev {revision}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangeName, InvalidChangeName};
    use crate::base::model::ChangeNumber;

    #[test]
    fn a_change_is_selected_only_by_its_full_id() {
        for (text, number, revision) in [
            ("CHG-42", 42, None),
            ("chg-42", 42, None),
            ("`CHG-42`", 42, None),
            (" CHG-42 ", 42, None),
            ("CHG-42 rev 2", 42, Some(2)),
            ("`CHG-42 rev 2`", 42, Some(2)),
            ("chg-42 REV 1", 42, Some(1)),
        ] {
            let number = ChangeNumber(number);
            assert_eq!(text.parse(), Ok(ChangeName { number, revision }), "{text}");
        }
        for text in [
            "",
            "``",
            "chg42",
            "CHG-42x",
            "CHG-",
            "CHG",
            "42",
            "#42",
            "CHG-42,",
            "CHG-42 CHG-43",
            "CHG-42 rev",
            "CHG-42 rev x",
            "CHG-42 rev 2 now",
            "CHG-42 please",
            "it",
            "rev 2",
            "CHG–42",
            "ä",
            "CHG-99999999999999999999",
        ] {
            assert_eq!(text.parse::<ChangeName>(), Err(InvalidChangeName), "{text}");
        }
    }
}
