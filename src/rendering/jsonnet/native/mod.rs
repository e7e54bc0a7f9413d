//! The native functions that Tanka adds to the language, as pure functions of JSON. Functions that need an external
//! program request a run, and return an error that names the program if it is not enabled.

mod word_case;
mod external_program;
mod format;
mod json;
mod manifest;
mod math;
mod name_format;
mod regex;
mod standard_overrides;
mod text;
mod toml;
mod yaml;
mod yaml_doc;
mod yaml_scalar;

pub(super) use self::external_program::ProgramRunner;
use super::external_program::ProgramCall;
use super::message::EngineFailure;
pub(super) use format::{FormatError, FormatString};
pub(super) use manifest::{escape_bash, escape_xml, std_to_string};
pub(super) use math::frexp;
use serde_json::Value;
use sha2::{Digest, Sha256};
pub(super) use standard_overrides::{STANDARD_OVERRIDES, StandardOverride};
pub(super) use text::text;
pub(super) use yaml_doc::{KeyQuotes, ListIndent, YamlLayout, yaml_document};

/// One function of `std.native`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NativeFunction {
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

pub(super) const ALL: [NativeFunction; 10] = [
    NativeFunction::ParseJson,
    NativeFunction::ParseYaml,
    NativeFunction::ManifestJsonFromJson,
    NativeFunction::ManifestYamlFromJson,
    NativeFunction::EscapeStringRegex,
    NativeFunction::RegexMatch,
    NativeFunction::RegexSubst,
    NativeFunction::Sha256,
    NativeFunction::HelmTemplate,
    NativeFunction::KustomizeBuild,
];

/// The reason why a function failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NativeError {
    /// An error that the Jsonnet program receives.
    #[error("{0}")]
    Message(String),
    /// A failure that the caller of the evaluation receives as well.
    #[error("this needs a program that is not enabled")]
    Cause(EngineFailure),
}

impl NativeError {
    pub(super) fn message(message: impl Into<String>) -> Self {
        Self::Message(message.into())
    }

    /// Creates the error for a program that is not enabled.
    pub(super) fn program_disabled(call: &ProgramCall) -> Self {
        Self::Cause(match call {
            ProgramCall::Helm(template) => EngineFailure::Helm {
                chart: template.chart.clone(),
            },
            ProgramCall::Kustomize { path } => EngineFailure::Kustomize { path: path.clone() },
        })
    }

    /// Returns the failure that the caller of the evaluation must know, if there is one.
    pub(super) fn into_cause(self) -> Option<EngineFailure> {
        match self {
            Self::Message(_) => None,
            Self::Cause(failure) => Some(failure),
        }
    }
}

pub(crate) use yaml::event as yaml_event;

/// Parses the documents of a YAML text.
pub(super) fn yaml_documents(text: &str) -> Result<Vec<Value>, NativeError> {
    yaml::parse(text)
}

pub(super) fn find_function(name: &str) -> Result<NativeFunction, NativeError> {
    let native = ALL.into_iter().find(|native| native.name() == name);
    native.ok_or_else(|| NativeError::message(format!("no native function `{name}`")))
}

impl NativeFunction {
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

    /// Calls the function. `run` runs external programs.
    pub(super) fn call(self, arguments: &[Value], run: ProgramRunner<'_>) -> Result<Value, NativeError> {
        let text = |index: usize| self.text_argument(arguments, index);
        match self {
            Self::ParseJson => json::parse(text(0)?),
            Self::ParseYaml => yaml::parse(text(0)?).map(Value::Array),
            Self::ManifestJsonFromJson => {
                let indent = arguments.get(1).and_then(Value::as_f64);
                let indent = indent
                    .ok_or_else(|| NativeError::message("manifestJsonFromJson: indent is not a number"))?;
                json::indent(text(0)?, indent).map(Value::from)
            }
            Self::ManifestYamlFromJson => json::json_to_yaml(text(0)?).map(Value::from),
            Self::EscapeStringRegex => Ok(regex::quote(text(0)?).into()),
            Self::RegexMatch => regex::is_match(text(0)?, text(1)?).map(Value::from),
            Self::RegexSubst => regex::replace(text(0)?, text(1)?, text(2)?).map(Value::from),
            Self::Sha256 => Ok(sha256(text(0)?).into()),
            Self::HelmTemplate => {
                self::external_program::helm_template(text(0)?, text(1)?, arguments.get(2), run)
            }
            Self::KustomizeBuild => self::external_program::kustomize_build(text(0)?, arguments.get(1), run),
        }
    }

    fn text_argument(self, arguments: &[Value], index: usize) -> Result<&str, NativeError> {
        arguments.get(index).and_then(Value::as_str).ok_or_else(|| {
            let parameter = self.parameters().get(index).unwrap_or(&"argument");
            NativeError::message(format!("{}: {parameter} is not a string", self.name()))
        })
    }
}

