//! The functions `helmTemplate` and `kustomizeBuild`: their calls of an external program, and the objects of its YAML.
//! The output is parsed in the sandbox, like everything else that the repository influences.

use super::{NativeError, json, name_format, yaml};
use crate::rendering::jsonnet::external_program::{HelmTemplate, ProgramCall};
use crate::rendering::jsonnet::path;
use serde_json::{Map, Value};

/// Bytes of the values of a chart.
const VALUES_BYTES_MAX: usize = 1 << 20;
/// Levels of nesting of the values of a chart.
const DEPTH_MAX: usize = 128;
/// The default template for the names of objects.
const NAME_FORMAT: &str = "{{ print .kind \"_\" .metadata.name | snakecase }}";

/// The function that runs a program. It always refuses if none is enabled.
pub(in crate::rendering::jsonnet) type ProgramRunner<'a> =
    &'a dyn Fn(&ProgramCall) -> Result<String, NativeError>;

/// Returns the objects of a chart by name.
pub(super) fn helm_template(
    name: &str,
    chart: &str,
    options: Option<&Value>,
    run: ProgramRunner<'_>,
) -> Result<Value, NativeError> {
    let options = CallOptions::new("helmTemplate", options)?;
    let chart = options.resolve_directory("find your charts", "helm", chart)?;
    let call = ProgramCall::Helm(HelmTemplate {
        name: name.to_owned(),
        chart: chart.clone(),
        values: options.values()?,
        api_versions: options.texts("apiVersions")?,
        include_crds: options.switch("includeCrds")?.unwrap_or(true),
        skip_tests: options.switch("skipTests")?.unwrap_or(false),
        kube_version: options.text("kubeVersion")?.to_owned(),
        no_hooks: options.switch("noHooks")?.unwrap_or(false),
        namespace: options.text("namespace")?.to_owned(),
    });
    let output = run(&call).map_err(|error| options.with_directory(&chart, error))?;
    let mut objects = yaml::parse(&output)?;
    // Charts can produce documents that contain only comments.
    objects.retain(|object| !object.is_null() && object.as_object().is_none_or(|object| !object.is_empty()));
    options.by_name(objects)
}

/// Returns the objects of a kustomization by name.
pub(super) fn kustomize_build(
    path: &str,
    options: Option<&Value>,
    run: ProgramRunner<'_>,
) -> Result<Value, NativeError> {
    let options = CallOptions::new("kustomizeBuild", options)?;
    let path = options.resolve_directory("find your Kustomize targets", "kustomize", path)?;
    let call = ProgramCall::Kustomize { path: path.clone() };
    let output = run(&call).map_err(|error| options.with_directory(&path, error))?;
    options.by_name(yaml::parse(&output)?)
}

struct CallOptions<'a> {
    function: &'static str,
    fields: Option<&'a Map<String, Value>>,
}

impl<'a> CallOptions<'a> {
    fn new(function: &'static str, options: Option<&'a Value>) -> Result<Self, NativeError> {
        let fields = match options {
            None | Some(Value::Null) => None,
            Some(Value::Object(fields)) => Some(fields),
            Some(_) => return Err(NativeError::message(format!("{function}: opts is not an object"))),
        };
        Ok(Self { function, fields })
    }

    /// Resolves a directory relative to the calling file, and returns its path from the root of the tree.
    fn resolve_directory(&self, doing: &str, page: &str, directory: &str) -> Result<String, NativeError> {
        let from = self.text("calledFrom")?;
        if from.is_empty() {
            return Err(self.wrong(&format!(
                "'opts.calledFrom' is unset or empty.\nTanka needs this to {doing}. \
                 See https://tanka.dev/{page}#optscalledfrom-unset"
            )));
        }
        let base = from.rsplit_once('/').map_or("", |(base, _)| base);
        // A path that leaves the root stays unchanged, and the lookup refuses it.
        Ok(path::clean(base, directory).unwrap_or_else(|| directory.to_owned()))
    }

    fn values(&self) -> Result<String, NativeError> {
        let none = Value::Object(Map::new());
        let values = match self.field("values") {
            None => &none,
            Some(values @ Value::Object(_)) if is_shallow(values, DEPTH_MAX) => values,
            Some(Value::Object(_)) => {
                return Err(self.wrong(&format!("opts.values nests more than {DEPTH_MAX} levels")));
            }
            Some(_) => return Err(self.wrong_type("values", "an object")),
        };
        let text = json::document(values);
        match text.len() > VALUES_BYTES_MAX {
            true => Err(self.wrong(&format!("opts.values has more than {VALUES_BYTES_MAX} bytes"))),
            false => Ok(text),
        }
    }

    fn text(&self, name: &str) -> Result<&'a str, NativeError> {
        match self.field(name) {
            None => Ok(""),
            Some(value) => value.as_str().ok_or_else(|| self.wrong_type(name, "a string")),
        }
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, NativeError> {
        let Some(value) = self.field(name) else {
            return Ok(Vec::new());
        };
        let texts = value.as_array().and_then(|items| {
            let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>()
        });
        texts.ok_or_else(|| self.wrong_type(name, "an array of strings"))
    }

    fn switch(&self, name: &str) -> Result<Option<bool>, NativeError> {
        let value = self.field(name);
        let switch = value.map(|value| value.as_bool().ok_or_else(|| self.wrong_type(name, "a boolean")));
        switch.transpose()
    }

    /// Returns a field unless it is null. Go also reads `includeCRDs` as `includeCrds`.
    fn field(&self, name: &str) -> Option<&'a Value> {
        let fields = self.fields?;
        let exact = fields.get(name);
        let found = exact.or_else(|| {
            let mut alike = fields
                .iter()
                .filter(|(field, _)| field.eq_ignore_ascii_case(name));
            alike.next_back().map(|(_, value)| value)
        });
        found.filter(|value| !value.is_null())
    }

    fn by_name(&self, objects: Vec<Value>) -> Result<Value, NativeError> {
        let format = match self.text("nameFormat")? {
            "" => NAME_FORMAT,
            format => format,
        };
        let template = name_format::NameTemplate::parse(format).map_err(|why| self.wrong(&why))?;
        let mut by_name = Map::new();
        for object in objects {
            if !object.is_object() {
                return Err(self.wrong("a document is not an object"));
            }
            let name = template.name(&object).map_err(|why| self.wrong(&why))?;
            if by_name.contains_key(&name) {
                return Err(NativeError::message(format!(
                    "Two resources share the same name '{name}'. Please adapt the name template '{format}'."
                )));
            }
            by_name.insert(name, object);
        }
        Ok(Value::Object(by_name))
    }

    fn with_directory(&self, directory: &str, error: NativeError) -> NativeError {
        match error {
            NativeError::Message(why) => self.wrong(&format!("`{directory}`: {why}")),
            cause @ NativeError::Cause(_) => cause,
        }
    }

    fn wrong_type(&self, name: &str, kind: &str) -> NativeError {
        self.wrong(&format!("opts.{name} is not {kind}"))
    }

    fn wrong(&self, why: &str) -> NativeError {
        NativeError::message(format!("{}: {why}", self.function))
    }
}

fn is_shallow(value: &Value, left: usize) -> bool {
    match (value, left.checked_sub(1)) {
        (Value::Array(items), Some(left)) => items.iter().all(|item| is_shallow(item, left)),
        (Value::Object(fields), Some(left)) => fields.values().all(|value| is_shallow(value, left)),
        (Value::Array(_) | Value::Object(_), None) => false,
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => true,
    }
}
