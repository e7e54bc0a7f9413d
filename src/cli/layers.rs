//! The first thing that is said on a system that cannot confine as much as is required: which layer of the jail is missing,
//! what that means, and the ways out. A command that evaluates asks here before it does anything else.

use super::Failure;
use crate::sandbox::{self, JailError, LayerName, Program, Standing};

/// The layers this system has, and those it may do without. A failure with code 78 where another one is missing.
pub(super) fn required(may_lack: &[String]) -> Result<Standing, Failure> {
    match sandbox::standing(&Program::this(), may_lack) {
        Ok(standing) => Ok(standing),
        Err(JailError::Weaker(missing)) => Err(Failure::config(explained(&missing, may_lack))),
        Err(error @ JailError::NotStarted(_)) => Err(Failure::failed(error)),
    }
}

/// A line for a system that does without layers because somebody said so; none where it has all.
pub(super) fn told(standing: &Standing) -> Option<String> {
    let absent = standing.absent.as_slice();
    (!absent.is_empty()).then(|| {
        let losses: Vec<&str> = absent.iter().map(|layer| layer.loss()).collect();
        format!(
            "this system lacks {}, and does without, as configured. {}",
            listed(absent),
            losses.join(" ")
        )
    })
}

/// Layers as people call them.
pub(super) fn listed(layers: &[LayerName]) -> String {
    let names: Vec<String> = layers.iter().map(ToString::to_string).collect();
    names.join(", ")
}

fn explained(missing: &[LayerName], may_lack: &[String]) -> String {
    let losses: Vec<String> = missing
        .iter()
        .map(|layer| format!("  {layer}: {}", layer.loss()))
        .collect();
    let origins: Vec<String> = missing
        .iter()
        .map(|layer| format!("{layer} needs {}", layer.origin()))
        .collect();
    // What is listed already stays listed.
    let names = may_lack
        .iter()
        .map(String::as_str)
        .chain(missing.iter().map(|layer| layer.name()));
    let names: Vec<&str> = names.collect();
    format!(
        "This system lacks {} of the jail that programs of a repository are evaluated in.\n{}\n\
         Nothing was started. There are two ways out:\n  \
         a newer kernel, or a runtime that lets it through: {}.\n  \
         doing without, if you trust what is evaluated: `sandbox.layers_missing = [\"{}\"]` in the configuration,\n    \
         DRYDOCK_SANDBOX__LAYERS_MISSING={} in the environment, or `--layers-missing {}` of the demo.\n\
         SECURITY.md says which systems have which layers.",
        listed(missing),
        losses.join("\n"),
        origins.join("; "),
        names.join("\", \""),
        names.join(","),
        names.join(","),
    )
}

#[cfg(test)]
mod tests {
    use super::{explained, told};
    use crate::sandbox::{LayerName, Standing};

    #[test]
    fn a_missing_layer_is_named_with_what_it_means_and_both_ways_out() {
        let [listed, missing, ..] = LayerName::ALL;
        let text = explained(&[missing], &[listed.name().to_owned()]);
        let (listed, name) = (listed.name(), missing.name());
        for said in [
            format!(
                "This system lacks {missing} of the jail that programs of a repository are evaluated in.\n"
            ),
            format!("\n  {missing}: {}\n", missing.loss()),
            format!("through: {missing} needs {}.\n", missing.origin()),
            format!("`sandbox.layers_missing = [\"{listed}\", \"{name}\"]` in the configuration"),
            format!("DRYDOCK_SANDBOX__LAYERS_MISSING={listed},{name} in the environment"),
            format!("`--layers-missing {listed},{name}` of the demo"),
        ] {
            assert!(text.contains(&said), "{said}\n{text}");
        }
    }

    #[test]
    fn a_layer_that_may_be_missing_is_one_line_and_none_is_nothing() {
        let with = |absent: Vec<LayerName>| Standing {
            present: Vec::new(),
            absent,
        };
        assert_eq!(told(&with(Vec::new())), None);
        let [missing, ..] = LayerName::ALL;
        let expected = format!(
            "this system lacks {missing}, and does without, as configured. {}",
            missing.loss()
        );
        assert_eq!(told(&with(vec![missing])), Some(expected));
    }
}
