//! `[sandbox]`: how far a program of a repository may go when it is evaluated.

use crate::config::reader::Reader;
use crate::config::settings::SandboxSettings;
use crate::config::sources::Sources;
use std::time::Duration;

/// The layers of the jail, by the names an operator gives them.
const LAYERS: [&str; 5] = [
    "parent_death",
    "resource_limits",
    "landlock",
    "system_calls",
    "no_new_privileges",
];

pub(super) fn sandbox(reader: &mut Reader<'_>) -> SandboxSettings {
    let settings = SandboxSettings {
        time_max: Duration::from_secs(reader.integer("sandbox.seconds_max")),
        memory_bytes_max: reader.integer("sandbox.memory_bytes_max"),
        stack_bytes_max: reader.integer("sandbox.stack_bytes_max"),
        output_bytes_max: reader.integer("sandbox.output_bytes_max"),
        imports_max: reader.integer("sandbox.imports_max"),
        import_bytes_max: reader.integer("sandbox.import_bytes_max"),
        nesting_max: reader.integer("sandbox.nesting_max"),
        jails_max: reader.integer("sandbox.jails_max"),
        idle_max: reader.integer("sandbox.idle_max"),
        recycle_bytes: reader.integer("sandbox.recycle_bytes"),
        imports_denied: reader.list("sandbox.imports_denied"),
        layers_missing: reader.list("sandbox.layers_missing"),
    };
    for glob in &settings.imports_denied {
        if let Err(error) = globset::Glob::new(glob) {
            reader.problem("sandbox.imports_denied", error.to_string());
        }
    }
    for layer in &settings.layers_missing {
        if !LAYERS.contains(&layer.as_str()) {
            let why = format!("`{layer}` is no layer; the layers are {}", LAYERS.join(", "));
            reader.problem("sandbox.layers_missing", why);
        }
    }
    settings
}

impl Default for SandboxSettings {
    fn default() -> Self {
        sandbox(&mut Reader::new(&Sources::default()))
    }
}
