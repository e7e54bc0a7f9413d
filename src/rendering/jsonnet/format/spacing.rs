//! The space before a token. The writer writes it; the indenter counts its column.

/// True if the previous output needs a space after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crowded(pub bool);

/// True if a token needs a space before it unless something else separates it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Separate(pub bool);

pub(super) type Spacing = (Crowded, Separate);

pub(super) const TIGHT: Spacing = (Crowded(false), Separate(false));
pub(super) const SPACED: Spacing = (Crowded(true), Separate(true));
