//! Finds the secrets in use in every encoding in which they may occur, complete or in part.

use super::classifier;
use super::common_bytes::{common_end, common_start};
use crate::base::model::Secret;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Minimum length of a value in bytes. Shorter ones occur in ordinary text.
pub(super) const VALUE_BYTES_MIN: usize = 8;
/// Maximum depth of JSON inside JSON for which encodings are searched.
const JSON_DEPTH: usize = 2;
/// Size of all search words in bytes above which the automaton has no full table. A table takes up to a kilobyte
/// per byte.
const TABLE_BYTES_MAX: usize = 16 << 10;
/// Maximum size of all search words in bytes. Above it, only the usual encodings are searched. If that is still too
/// much, all text is withheld.
const WORDS_BYTES_MAX: usize = 6 << 20;
/// Maximum size of all encoded forms in bytes. Above it, only the usual encodings are searched.
const FORMS_BYTES_MAX: usize = 16 << 20;
/// Size in bytes above which a value is searched only in the usual encodings, so that it leaves space for the
/// encodings of others.
const VALUE_BYTES_MAX: usize = 16 << 10;
/// Maximum number of bytes compared with values: per byte of text, and additionally for any text. A text above this
/// limit consists of repetitions and is withheld.
const WORK_BYTES_MAX: (usize, usize) = (64, 64 << 20);
/// Minimum cost of a finding in bytes, because each finding is kept until the text is written.
const FINDING_BYTES: usize = 256;
/// Maximum size of all forms with spaces in bytes. Above it, no text is stable before it is complete.
const SPACED_BYTES_MAX: usize = 64 << 10;
/// Minimum number of different bytes in a distinctive piece.
const PIECE_KINDS_MIN: usize = 5;

/// Finds live values in texts.
pub(super) struct LiveValues {
    automaton: Automaton,
    forms: Vec<Form>,
    /// The search words, by their index in the automaton.
    words: Vec<Word>,
    /// Every space and line end of every form; `None` if the forms with spaces are too large.
    spaces: Option<Vec<Word>>,
}

enum Automaton {
    /// No live values.
    Empty,
    /// Finds every search word.
    Words(AhoCorasick),
    /// There are too many or too large live values. All text is withheld, so that no secret is let through.
    TooLarge,
}

/// An encoded form of a value.
struct Form {
    text: String,
    fingerprint: u64,
    /// True if a piece of the form is enough to identify it.
    in_pieces: bool,
}

/// A part of a form that is searched for.
#[derive(Clone, Copy)]
struct Word {
    form: usize,
    /// The offset in the form.
    at: usize,
}

pub(super) struct SearchText<'a> {
    pub(super) text: &'a str,
    /// The fingerprint of the secret that the text is or belongs to.
    pub(super) fingerprint: u64,
}

impl LiveValues {
    pub(super) fn of_secrets(
        secrets: impl IntoIterator<Item = Secret>,
        fingerprint: impl Fn(&str) -> u64,
    ) -> Self {
        let secrets: Vec<Secret> = secrets.into_iter().collect();
        let mut sought = Vec::new();
        for secret in &secrets {
            let (text, fingerprint) = (secret.expose(), fingerprint(secret.expose()));
            sought.push(SearchText { text, fingerprint });
            // The part of a Telegram bot token after the bot number is a secret on its own.
            let key = text.split_once(':').filter(|(bot, _)| is_number(bot));
            sought.extend(key.map(|(_, text)| SearchText { text, fingerprint }));
        }
        Self::new(&sought)
    }

    /// Returns a finder that withholds all text.
    pub(super) fn too_large() -> Self {
        Self {
            automaton: Automaton::TooLarge,
            forms: Vec::new(),
            words: Vec::new(),
            spaces: None,
        }
    }

