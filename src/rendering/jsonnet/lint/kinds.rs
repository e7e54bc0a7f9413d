//! The possible kinds of a value.

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const NOTHING: Self = Self(0);
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const NUMBER: Self = Self(4);
    pub(super) const TEXT: Self = Self(8);
    pub(super) const ARRAY: Self = Self(16);
    pub(super) const OBJECT: Self = Self(32);
    pub(super) const FUNCTION: Self = Self(64);
    pub(super) const ANY: Self = Self(127);

    /// Returns the union of both sets.
    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if a value may have one of these kinds.
    pub(super) fn may_be(self, kinds: Self) -> bool {
        self.0 & kinds.0 != 0
    }

    /// Returns true if a value certainly has one of these kinds.
    pub(super) fn must_be(self, kinds: Self) -> bool {
        self.0 & !kinds.0 == 0
    }

    /// Returns the names of the kinds for a message.
    pub(super) fn describe(self) -> String {
        if self == Self::NOTHING {
            return "void".to_owned();
        }
        let names = [
            (Self::NULL, "a null"),
            (Self::BOOLEAN, "a bool"),
            (Self::NUMBER, "a number"),
            (Self::TEXT, "a string"),
            (Self::ARRAY, "an array"),
            (Self::OBJECT, "an object"),
            (Self::FUNCTION, "a function"),
        ];
        let names: Vec<&str> = names
            .iter()
            .filter(|(kind, _)| self.may_be(*kind))
            .map(|(_, name)| *name)
            .collect();
        names.join(" or ")
    }
}