/// Returns the name of a value's type.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{ALL, NativeError, NativeFunction, find_function};
    use crate::rendering::jsonnet::external_program::ProgramCall;
    use crate::rendering::jsonnet::message::EngineFailure;
    use serde_json::{Value, json};

    fn call(native: NativeFunction, arguments: &[Value]) -> Result<Value, NativeError> {
        native.call(arguments, &|call| Err(NativeError::program_disabled(call)))
    }

    #[test]
    fn every_function_is_found_by_its_name() {
        for native in ALL {
            assert_eq!(find_function(native.name()), Ok(native));
        }
        assert!(find_function("exec").is_err());
    }

    #[test]
    fn sha256_is_hexadecimal() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(call(NativeFunction::Sha256, &[json!("abc")]), Ok(json!(expected)));
    }

    /// T50
    #[test]
    fn helm_is_named_where_there_is_none() {
        let options = json!({ "calledFrom": "environments/dev/main.jsonnet" });
        let template = |chart: &str| {
            let arguments = [json!("--post-renderer=./x"), json!(chart), options.clone()];
            call(NativeFunction::HelmTemplate, &arguments)
        };
        let needs = |chart: &str| {
            Err(NativeError::Cause(EngineFailure::Helm {
                chart: chart.to_owned(),
            }))
        };
        assert_eq!(template("./charts/a"), needs("environments/dev/charts/a"));
        assert_eq!(template("../../charts/a"), needs("charts/a"));
        assert_eq!(template("../../../x"), needs("../../../x"));
        let unset = call(NativeFunction::HelmTemplate, &[json!("n"), json!("c"), json!({})]).unwrap_err();
        assert_eq!(
            unset.to_string(),
            "helmTemplate: 'opts.calledFrom' is unset or empty.\nTanka needs this to find your charts. \
             See https://tanka.dev/helm#optscalledfrom-unset"
        );
    }

    /// Returns the helm call that a template makes, and its result.
    fn template(options: Value, output: &str) -> (Option<ProgramCall>, Result<Value, NativeError>) {
        let asked = std::cell::RefCell::new(None);
        let run = |call: &ProgramCall| {
            asked.replace(Some(call.clone()));
            Ok(output.to_owned())
        };
        let arguments = [json!("web"), json!("./charts/a"), options];
        let answer = NativeFunction::HelmTemplate.call(&arguments, &run);
        (asked.into_inner(), answer)
    }

    #[test]
    fn options_are_read_as_go_reads_them() {
        let options = json!({
            "calledFrom": "main.jsonnet", "values": { "replicas": 2, "size": 1000000 }, "includeCRDs": false,
            "apiVersions": ["a/v1"], "kubeVersion": "1.30", "noHooks": true, "namespace": "x", "skipTests": null,
        });
        let Some(ProgramCall::Helm(asked)) = template(options, "").0 else {
            panic!("helm is asked");
        };
        assert_eq!(asked.values, "replicas: 2\nsize: 1e+06\n");
        assert_eq!(
            (asked.include_crds, asked.no_hooks, asked.skip_tests),
            (false, true, false)
        );
        assert_eq!(asked.api_versions, ["a/v1"]);
        assert_eq!(
            (asked.kube_version.as_str(), asked.namespace.as_str()),
            ("1.30", "x")
        );
        let Some(ProgramCall::Helm(plain)) = template(json!({ "calledFrom": "main.jsonnet" }), "").0 else {
            panic!("helm is asked");
        };
        assert_eq!((plain.values.as_str(), plain.include_crds), ("{}\n", true));
        for (field, value, why) in [
            ("values", json!([]), "opts.values is not an object"),
            (
                "apiVersions",
                json!([1]),
                "opts.apiVersions is not an array of strings",
            ),
            ("noHooks", json!("yes"), "opts.noHooks is not a boolean"),
            ("namespace", json!(1), "opts.namespace is not a string"),
        ] {
            let (asked, answer) = template(json!({ "calledFrom": "main.jsonnet", field: value }), "");
            assert_eq!(
                (asked, answer),
                (None, Err(NativeError::message(format!("helmTemplate: {why}"))))
            );
        }
    }

    #[test]
    fn objects_are_named_and_empty_documents_are_left_out() {
        let output = "---\n# only words\n---\nkind: ConfigMap\nmetadata: {name: a}\n---\n{}\n---\n\
                      kind: ConfigMap\nmetadata: {name: b}\n";
        let named = |format: Option<&str>| {
            let options = json!({ "calledFrom": "main.jsonnet", "nameFormat": format });
            template(options, output).1
        };
        let object = |name: &str| json!({ "kind": "ConfigMap", "metadata": { "name": name } });
        let expected = json!({ "config_map_a": object("a"), "config_map_b": object("b") });
        assert_eq!(named(None), Ok(expected));
        let expected = json!({ "a": object("a"), "b": object("b") });
        assert_eq!(named(Some("{{ .metadata.name }}")), Ok(expected));
        assert_eq!(
            named(Some("{{ .kind }}")),
            Err(NativeError::message(
                "Two resources share the same name 'ConfigMap'. Please adapt the name template '{{ .kind }}'."
            ))
        );
        let (_, list) = template(json!({ "calledFrom": "main.jsonnet" }), "- a\n");
        assert_eq!(
            list,
            Err(NativeError::message("helmTemplate: a document is not an object"))
        );
    }

    #[test]
    fn an_argument_of_the_wrong_kind_is_named() {
        let error = call(NativeFunction::RegexSubst, &[json!("a"), json!(1), json!("b")]).unwrap_err();
        assert_eq!(error.to_string(), "regexSubst: src is not a string");
    }
}
