//! `[sandbox]`: the limits for evaluating a repository's programs; `[helm]` and `[kustomize]`: the external programs
//! that an evaluation may run.

use crate::base::config::error::ConfigError;
use crate::base::config::load::hosts;
use crate::base::config::reader::SettingsReader;
use crate::base::config::settings::{ProgramSettings, SandboxSettings};
use crate::base::config::sources::ConfigSources;
use crate::base::system::LayerName;
use std::path::PathBuf;
use std::time::Duration;

pub(super) fn sandbox(reader: &mut SettingsReader<'_>) -> SandboxSettings {
    let settings = SandboxSettings {
        time_max: Duration::from_secs(reader.integer("sandbox.seconds_max")),
        memory_bytes_max: reader.integer("sandbox.memory_bytes_max"),
        stack_bytes_max: reader.integer("sandbox.stack_bytes_max"),
        output_bytes_max: reader.integer("sandbox.output_bytes_max"),
        values_max: reader.integer("sandbox.values_max"),
        objects_max: reader.integer("sandbox.objects_max"),
        imports_max: reader.integer("sandbox.imports_max"),
        import_bytes_max: reader.integer("sandbox.import_bytes_max"),
        file_bytes_max: reader.integer("sandbox.file_bytes_max"),
        turn_time_max: Duration::from_secs(reader.integer("sandbox.turn_seconds_max")),
        nesting_max: reader.integer("sandbox.nesting_max"),
        jails_max: reader.integer("sandbox.jails_max"),
        idle_max: reader.integer("sandbox.idle_max"),
        renders_ahead: reader.boolean("sandbox.renders_ahead"),
        recycle_bytes: reader.integer("sandbox.recycle_bytes"),
        imports_denied: reader.list("sandbox.imports_denied"),
        secrets_denied: reader.list("sandbox.secrets_denied"),
        layers_missing: reader.list("sandbox.layers_missing"),
        programs: programs(reader),
    };
    // The value is not repeated: it might be a secret in the wrong place.
    for (key, globs) in [
        ("sandbox.imports_denied", &settings.imports_denied),
        ("sandbox.secrets_denied", &settings.secrets_denied),
    ] {
        for (place, glob) in globs.iter().enumerate() {
            if globset::Glob::new(glob).is_err() {
                let why = format!("entry {} is not a glob", place + 1);
                reader.problem(key, why);
            }
        }
    }
    for (place, layer) in settings.layers_missing.iter().enumerate() {
        let known = LayerName::ALL.map(LayerName::name);
        if !known.contains(&layer.as_str()) {
            let why = format!(
                "entry {} is not a layer of this system; its layers are {}",
                place + 1,
                known.join(", ")
            );
            reader.problem("sandbox.layers_missing", why);
        }
    }
    settings
}

fn programs(reader: &mut SettingsReader<'_>) -> ProgramSettings {
    ProgramSettings {
        helm: program(reader, "helm.program"),
        kustomize: program(reader, "kustomize.program"),
        hosts_allowed: hosts(reader, "helm.hosts_allowed", "charts.example.com"),
        time_max: Duration::from_secs(reader.integer("helm.seconds_max")),
        memory_bytes_max: reader.integer("helm.memory_bytes_max"),
        output_bytes_max: reader.integer("helm.output_bytes_max"),
        scratch: std::env::temp_dir(),
    }
}

/// Reads the absolute path of an external program. A relative path could refer to a file in a repository.
fn program(reader: &mut SettingsReader<'_>, key: &str) -> Option<PathBuf> {
    let path = reader.path(key)?;
    if !path.is_absolute() {
        reader.problem(key, "expected an absolute path, such as /usr/local/bin/helm");
    }
    Some(path)
}

impl SandboxSettings {
    /// Reads the sandbox settings for a command that has no other settings.
    pub fn read(sources: &ConfigSources) -> Result<Self, ConfigError> {
        let mut reader = SettingsReader::new(sources);
        let settings = sandbox(&mut reader);
        reader.finish()?;
        Ok(settings)
    }
}

impl Default for SandboxSettings {
    fn default() -> Self {
        sandbox(&mut SettingsReader::new(&ConfigSources::default()))
    }
}
