//! A program that an engine evaluates before the first task. After that, the engine's code is in memory, and the
//! allocator has pages of the usual sizes.
//!
//! The program resembles most real programs: libraries of functions that add fields to objects.

use std::fmt::Write as _;

/// Libraries of the program, about 12 KB each. Unoptimised engines would need seconds for ten, and their speed does not
/// matter.
const LIBRARIES: usize = if cfg!(debug_assertions) { 2 } else { 10 };
/// Fields that each library can set.
const FIELDS: usize = 32;
/// Objects that are built with all libraries.
const OBJECTS: usize = 12;

/// Returns the program. It has no imports.
pub(super) fn program() -> String {
    let mut program = String::new();
    for library in 0..LIBRARIES {
        let _ = writeln!(program, "local library{library} = {{");
        for field in 0..FIELDS {
            let _ = write!(
                program,
                "  '#withField{field}':: {{ 'function': {{ help: 'Sets the field of that name. It may not be \
                 changed once the object has been created.', args: [{{ name: 'value', type: 'array' }}] }} }},\n  \
                 withField{field}(value): {{ spec+: {{ template+: {{ field{field}: if std.isArray(v=value) then \
                 value else [value] }} }} }},\n  \
                 withField{field}Mixin(value): {{ spec+: {{ template+: {{ field{field}+: value }} }} }},\n"
            );
        }
        let _ = writeln!(
            program,
            "  new(name): {{ apiVersion: 'v1', kind: 'Kind{library}', metadata: {{ name: name, labels: {{ \
             app: '%s-%d' % [name, {library}] }} }} }},\n}};"
        );
    }
    program.push_str("{\n");
    for object in 0..OBJECTS {
        let library = object % LIBRARIES;
        let _ = write!(
            program,
            "  object{object}: library{library}.new('object{object}')"
        );
        for field in 0..FIELDS {
            let _ = write!(
                program,
                "\n    + library{library}.withField{field}('value of {field}') + \
                 library{library}.withField{field}Mixin(['another'])"
            );
        }
        program.push_str(",\n");
    }
    program.push_str(
        "  listed: [std.join(',', ['peer-%d' % i for i in std.range(0, 9)]), std.length(std.toString(self.object0))],\n}\n",
    );
    program
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::rendering::jsonnet::engine::jrsonnet::Jrsonnet;
    use crate::rendering::jsonnet::engine::rsjsonnet::Rsjsonnet;
    use crate::rendering::jsonnet::engine::stateful::EngineState;

    #[test]
    fn both_engines_evaluate_the_warm_up_program_to_the_same_value() {
        let (first, second) = (Jrsonnet::warm_up().unwrap(), Rsjsonnet::warm_up().unwrap());
        assert_eq!(first, second);
        assert!(
            first.contains(r#""field31":["value of 31","another"]"#),
            "{first}"
        );
    }
}
