//! The one choke point for secrets: what goes to a model, a chat, a log, a recording or a diff passes
//! here first, and is cut to length only afterwards. It knows the live secrets in every encoding they
//! travel in, and what the usual secrets look like. It never keeps the text it saw.

mod live;
mod patterns;

use crate::model::Secret;
use live::LiveValues;
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What stands before the number of a placeholder.
const OPENING: &str = "⟦secret:";
/// What stands after it.
const CLOSING: char = '⟧';
/// Different values that get a number of their own; all later ones share the next number.
const NUMBERS_MAX: usize = 100_000;

/// Replaces secrets by `⟦secret:N⟧`. The same value has the same number for as long as this redactor
/// lives, so people and models can still tell values apart.
pub struct Redactor {
    live: LiveValues,
    /// Keys the fingerprints with random bits of this process, so that none can be looked up.
    fingerprints: RandomState,
    /// Fingerprint to number. Held only to look one up, and never across a wait.
    numbers: Mutex<HashMap<u64, usize>>,
}

/// A part of a text that must not be seen, and whose number it gets.
struct Finding {
    range: Range<usize>,
    fingerprint: u64,
}

impl Redactor {
    /// Knows these live secrets. Ones of fewer than 8 bytes are ignored: they could not be told from
    /// ordinary text.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let fingerprints = RandomState::new();
        let live = LiveValues::new(secrets, |value| fingerprints.hash_one(value));
        Self {
            live,
            fingerprints,
            numbers: Mutex::default(),
        }
    }

    /// The text without secrets; borrowed if there are none.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let findings = self.findings(text);
        if findings.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut redacted = String::with_capacity(text.len());
        let mut copied = 0;
        for finding in findings {
            redacted.push_str(text.get(copied..finding.range.start).unwrap_or_default());
            redacted.push_str(&format!("{OPENING}{}{CLOSING}", self.number(finding.fingerprint)));
            copied = finding.range.end;
        }
        redacted.push_str(text.get(copied..).unwrap_or_default());
        Cow::Owned(redacted)
    }

    /// Everything to replace, in order, without overlaps and on character boundaries.
    fn findings(&self, text: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.live.find(text, |range, fingerprint| {
            findings.push(Finding { range, fingerprint })
        });
        let live = findings.len();
        patterns::find(text, |range| {
            let fingerprint = self
                .fingerprints
                .hash_one(text.get(range.clone()).unwrap_or_default());
            findings.push(Finding { range, fingerprint });
        });
        if findings.len() <= 1 {
            return findings;
        }
        // A live value gives its number to whatever it is part of, so it is found under one number
        // in every context.
        let mut ordered: Vec<(bool, Finding)> = findings
            .into_iter()
            .enumerate()
            .map(|(index, finding)| (index < live, finding))
            .collect();
        ordered.sort_by_key(|(_, finding)| finding.range.start);
        let mut merged: Vec<(bool, Finding)> = Vec::with_capacity(ordered.len());
        for (is_live, finding) in ordered {
            match merged.last_mut() {
                Some((last_is_live, last)) if finding.range.start < last.range.end => {
                    last.range.end = last.range.end.max(finding.range.end);
                    if is_live && !*last_is_live {
                        *last_is_live = true;
                        last.fingerprint = finding.fingerprint;
                    }
                }
                _ => merged.push((is_live, finding)),
            }
        }
        merged.into_iter().map(|(_, finding)| finding).collect()
    }

    fn number(&self, fingerprint: u64) -> usize {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let next = numbers.len() + 1;
        if next > NUMBERS_MAX {
            return numbers.get(&fingerprint).copied().unwrap_or(next);
        }
        *numbers.entry(fingerprint).or_insert(next)
    }
}

/// True if the text holds a placeholder: it is not what it was made from, and a patch of it does not apply.
pub fn contains_placeholder(text: &str) -> bool {
    text.split(OPENING).skip(1).any(|rest| {
        rest.split_once(CLOSING)
            .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests;
