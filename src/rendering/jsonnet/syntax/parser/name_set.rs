//! A set of names that must be unique.

use std::collections::HashSet;
use std::hash::Hash;

/// Names up to which the set compares one by one. Nearly all lists of names are this short.
const FEW_MAX: usize = 12;

/// A set that allocates nothing while it is empty, and uses little memory while it is small.
pub(super) struct NameSet<T> {
    few: Vec<T>,
    many: HashSet<T>,
}

impl<T: Eq + Hash> NameSet<T> {
    pub(super) fn new() -> Self {
        Self {
            few: Vec::new(),
            many: HashSet::new(),
        }
    }

    pub(super) fn contains(&self, name: &T) -> bool {
        self.few.contains(name) || (!self.many.is_empty() && self.many.contains(name))
    }

    /// Adds a name. Returns false if the set already contains it.
    pub(super) fn insert(&mut self, name: T) -> bool {
        if !self.many.is_empty() {
            return self.many.insert(name);
        }
        if self.few.contains(&name) {
            return false;
        }
        self.few.push(name);
        if self.few.len() > FEW_MAX {
            self.many = std::mem::take(&mut self.few).into_iter().collect();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{FEW_MAX, NameSet};

    #[test]
    fn a_repeated_name_is_found_however_many_there_are() {
        let mut names = NameSet::new();
        for name in 0..FEW_MAX * 3 {
            assert!(!names.contains(&name));
            assert!(names.insert(name));
            assert!((0..=name).all(|taken| names.contains(&taken) && !names.insert(taken)));
        }
    }
}
