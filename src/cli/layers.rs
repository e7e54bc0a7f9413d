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
        let may_lack = ["parent_death".to_owned()];
        let expected = "\
This system lacks Landlock, seccomp of the jail that programs of a repository are evaluated in.
  Landlock: One layer less keeps a program that is evaluated from files and the network: seccomp alone does.
  seccomp: A program that breaks out of the evaluator may use every system call of its user; Landlock alone keeps it from files.
Nothing was started. There are two ways out:
  a newer kernel, or a runtime that lets it through: Landlock needs Linux 5.13 or newer, built with it and started with \
`landlock` in its list `lsm=` (see /sys/kernel/security/lsm); seccomp needs Linux 4.8 or newer, built with CONFIG_SECCOMP_FILTER.
  doing without, if you trust what is evaluated: `sandbox.layers_missing = [\"parent_death\", \"landlock\", \"system_calls\"]` in the configuration,
    DRYDOCK_SANDBOX__LAYERS_MISSING=parent_death,landlock,system_calls in the environment, or `--layers-missing parent_death,landlock,system_calls` of the demo.
SECURITY.md says which systems have which layers.";
        let missing = [LayerName::Landlock, LayerName::SystemCalls];
        assert_eq!(explained(&missing, &may_lack), expected);
    }

    #[test]
    fn a_layer_that_may_be_missing_is_one_line_and_none_is_nothing() {
        let with = |absent: Vec<LayerName>| Standing {
            present: Vec::new(),
            absent,
        };
        assert_eq!(told(&with(Vec::new())), None);
        let told = told(&with(vec![LayerName::Landlock])).unwrap_or_default();
        assert!(
            told.starts_with("this system lacks Landlock, and does without, as configured. One layer less"),
            "{told}"
        );
    }
}