    pub(super) fn new(sought: &[SearchText<'_>]) -> Self {
        let all = Self::in_forms(sought, |value| match value.len() > VALUE_BYTES_MAX {
            true => usual_forms_of(value),
            false => forms_of(value),
        });
        match all.automaton {
            Automaton::TooLarge => Self::in_forms(sought, usual_forms_of),
            Automaton::Empty | Automaton::Words(_) => all,
        }
    }

    fn in_forms(sought: &[SearchText<'_>], forms_of: fn(&str) -> Vec<String>) -> Self {
        // For each form: the fingerprint, and whether a piece is enough.
        let mut forms: BTreeMap<String, (u64, bool)> = BTreeMap::new();
        let mut forms_bytes = 0;
        for SearchText { text, fingerprint } in sought {
            if text.len() < VALUE_BYTES_MIN {
                continue;
            }
            if forms_bytes > FORMS_BYTES_MAX {
                return Self::too_large();
            }
            let in_pieces = classifier::is_opaque(text);
            for form in forms_of(text) {
                if form.len() >= VALUE_BYTES_MIN {
                    forms_bytes += form.len();
                    // In these encodings, a piece covers only a few characters, which also occur in other words.
                    let in_pieces = in_pieces && !form.starts_with("&#") && !form.starts_with("\\u");
                    forms.entry(form).or_insert((*fingerprint, in_pieces));
                }
            }
        }
        let forms = forms.into_iter().map(|(text, (fingerprint, in_pieces))| Form {
            text,
            fingerprint,
            in_pieces,
        });
        let forms: Vec<Form> = forms.collect();
        let (mut words, mut texts, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (number, form) in forms.iter().enumerate() {
            for place in words_of(form) {
                words.push(Word {
                    form: number,
                    at: place.start,
                });
                bytes += place.len();
                texts.push(form.text.as_bytes().get(place).unwrap_or_default());
            }
        }
        let automaton = match bytes {
            0 => Automaton::Empty,
            _ if bytes > WORDS_BYTES_MAX => Automaton::TooLarge,
            _ => AhoCorasick::builder()
                .match_kind(MatchKind::Standard)
                .kind((bytes > TABLE_BYTES_MAX).then_some(AhoCorasickKind::ContiguousNFA))
                .build(texts)
                .map_or(Automaton::TooLarge, Automaton::Words),
        };
        Self {
            automaton,
            spaces: spaces_of(&forms),
            forms,
            words,
        }
    }

    /// Returns the start of the end of a text that could be in the middle of a value with spaces. The text ends with a
    /// space or a line end.
    pub(super) fn unfinished(&self, text: &str) -> Option<usize> {
        let spaces = self.spaces.as_ref();
        let Some(spaces) = spaces.filter(|_| !matches!(self.automaton, Automaton::TooLarge)) else {
            return (!text.is_empty()).then_some(0);
        };
        let lengths = spaces.iter().filter_map(|space| {
            let form = self.forms.get(space.form)?.text.as_bytes();
            Some(common_end(text.as_bytes(), form.get(..=space.at)?))
        });
        // One equal space does not make a text a part of a value.
        let longest = lengths.filter(|length| *length > 1).max()?;
        Some(text.len() - longest)
    }

    /// Reports every live value in the text, and every part of one that is long enough to be distinctive.
    /// Overlapping findings are reported too, because the uncovered rest of a value may be most of it.
    pub(super) fn find(&self, text: &str, mut found: impl FnMut(Range<usize>, u64)) {
        match &self.automaton {
            Automaton::Empty => {}
            Automaton::TooLarge if text.is_empty() => {}
            Automaton::TooLarge => found(0..text.len(), 0),
            Automaton::Words(automaton) => {
                if !automaton.is_match(text) {
                    return;
                }
                let (for_each, for_any) = WORK_BYTES_MAX;
                let mut work = for_each.saturating_mul(text.len()).saturating_add(for_any);
                // For each form and possible start: the end of the longest match so far.
                let mut seen: HashMap<(usize, isize), usize> = HashMap::new();
                for hit in automaton.find_overlapping_iter(text) {
                    work = work.saturating_sub(1);
                    if work == 0 {
                        return found(0..text.len(), 0);
                    }
                    let Some(word) = self.words.get(hit.pattern().as_usize()) else {
                        continue;
                    };
                    let Some(form) = self.forms.get(word.form) else {
                        continue;
                    };
                    let origin = hit.start().cast_signed() - word.at.cast_signed();
                    let end = seen.entry((word.form, origin)).or_default();
                    if hit.end() <= *end {
                        continue;
                    }
                    let range = extend_match(text, form.text.as_bytes(), hit.range(), word.at);
                    *end = range.end;
                    work = work.saturating_sub(range.len().max(FINDING_BYTES));
                    found(range, form.fingerprint);
                }
            }
        }
    }
}

/// Returns every space and line end of every form; `None` if the forms with spaces are too large.
fn spaces_of(forms: &[Form]) -> Option<Vec<Word>> {
    let (mut spaces, mut bytes) = (Vec::new(), 0);
    for (number, form) in forms.iter().enumerate() {
        let places = form.text.bytes().enumerate();
        let mut places = places.filter(|(_, byte)| byte.is_ascii_whitespace()).peekable();
        if places.peek().is_some() {
            bytes += form.text.len();
        }
        if bytes > SPACED_BYTES_MAX {
            return None;
        }
        spaces.extend(places.map(|(at, _)| Word { form: number, at }));
    }
    Some(spaces)
}

/// Extends a hit to the longest range that is equal in the text and the form, on character boundaries.
fn extend_match(text: &str, form: &[u8], hit: Range<usize>, at: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes.get(..hit.start).unwrap_or_default();
    let form_before = form.get(..at).unwrap_or_default();
    let after = bytes.get(hit.end..).unwrap_or_default();
    let form_after = form.get(at + hit.len()..).unwrap_or_default();
    let start = hit.start - common_end(before, form_before);
    let end = hit.end + common_start(after, form_after);
    text.floor_char_boundary(start)..text.ceil_char_boundary(end)
}

/// Returns the parts of a form to search for: the whole form, or pieces if the value is random. A page of a file, a
/// cut line or half a value contains some of the pieces.
fn words_of(
    Form {
        text: form,
        in_pieces,
        ..
    }: &Form,
) -> Vec<Range<usize>> {
    let whole: Vec<Range<usize>> = std::iter::once(0..form.len()).collect();
    let (bytes, step) = match form.len() {
        0..16 => return whole,
        16..32 => (8, 2),
        32..512 => (12, 4),
        512..8_192 => (16, 8),
        _ => (24, 256),
    };
    if !in_pieces {
        return whole;
    }
    let last = form.len() - bytes;
    let starts = (0..last).step_by(step).chain([last]);
    let pieces = starts.map(|start| start..start + bytes);
    let telling =
        pieces.filter(|piece| is_distinctive(form.as_bytes().get(piece.clone()).unwrap_or_default()));
    let telling: Vec<Range<usize>> = telling.collect();
    match telling.is_empty() {
        true => whole,
        false => telling,
    }
}

/// True unless the piece looks like a word, a number or padding.
fn is_distinctive(piece: &[u8]) -> bool {
    let mut kinds = piece.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    let classes = [
        u8::is_ascii_lowercase as fn(&u8) -> bool,
        u8::is_ascii_uppercase,
        u8::is_ascii_digit,
    ];
    let classes = classes.iter().filter(|class| piece.iter().any(class));
    kinds.len() >= PIECE_KINDS_MIN && classes.count() >= 2
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a value as it is, in JSON, and in base64 at any offset.
fn usual_forms_of(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned(), in_json(value)];
    forms.extend((0..3).map(|shift| {
        let shifted = [vec![0; shift].as_slice(), value.as_bytes()].concat();
        inner_base64(&STANDARD_NO_PAD.encode(&shifted), shift, shifted.len())
    }));
    forms
}

/// Returns a value as it is between the quotes of JSON.
fn in_json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    let inner = quoted.trim_start_matches('"');
    inner.strip_suffix('"').unwrap_or(inner).to_owned()
}

/// Returns a value in all its encodings: plain, base64 at any offset and also of UTF-16, hex, percent, JSON and
/// HTML.
fn forms_of(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let mut forms = vec![value.to_owned(), STANDARD.encode(bytes), URL_SAFE.encode(bytes)];
    forms.extend(base64_forms(bytes));
    let wide = |bytes_of: fn(u16) -> [u8; 2]| value.encode_utf16().flat_map(bytes_of).collect::<Vec<u8>>();
    forms.extend(base64_forms(&wide(u16::to_le_bytes)));
    forms.extend(base64_forms(&wide(u16::to_be_bytes)));
    forms.push(hex::encode(bytes));
    forms.push(hex::encode_upper(bytes));
    forms.extend(percent_forms(bytes));
    let mut nested = value.to_owned();
    for _ in 0..JSON_DEPTH {
        nested = in_json(&nested);
        forms.push(nested.clone());
    }
    forms.extend(numbered_forms(value));
    forms.push(
        value
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;"),
    );
    forms
}

/// Returns bytes in base64 for every alignment in the surrounding data.
fn base64_forms(bytes: &[u8]) -> impl Iterator<Item = String> {
    (0..3).flat_map(move |shift| {
        let shifted = [vec![0; shift].as_slice(), bytes].concat();
        [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)]
            .map(|encoded| inner_base64(&encoded, shift, shifted.len()))
    })
}

/// Returns every character as a numeric escape, in the forms of JSON and HTML.
fn numbered_forms(value: &str) -> [String; 6] {
    let units = |escaped: fn(u16) -> String| value.encode_utf16().map(escaped).collect();
    let characters = |escaped: fn(u32) -> String| value.chars().map(u32::from).map(escaped).collect();
    [
        units(|unit| format!("\\u{unit:04x}")),
        units(|unit| format!("\\u{unit:04X}")),
        characters(|number| format!("&#{number};")),
        characters(|number| format!("&#x{number:x};")),
        characters(|number| format!("&#x{number:X};")),
        characters(|number| format!("&#X{number:X};")),
    ]
}

/// Returns the characters of a base64 text that depend only on the value and not on its neighbours.
fn inner_base64(encoded: &str, shift: usize, bytes: usize) -> String {
    let from_neighbour_before = (shift * 8).div_ceil(6);
    let from_neighbour_after = usize::from(!(bytes * 8).is_multiple_of(6));
    let length = encoded.len() - from_neighbour_before - from_neighbour_after;
    encoded.chars().skip(from_neighbour_before).take(length).collect()
}

fn percent_forms(bytes: &[u8]) -> [String; 4] {
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
        encode(|byte| format!("%{byte:02x}"), &|_| false),
    ]
}
