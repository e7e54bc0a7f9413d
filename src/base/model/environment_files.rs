//! The files that make a directory an environment of Tanka.

/// The entry point of an environment.
pub const MAIN_FILE: &str = "main.jsonnet";
/// The settings of a static environment.
pub const SPEC_FILE: &str = "spec.json";
