//! The text that precedes a program for the second engine, on its first line.

use crate::rendering::jsonnet::rewrite::{MODULO_FUNCTION, PLUS_FUNCTION, TEXT_FUNCTION};

/// The native function that returns the name of a variable of the current task to the code of a file.
pub(super) const VARIABLE: &str = "drydock.variable";
pub(super) const VARIABLE_PARAMETERS: [&str; 2] = ["file", "name"];
/// The library that all programs share.
pub(super) const LIBRARY: &str = include_str!("second.libsonnet");
/// The variable that holds the library. Variables of a task have a number as prefix.
pub(super) const LIBRARY_VARIABLE: &str = "drydock";
/// The name of the standard library.
const STANDARD: &str = "std";

/// Returns the prelude of a program: the parts of the library that its text uses, and the variables of the task. `file`
/// is the file whose value would be kept for other tasks, if there is one.
///
/// The engine copies all fields of `std` for each extension. So programs share one extended `std`, except those that
/// may use a variable or their own name.
pub(super) fn prelude(file: &str, text: &[u8]) -> String {
    let has = |word: &str| memchr::memmem::find(text, word.as_bytes()).is_some();
    let functions = [TEXT_FUNCTION, PLUS_FUNCTION, MODULO_FUNCTION].map(|name| match has(name) {
        true => format!(", {name} = drydock_library.{name}"),
        false => String::new(),
    });
    let functions = functions.concat();
    let library = |std: &str| format!("drydock_library = {std}.extVar('{LIBRARY_VARIABLE}'){functions}");
    if may_use_its_own(text) {
        let file = serde_json::Value::from(file);
        format!(
            "local drydock = std, {}; local std = drydock + drydock_library.std + {{ \
             extVar(x):: drydock.extVar(drydock.native('{VARIABLE}')({file}, x)) }}; ",
            library("drydock")
        )
    } else if has(STANDARD) {
        format!(
            "local {}; local std = drydock_library.shared; ",
            library(STANDARD)
        )
    } else if !functions.is_empty() {
        format!("local {}; ", library(STANDARD))
    } else {
        String::new()
    }
}

/// True if a text may use the parts of `std` that differ between files: it names them, or uses `std` in another way
/// than before a dot.
fn may_use_its_own(text: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let is_other = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        let after = text.get(at + STANDARD.len());
        before.is_some_and(is_letter) || after.is_some_and(|byte| is_letter(byte) || byte.is_ascii_digit())
    };
    let is_asked = |at: usize| text.get(at + STANDARD.len()) == Some(&b'.');
    let has = |word: &str| memchr::memmem::find(text, word.as_bytes()).is_some();
    has("extVar")
        || has("thisFile")
        || memchr::memmem::find_iter(text, STANDARD).any(|at| !is_other(at) && !is_asked(at))
}

#[cfg(test)]
mod tests {
    use super::{may_use_its_own, prelude};

    #[test]
    fn programs_share_the_std_library_unless_they_may_use_task_dependent_functions() {
        for text in [
            "std.extVar('a')",
            "std.thisFile",
            "std['ext' + 'Var']('a')",
            "local s = std; s",
            "(std).length",
            "std /* x */ .length",
            "function(std) 1",
            "std",
        ] {
            assert!(may_use_its_own(text.as_bytes()), "{text}");
        }
        for text in ["std.length([])", "a.b + 1", "stdlib", "my_std", "standard.x"] {
            assert!(!may_use_its_own(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn the_prelude_contains_only_what_the_program_uses() {
        assert_eq!(prelude("", b"{ a: 1 }"), "");
        let shared = prelude("", b"std.length([])");
        assert!(
            shared.contains(".shared;") && !shared.contains("extVar(x)"),
            "{shared}"
        );
        let text = prelude("", b" _drydock_text(a)");
        assert!(
            text.contains("_drydock_text = ") && !text.contains("_drydock_plus"),
            "{text}"
        );
        let own = prelude("a.libsonnet", b"std.extVar('a')");
        assert!(
            own.contains("extVar(x)") && own.contains("\"a.libsonnet\""),
            "{own}"
        );
    }
}
