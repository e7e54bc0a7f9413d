//! The native functions that Tanka adds to the language, as pure functions of JSON. The ones that
//! would start a program do not: they say what is needed.

mod json;
mod regex;
mod text;
mod yaml;

use super::message::Failure;
use super::path;
use serde_json::Value;
use sha2::{Digest, Sha256};
pub(super) use text::text;

/// One function of `std.native`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Native {
    ParseJson,
    ParseYaml,
    ManifestJsonFromJson,
    ManifestYamlFromJson,
    EscapeStringRegex,
    RegexMatch,
    RegexSubst,
    Sha256,
    HelmTemplate,
    KustomizeBuild,
}

/// Every function there is.
pub(super) const ALL: [Native; 10] = [
    Native::ParseJson,
    Native::ParseYaml,
    Native::ManifestJsonFromJson,
    Native::ManifestYamlFromJson,
    Native::EscapeStringRegex,
    Native::RegexMatch,
    Native::RegexSubst,
    Native::Sha256,
    Native::HelmTemplate,
    Native::KustomizeBuild,
];

/// Why a function has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NativeError {
    /// The program is told.
    #[error("{0}")]
    Said(String),
    /// The caller of the evaluation is told, too.
    #[error("this needs a program that is not enabled")]
    Cause(Failure),
}

impl NativeError {
    pub(super) fn said(message: impl Into<String>) -> Self {
        Self::Said(message.into())
    }

    /// What the caller of the evaluation must know.
    pub(super) fn into_cause(self) -> Option<Failure> {
        match self {
            Self::Said(_) => None,
            Self::Cause(failure) => Some(failure),
        }
    }
}

/// The function of that name.
pub(super) fn named(name: &str) -> Result<Native, NativeError> {
    let native = ALL.into_iter().find(|native| native.name() == name);
    native.ok_or_else(|| NativeError::said(format!("no native function `{name}`")))
}

impl Native {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ParseJson => "parseJson",
            Self::ParseYaml => "parseYaml",
            Self::ManifestJsonFromJson => "manifestJsonFromJson",
            Self::ManifestYamlFromJson => "manifestYamlFromJson",
            Self::EscapeStringRegex => "escapeStringRegex",
            Self::RegexMatch => "regexMatch",
            Self::RegexSubst => "regexSubst",
            Self::Sha256 => "sha256",
            Self::HelmTemplate => "helmTemplate",
            Self::KustomizeBuild => "kustomizeBuild",
        }
    }

    pub(super) fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::ParseJson | Self::ManifestYamlFromJson => &["json"],
            Self::ParseYaml => &["yaml"],
            Self::ManifestJsonFromJson => &["json", "indent"],
            Self::EscapeStringRegex | Self::Sha256 => &["str"],
            Self::RegexMatch => &["regex", "string"],
            Self::RegexSubst => &["regex", "src", "repl"],
            Self::HelmTemplate => &["name", "chart", "opts"],
            Self::KustomizeBuild => &["path", "opts"],
        }
    }

    /// Calls it.
    pub(super) fn call(self, arguments: &[Value]) -> Result<Value, NativeError> {
        let text = |index: usize| self.text(arguments, index);
        match self {
            Self::ParseJson => json::parse(text(0)?),
            Self::ParseYaml => yaml::parse(text(0)?).map(Value::Array),
            Self::ManifestJsonFromJson => {
                let indent = arguments.get(1).and_then(Value::as_f64);
                let indent = indent
                    .ok_or_else(|| NativeError::said("manifestJsonFromJson: indent is not a number"))?;
                json::indent(text(0)?, indent).map(Value::from)
            }
            Self::ManifestYamlFromJson => json::yaml(text(0)?).map(Value::from),
            Self::EscapeStringRegex => Ok(regex::quote(text(0)?).into()),
            Self::RegexMatch => regex::is_match(text(0)?, text(1)?).map(Value::from),
            Self::RegexSubst => regex::replace(text(0)?, text(1)?, text(2)?).map(Value::from),
            Self::Sha256 => Ok(sha256(text(0)?).into()),
            Self::HelmTemplate => {
                let chart = called_from(
                    arguments.get(2),
                    "helmTemplate",
                    "find your charts",
                    "helm",
                    text(1)?,
                )?;
                Err(NativeError::Cause(Failure::Helm { chart }))
            }
            Self::KustomizeBuild => {
                let doing = "find your Kustomize targets";
                let path = called_from(arguments.get(1), "kustomizeBuild", doing, "kustomize", text(0)?)?;
                Err(NativeError::Cause(Failure::Kustomize { path }))
            }
        }
    }

    fn text(self, arguments: &[Value], index: usize) -> Result<&str, NativeError> {
        arguments.get(index).and_then(Value::as_str).ok_or_else(|| {
            let parameter = self.parameters().get(index).unwrap_or(&"argument");
            NativeError::said(format!("{}: {parameter} is not a string", self.name()))
        })
    }
}

/// The directory a program would work in, relative to the root where it is inside.
fn called_from(
    options: Option<&Value>,
    function: &str,
    doing: &str,
    page: &str,
    directory: &str,
) -> Result<String, NativeError> {
    let from = options
        .and_then(|options| options.get("calledFrom"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    if from.is_empty() {
        return Err(NativeError::said(format!(
            "{function}: 'opts.calledFrom' is unset or empty.\nTanka needs this to {doing}. \
             See https://tanka.dev/{page}#optscalledfrom-unset"
        )));
    }
    let base = from.rsplit_once('/').map_or("", |(base, _)| base);
    Ok(path::clean(base, directory).unwrap_or_else(|| directory.to_owned()))
}

fn sha256(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{ALL, Native, NativeError, named};
    use crate::jsonnet::message::Failure;
    use serde_json::json;

    #[test]
    fn every_function_is_found_by_its_name() {
        for native in ALL {
            assert_eq!(named(native.name()), Ok(native));
        }
        assert!(named("exec").is_err());
    }

    #[test]
    fn sha256_is_hexadecimal() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Native::Sha256.call(&[json!("abc")]), Ok(json!(expected)));
    }

    /// T50
    #[test]
    fn helm_is_named_and_never_started() {
        let options = json!({ "calledFrom": "environments/dev/main.jsonnet" });
        let call = |chart: &str| {
            Native::HelmTemplate.call(&[json!("--post-renderer=./x"), json!(chart), options.clone()])
        };
        let needs = |chart: &str| {
            Err(NativeError::Cause(Failure::Helm {
                chart: chart.to_owned(),
            }))
        };
        assert_eq!(call("./charts/a"), needs("environments/dev/charts/a"));
        assert_eq!(call("../../charts/a"), needs("charts/a"));
        assert_eq!(call("../../../x"), needs("../../../x"));
        let unset = Native::HelmTemplate
            .call(&[json!("n"), json!("c"), json!({})])
            .unwrap_err();
        assert_eq!(
            unset.to_string(),
            "helmTemplate: 'opts.calledFrom' is unset or empty.\nTanka needs this to find your charts. \
             See https://tanka.dev/helm#optscalledfrom-unset"
        );
    }

    #[test]
    fn an_argument_of_the_wrong_kind_is_named() {
        let error = Native::RegexSubst
            .call(&[json!("a"), json!(1), json!("b")])
            .unwrap_err();
        assert_eq!(error.to_string(), "regexSubst: src is not a string");
    }
}
