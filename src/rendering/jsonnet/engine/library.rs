//! The standard library of the first engine with Tanka's additions, and with corrections where it differs from Go's.

use super::jrsonnet::{call, from_json, mark_task_dependent, native_error, to_json};
use super::operators;
use crate::rendering::jsonnet::native::{
    self, KeyQuotes, ListIndent, NativeFunction, StandardOverride, YamlLayout, escape_bash, escape_xml,
    frexp, std_to_string, text, yaml_document,
};
use crate::rendering::jsonnet::rewrite::{
    EQUAL_FUNCTION, LIST_FUNCTION, MODULO_FUNCTION, PLUS_FUNCTION, TEXT_FUNCTION, UNEQUAL_FUNCTION,
};
use jrsonnet_evaluator::error::ErrorKind;
use jrsonnet_evaluator::function::builtin::{NativeCallback, NativeCallbackHandler};
use jrsonnet_evaluator::function::{CallLocation, FuncVal, builtin};
use jrsonnet_evaluator::tla::TlaArg;
use jrsonnet_evaluator::trace::PathResolver;
use jrsonnet_evaluator::{
    ContextInitializer, IStr, InitialContextBuilder, ObjValue, ObjValueBuilder, Result, Source, Thunk, Val,
};
use jrsonnet_gcmodule::{Acyclic, Cc, Trace};
use jrsonnet_stdlib::{Settings, TracePrinter, stdlib_uncached};
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The `std` of every file of a state.
#[derive(Clone, Trace)]
pub(super) struct Library {
    std: ObjValue,
    /// The functions that rewritten sources call.
    functions: Vec<(IStr, FuncVal)>,
    settings: Cc<RefCell<Settings>>,
}

impl Library {
    pub(super) fn new() -> Self {
        let settings = Settings {
            ext_vars: HashMap::new(),
            ext_natives: HashMap::new(),
            trace_printer: Rc::new(DiscardTrace),
            // The engine uses this only for paths on a disk, which do not occur here.
            path_resolver: PathResolver::Absolute,
        };
        let settings = Cc::new(RefCell::new(settings));
        for native in native::ALL {
            let parameters = native.parameters().iter().map(ToString::to_string).collect();
            #[allow(deprecated, reason = "the way for functions whose signature is data")]
            let callback = NativeCallback::new(parameters, JsonFunctionCallback { native });
            let function = FuncVal::builtin(callback);
            settings
                .borrow_mut()
                .ext_natives
                .insert(native.name().into(), function);
        }
        let mut std = ObjValueBuilder::new();
        std.with_super(stdlib_uncached(settings.clone()));
        std.method(
            "extVar",
            ext_var {
                settings: settings.clone(),
            },
        );
        std.method("mantissa", mantissa {});
        std.method("exponent", exponent {});
        std.method("toString", to_string {});
        std.method("escapeStringJson", escape_string_json {});
        std.method("manifestYamlDoc", manifest_yaml_doc {});
        std.method("manifestYamlStream", manifest_yaml_stream {});
        std.method("escapeStringPython", escape_string_python {});
        std.method("format", format {});
        std.method("mod", modulo {});
        std.method("parseYaml", parse_yaml {});
        std.method("manifestIni", manifest_ini {});
        std.method("manifestToml", manifest_toml {});
        std.method("manifestTomlEx", manifest_toml_ex {});
        std.method("manifestPython", manifest_python {});
        std.method("manifestPythonVars", manifest_python_vars {});
        std.method("manifestXmlJsonml", manifest_xml_jsonml {});
        std.method("base64", base64 {});
        std.method("base64Decode", base64_decode {});
        std.method("max", max {});
        std.method("min", min {});
        std.method("manifestJson", manifest_json {});
        std.method("manifestJsonEx", manifest_json_ex {});
        std.method("manifestJsonMinified", manifest_json_minified {});
        std.method("escapeStringBash", escape_string_bash {});
        std.method("escapeStringDollars", escape_string_dollars {});
        std.method("escapeStringXML", escape_string_xml {});
        std.method("equals", equals {});
        std.method("trim", trim {});
        std.method("log", log {});
        std.method("log2", log2 {});
        std.method("log10", log10 {});
        std.method("pow", pow {});
        let functions = [
            (TEXT_FUNCTION, FuncVal::builtin(operators::text_of {})),
            (PLUS_FUNCTION, FuncVal::builtin(operators::plus {})),
            (MODULO_FUNCTION, FuncVal::builtin(operators::modulo_of {})),
            (EQUAL_FUNCTION, FuncVal::builtin(operators::equal {})),
            (UNEQUAL_FUNCTION, FuncVal::builtin(operators::unequal {})),
            (LIST_FUNCTION, FuncVal::builtin(operators::list {})),
        ];
        Self {
            std: std.build(),
            functions: functions.map(|(name, function)| (name.into(), function)).to_vec(),
            settings,
        }
    }

