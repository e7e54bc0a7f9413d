//! A writer of YAML and JSON that equals the Go programs around Tanka byte for byte, so that manifests can be compared
//! with theirs. It does not read YAML.

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

/// The Go library whose output is reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoYamlVersion {
    /// `gopkg.in/yaml.v2`, the format of `tk show` and `tk export`. Lines are folded at 80 columns.
    V2,
    /// `gopkg.in/yaml.v3`, the format of `manifestYamlFromJson` and error messages. Lines are not folded.
    V3,
}

/// Returns one document that ends with a line feed. Every number is a float, as after Go has read JSON: 1000000 becomes
/// `1e+06`. The recursion is as deep as the value, so the caller must bound its nesting.
pub fn document(profile: GoYamlVersion, value: &Value) -> String {
    emitter::Emitter::new(profile, number::yaml).document(value)
}

/// Returns one document for people and models: the layout of v2, with numbers in ordinary notation.
pub fn readable(value: &Value) -> String {
    emitter::Emitter::new(GoYamlVersion::V2, number::json).document(value)
}

/// Returns documents in the format of `tk show`: separated by `---`, without a separator before the first.
pub fn stream<'a>(documents: impl IntoIterator<Item = &'a Value>) -> String {
    let documents: Vec<String> = documents
        .into_iter()
        .map(|value| document(GoYamlVersion::V2, value))
        .collect();
    documents.join("---\n")
}

#[cfg(test)]
mod tests;
