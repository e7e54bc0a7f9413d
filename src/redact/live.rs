//! The secrets in use, in every encoding in which they may turn up.

use crate::model::Secret;
use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use std::collections::BTreeMap;
use std::ops::Range;

/// Shorter values occur in ordinary text.
const VALUE_BYTES_MIN: usize = 8;
/// How often text is packed into JSON inside JSON before we stop following.
const JSON_DEPTH: usize = 2;

/// Finds live values.
pub(super) struct LiveValues {
    automaton: Automaton,
    /// By number of the form in the automaton.
    fingerprints: Vec<u64>,
}

enum Automaton {
    /// There are no live values.
    Empty,
    /// Finds every form.
    Forms(AhoCorasick),
    /// The forms do not fit an automaton: all text is withheld rather than some let through.
    TooLarge,
}

impl LiveValues {
    pub(super) fn new(secrets: impl IntoIterator<Item = Secret>, fingerprint: impl Fn(&str) -> u64) -> Self {
        let mut forms: BTreeMap<String, u64> = BTreeMap::new();
        for secret in secrets {
            let value = secret.expose();
            if value.len() < VALUE_BYTES_MIN {
                continue;
            }
            let fingerprint = fingerprint(value);
            for form in forms_of(value) {
                if form.len() >= VALUE_BYTES_MIN {
                    forms.entry(form).or_insert(fingerprint);
                }
            }
        }
        let fingerprints: Vec<u64> = forms.values().copied().collect();
        let words = forms.keys();
        let automaton = match AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(words)
        {
            _ if fingerprints.is_empty() => Automaton::Empty,
            Ok(automaton) => Automaton::Forms(automaton),
            Err(_) => Automaton::TooLarge,
        };
        Self {
            automaton,
            fingerprints,
        }
    }

    /// Reports every live value in the text, those that overlap as well: what is left of one beside
    /// another may be most of it.
    pub(super) fn find(&self, text: &str, mut found: impl FnMut(Range<usize>, u64)) {
        match &self.automaton {
            Automaton::Empty => {}
            Automaton::TooLarge if text.is_empty() => {}
            Automaton::TooLarge => found(0..text.len(), 0),
            Automaton::Forms(automaton) => {
                if !automaton.is_match(text) {
                    return;
                }
                for hit in automaton.find_overlapping_iter(text) {
                    let fingerprint = self.fingerprints.get(hit.pattern().as_usize()).copied();
                    found(hit.range(), fingerprint.unwrap_or_default());
                }
            }
        }
    }
}

/// A value as it is and as it travels: base64 at any offset, hex, percent, JSON and HTML.
fn forms_of(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    let bytes = value.as_bytes();
    forms.extend([STANDARD.encode(bytes), URL_SAFE.encode(bytes)]);
    for shift in 0..3 {
        let shifted = [vec![0; shift].as_slice(), bytes].concat();
        forms.push(inner_base64(
            &STANDARD_NO_PAD.encode(&shifted),
            shift,
            shifted.len(),
        ));
        forms.push(inner_base64(
            &URL_SAFE_NO_PAD.encode(&shifted),
            shift,
            shifted.len(),
        ));
    }
    forms.push(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
    forms.push(bytes.iter().map(|byte| format!("{byte:02X}")).collect());
    forms.extend(percent_forms(bytes));
    let mut nested = value.to_owned();
    for _ in 0..JSON_DEPTH {
        nested = serde_json::Value::from(nested.as_str()).to_string();
        nested = nested.trim_start_matches('"').to_owned();
        nested.pop();
        forms.push(nested.clone());
    }
    forms.push(
        value
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;"),
    );
    forms
}

/// The characters of a base64 text that depend on the value alone, not on what surrounds it.
fn inner_base64(encoded: &str, shift: usize, bytes: usize) -> String {
    let from_neighbour_before = (shift * 8).div_ceil(6);
    let from_neighbour_after = usize::from(!(bytes * 8).is_multiple_of(6));
    let length = encoded.len() - from_neighbour_before - from_neighbour_after;
    encoded.chars().skip(from_neighbour_before).take(length).collect()
}

fn percent_forms(bytes: &[u8]) -> [String; 3] {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encode = |escaped: fn(u8) -> String, keep: &dyn Fn(u8) -> bool| -> String {
        let parts = bytes.iter().map(|byte| {
            if keep(*byte) {
                char::from(*byte).to_string()
            } else {
                escaped(*byte)
            }
        });
        parts.collect()
    };
    [
        encode(|byte| format!("%{byte:02X}"), &plain),
        encode(|byte| format!("%{byte:02x}"), &plain),
        encode(|byte| format!("%{byte:02X}"), &|_| false),
    ]
}
