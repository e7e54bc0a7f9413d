//! YAML and JSON, byte for byte as the Go programs around Tanka write them, so that a manifest of ours
//! can be compared with one of theirs. It writes only; it never reads.

mod emitter;
mod json;
mod key;
mod number;
mod resolve;
mod scalar;

pub use json::{compact, indented};
pub(super) use number::short_float;
pub(super) use resolve::yaml11_boolean;

use serde_json::Value;

/// The Go library whose output is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoYamlVersion {
    /// `gopkg.in/yaml.v2`: what `tk show` and `tk export` write. Lines are folded at 80 columns.
    V2,
    /// `gopkg.in/yaml.v3`: what `manifestYamlFromJson` and error messages write. Nothing is folded.
    V3,
}

/// One document, ending with a line feed. Every number is a float, as it is after Go has read JSON:
/// 1000000 is written `1e+06`. Nesting is as deep as the value, so the caller bounds it.
pub fn document(profile: GoYamlVersion, value: &Value) -> String {
    emitter::Emitter::new(profile, number::yaml).document(value)
}

/// One document for people and models: laid out like v2, but with numbers as people write them.
pub fn readable(value: &Value) -> String {
    emitter::Emitter::new(GoYamlVersion::V2, number::json).document(value)
}

/// Documents as `tk show` prints them: separated by `---`, nothing before the first.
pub fn stream<'a>(documents: impl IntoIterator<Item = &'a Value>) -> String {
    let documents: Vec<String> = documents
        .into_iter()
        .map(|value| document(GoYamlVersion::V2, value))
        .collect();
    documents.join("---\n")
}

#[cfg(test)]
mod tests;
