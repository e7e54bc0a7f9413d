//! Sets of budget scopes.

use super::BudgetScope;

/// A set of scopes, stored as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetScopes(u8);

impl BudgetScopes {
    /// Returns the set with one more scope.
    #[must_use]
    pub fn with(self, scope: BudgetScope) -> Self {
        Self(self.0 | bit(scope))
    }

    /// Returns the number that is stored.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl FromIterator<BudgetScope> for BudgetScopes {
    fn from_iter<I: IntoIterator<Item = BudgetScope>>(scopes: I) -> Self {
        scopes.into_iter().fold(Self::default(), Self::with)
    }
}

/// Returns the bit of a scope. Stored numbers have it, so it never changes.
fn bit(scope: BudgetScope) -> u8 {
    match scope {
        BudgetScope::Turn => 1,
        BudgetScope::Conversation => 2,
        BudgetScope::PersonDay => 4,
        BudgetScope::Day => 8,
    }
}