    /// Sets the external variables of the next program.
    pub(super) fn set_variables(&self, variables: impl Iterator<Item = (IStr, TlaArg)>) {
        self.settings.borrow_mut().ext_vars = variables.collect();
    }
}

impl ContextInitializer for Library {
    fn populate(&self, source: Source, builder: &mut InitialContextBuilder) {
        let mut std = ObjValueBuilder::new();
        std.with_super(self.std.clone());
        std.field("thisFile")
            .hide()
            .value(Val::string(source.source_path().to_string()));
        builder.bind("std", Thunk::evaluated(Val::Obj(std.build())));
        for (name, function) in &self.functions {
            builder.bind(name.clone(), Thunk::evaluated(Val::Func(function.clone())));
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A trace printer that discards the output of `std.trace`, since the standard error of a sandbox worker is not shown.
#[derive(Acyclic)]
struct DiscardTrace;

impl TracePrinter for DiscardTrace {
    fn print_trace(&self, _: CallLocation<'_>, _: IStr) {}
}

#[derive(Trace)]
struct JsonFunctionCallback {
    #[trace(skip)]
    native: NativeFunction,
}

impl NativeCallbackHandler for JsonFunctionCallback {
    fn call(&self, arguments: &[Val]) -> Result<Val> {
        call(self.native, arguments)
    }
}

/// The implementation of `std.extVar`, which also records whose value depends on the variables.
#[builtin(fields(
    settings: Cc<RefCell<Settings>>,
))]
fn ext_var(this: &ext_var, loc: CallLocation<'_>, x: IStr) -> Result<Val> {
    mark_task_dependent(loc);
    let variable = this.settings.borrow().ext_vars.get(&x).cloned();
    variable
        .ok_or_else(|| ErrorKind::UndefinedExternalVariable(x))?
        .evaluate_tailstrict()
}

#[builtin]
fn mantissa(x: f64) -> f64 {
    frexp(x).0
}

#[builtin]
fn exponent(x: f64) -> f64 {
    frexp(x).1
}

/// Calls a function that both engines share.
fn standard(function: StandardOverride, arguments: &[serde_json::Value]) -> Result<Val> {
    from_json(function.call(arguments).map_err(native_error)?)
}

#[builtin]
fn to_string(a: Val) -> Result<Val> {
    match a {
        text @ Val::Str(_) => Ok(text),
        value => Ok(Val::string(text(&to_json(&value)?))),
    }
}

#[builtin]
fn escape_string_json(str_: Val) -> Result<String> {
    let value = match &str_ {
        Val::Str(text) => text.to_string(),
        value => text(&to_json(value)?),
    };
    Ok(text(&value.into()))
}

#[builtin]
fn escape_string_python(str: Val) -> Result<String> {
    Ok(text(&std_to_string(&to_json(&str)?).into()))
}

#[builtin]
fn format(str: IStr, vals: Val) -> Result<Val> {
    operators::formatted(&str, &vals)
}

#[builtin]
fn modulo(a: Val, b: Val) -> Result<Val> {
    operators::modulo_of_values(&a, &b)
}

#[builtin]
fn parse_yaml(str: IStr) -> Result<Val> {
    standard(StandardOverride::ParseYaml, &[str.as_str().into()])
}

#[builtin]
fn manifest_ini(ini: ObjValue) -> Result<Val> {
    let mut parts = serde_json::Map::new();
    let has_main = ini.fields().iter().any(|name| name.as_str() == "main");
    for name in ["main", "sections"] {
        if (name != "main" || has_main)
            && let Some(part) = ini.get(name.into())?
        {
            parts.insert(name.to_owned(), to_json(&part)?);
        }
    }
    standard(StandardOverride::Ini, &[parts.into()])
}

#[builtin]
fn manifest_toml(value: Val) -> Result<Val> {
    standard(StandardOverride::TomlEx, &[to_json(&value)?, "  ".into()])
}

#[builtin]
fn manifest_toml_ex(value: Val, indent: IStr) -> Result<Val> {
    standard(
        StandardOverride::TomlEx,
        &[to_json(&value)?, indent.as_str().into()],
    )
}

#[builtin]
fn manifest_python(v: Val) -> Result<Val> {
    standard(StandardOverride::Python, &[to_json(&v)?])
}

#[builtin]
fn manifest_python_vars(conf: Val) -> Result<Val> {
    standard(StandardOverride::PythonVars, &[to_json(&conf)?])
}

#[builtin]
fn manifest_xml_jsonml(value: Val) -> Result<Val> {
    standard(StandardOverride::Xml, &[to_json(&value)?])
}

#[builtin]
fn base64(input: Val) -> Result<Val> {
    standard(StandardOverride::Base64, &[to_json(&input)?])
}

#[builtin]
fn base64_decode(str: IStr) -> Result<Val> {
    standard(StandardOverride::Base64Decode, &[str.as_str().into()])
}

#[builtin]
fn max(a: f64, b: f64) -> Result<Val> {
    standard(StandardOverride::Max, &[a.into(), b.into()])
}

#[builtin]
fn min(a: f64, b: f64) -> Result<Val> {
    standard(StandardOverride::Min, &[a.into(), b.into()])
}

#[builtin]
fn manifest_json(value: Val) -> Result<Val> {
    let layout = ["    ", "\n", ": "].map(serde_json::Value::from);
    standard(
        StandardOverride::JsonEx,
        &[&[to_json(&value)?][..], &layout].concat(),
    )
}

#[builtin]
fn manifest_json_ex(
    value: Val,
    indent: IStr,
    newline: Option<IStr>,
    key_val_sep: Option<IStr>,
) -> Result<Val> {
    let newline = newline.as_deref().unwrap_or("\n").into();
    let separator = key_val_sep.as_deref().unwrap_or(": ").into();
    let arguments = [to_json(&value)?, indent.as_str().into(), newline, separator];
    standard(StandardOverride::JsonEx, &arguments)
}

#[builtin]
fn manifest_json_minified(value: Val) -> Result<Val> {
    let layout = ["", "", ":"].map(serde_json::Value::from);
    standard(
        StandardOverride::JsonEx,
        &[&[to_json(&value)?][..], &layout].concat(),
    )
}

#[builtin]
fn escape_string_bash(str_: Val) -> Result<String> {
    Ok(escape_bash(&std_to_string(&to_json(&str_)?)))
}

#[builtin]
fn escape_string_dollars(str_: Val) -> Result<String> {
    Ok(std_to_string(&to_json(&str_)?).replace('$', "$$"))
}

#[builtin]
fn escape_string_xml(str_: Val) -> Result<String> {
    Ok(escape_xml(&std_to_string(&to_json(&str_)?)))
}

#[builtin]
fn equals(a: Val, b: Val) -> Result<bool> {
    operators::are_equal(&a, &b)
}

#[builtin]
fn trim(str: IStr) -> String {
    str.trim().to_owned()
}

#[builtin]
fn log(x: f64) -> Result<Val> {
    standard(StandardOverride::Log, &[x.into()])
}

#[builtin]
fn log2(x: f64) -> Result<Val> {
    standard(StandardOverride::LogOf, &[2.into(), x.into()])
}

#[builtin]
fn log10(x: f64) -> Result<Val> {
    standard(StandardOverride::LogOf, &[10.into(), x.into()])
}

#[builtin]
fn pow(x: f64, n: f64) -> Result<Val> {
    standard(StandardOverride::Pow, &[x.into(), n.into()])
}

#[builtin]
fn manifest_yaml_doc(
    value: Val,
    #[default(false)] indent_array_in_object: bool,
    #[default(true)] quote_keys: bool,
) -> Result<String> {
    Ok(yaml_document(
        &to_json(&value)?,
        layout(indent_array_in_object, quote_keys),
    ))
}

#[builtin]
fn manifest_yaml_stream(
    value: Val,
    #[default(false)] indent_array_in_object: bool,
    #[default(true)] c_document_end: bool,
    #[default(true)] quote_keys: bool,
) -> Result<String> {
    let serde_json::Value::Array(documents) = to_json(&value)? else {
        let message = "manifestYamlStream only takes arrays";
        return Err(ErrorKind::RuntimeError(message.into()).into());
    };
    let layout = layout(indent_array_in_object, quote_keys);
    let documents = documents.iter().map(|document| yaml_document(document, layout));
    let documents: Vec<String> = documents.collect();
    let end = if c_document_end { "\n...\n" } else { "\n" };
    Ok(format!("---\n{}{end}", documents.join("\n---\n")))
}

fn layout(indent_array_in_object: bool, quote_keys: bool) -> YamlLayout {
    YamlLayout {
        lists_in_objects: match indent_array_in_object {
            true => ListIndent::Level,
            false => ListIndent::None,
        },
        keys: match quote_keys {
            true => KeyQuotes::All,
            false => KeyQuotes::Needed,
        },
    }
}
