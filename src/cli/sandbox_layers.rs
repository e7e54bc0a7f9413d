//! Checks the sandbox before a command evaluates. If the system lacks a required layer, the error names the layer,
//! the consequence and the possible remedies.

use super::CliError;
use crate::rendering::sandbox::{self, LayerName, LayerStatus, ProgramPath, SandboxError, SandboxLayer};

/// The layers of this system, or the reason why they are unknown.
pub(super) type FoundLayers = Result<Vec<SandboxLayer>, SandboxError>;

/// Tries the layers of this system. Starts a process and waits for it.
pub(super) fn find_layers() -> FoundLayers {
    sandbox::layers(&ProgramPath::current())
}

/// Returns the layers of this system. Fails with exit code 78 if a layer that is not in `may_lack` is missing.
pub(super) fn check_layers(found: FoundLayers, may_lack: &[String]) -> Result<LayerStatus, CliError> {
    match found.and_then(|layers| sandbox::layer_status(layers, may_lack)) {
        Ok(status) => Ok(status),
        Err(SandboxError::MissingLayers(missing)) => {
            Err(CliError::config(missing_layers_message(&missing, may_lack)))
        }
        Err(error @ SandboxError::NotStarted(_)) => Err(CliError::failed(error)),
    }
}

/// Returns a warning about layers that are missing as allowed by the configuration; `None` if all are present.
pub(super) fn absent_layers_note(status: &LayerStatus) -> Option<String> {
    let absent = status.absent.as_slice();
    (!absent.is_empty()).then(|| {
        let losses: Vec<&str> = absent.iter().map(|layer| layer.loss()).collect();
        format!(
            "this system lacks {}; the configuration allows this. {}",
            format_layers(absent),
            losses.join(" ")
        )
    })
}

/// Returns layers by their names for users.
pub(super) fn format_layers(layers: &[LayerName]) -> String {
    let names: Vec<String> = layers.iter().map(ToString::to_string).collect();
    names.join(", ")
}

fn missing_layers_message(missing: &[LayerName], may_lack: &[String]) -> String {
    let losses: Vec<String> = missing
        .iter()
        .map(|layer| format!("  {layer}: {}", layer.loss()))
        .collect();
    let origins: Vec<String> = missing
        .iter()
        .map(|layer| format!("{layer} needs {}", layer.origin()))
        .collect();
    // Layers that are already configured as optional stay in the list.
    let names = may_lack
        .iter()
        .map(String::as_str)
        .chain(missing.iter().map(|layer| layer.name()));
    let names: Vec<&str> = names.collect();
    format!(
        "This system lacks {} of the sandbox that programs of a repository are evaluated in.\n{}\n\
         Nothing was started. There are two solutions:\n  \
         a newer kernel, or a runtime that allows it: {}.\n  \
         run without it, if you trust the evaluated programs: `sandbox.layers_missing = [\"{}\"]` in the \
         configuration,\n    \
         DRYDOCK_SANDBOX__LAYERS_MISSING={} in the environment, or `--layers-missing {}` of the demo.\n\
         SECURITY.md says which systems have which layers.",
        format_layers(missing),
        losses.join("\n"),
        origins.join("; "),
        names.join("\", \""),
        names.join(","),
        names.join(","),
    )
}

#[cfg(test)]
mod tests {
    use super::{absent_layers_note, missing_layers_message};
    use crate::rendering::sandbox::{LayerName, LayerStatus};

    #[test]
    fn a_missing_layer_is_named_with_what_it_means_and_both_ways_out() {
        let [listed, missing, ..] = LayerName::ALL;
        let text = missing_layers_message(&[missing], &[listed.name().to_owned()]);
        let (listed, name) = (listed.name(), missing.name());
        for said in [
            format!(
                "This system lacks {missing} of the sandbox that programs of a repository are evaluated in.\n"
            ),
            format!("\n  {missing}: {}\n", missing.loss()),
            format!("allows it: {missing} needs {}.\n", missing.origin()),
            format!("`sandbox.layers_missing = [\"{listed}\", \"{name}\"]` in the configuration"),
            format!("DRYDOCK_SANDBOX__LAYERS_MISSING={listed},{name} in the environment"),
            format!("`--layers-missing {listed},{name}` of the demo"),
        ] {
            assert!(text.contains(&said), "{said}\n{text}");
        }
    }

    #[test]
    fn a_tolerated_missing_layer_gives_one_warning_and_a_full_sandbox_none() {
        let with = |absent: Vec<LayerName>| LayerStatus {
            present: Vec::new(),
            absent,
        };
        assert_eq!(absent_layers_note(&with(Vec::new())), None);
        let [missing, ..] = LayerName::ALL;
        let expected = format!(
            "this system lacks {missing}; the configuration allows this. {}",
            missing.loss()
        );
        assert_eq!(absent_layers_note(&with(vec![missing])), Some(expected));
    }
}
