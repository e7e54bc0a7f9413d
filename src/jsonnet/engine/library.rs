//! The standard library of the first engine, with what Tanka adds to it, and corrected where it differs
//! from Go's.

use super::jrsonnet::{call, depends, to_json};
use crate::jsonnet::native::{self, KeyQuotes, ListIndent, Native, YamlLayout, text, yaml_document};
use crate::jsonnet::reading::TEXT_FUNCTION;
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

/// Bits of the fraction of a number.
const FRACTION_BITS: u32 = 52;
/// The exponent, as it is stored, of a number from 1/2 up to 1.
const EXPONENT_OF_HALF: u64 = 1_022;
/// The bits of the exponent, moved to the end.
const EXPONENT_MASK: u64 = 0x7ff;

/// `std`, for every file of a state.
#[derive(Clone, Trace)]
pub(super) struct Library {
    std: ObjValue,
    /// What makes a text of a value that is added to a text.
    text: FuncVal,
    settings: Cc<RefCell<Settings>>,
}

impl Library {
    pub(super) fn new() -> Self {
        let settings = Settings {
            ext_vars: HashMap::new(),
            ext_natives: HashMap::new(),
            trace_printer: Rc::new(Silent),
            // Only asked about paths on a disk, and there are none.
            path_resolver: PathResolver::Absolute,
        };
        let settings = Cc::new(RefCell::new(settings));
        for native in native::ALL {
            let parameters = native.parameters().iter().map(ToString::to_string).collect();
            #[allow(deprecated, reason = "the way for functions whose signature is data")]
            let callback = NativeCallback::new(parameters, Handler { native });
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
        Self {
            std: std.build(),
            text: FuncVal::builtin(to_string {}),
            settings,
        }
    }

    /// The external variables of the next program.
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
        builder.bind(TEXT_FUNCTION, Thunk::evaluated(Val::Func(self.text.clone())));
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What `std.trace` prints is for nobody: the inmate's standard error is not read by people.
#[derive(Acyclic)]
struct Silent;

impl TracePrinter for Silent {
    fn print_trace(&self, _: CallLocation<'_>, _: IStr) {}
}

#[derive(Trace)]
struct Handler {
    #[trace(skip)]
    native: Native,
}

impl NativeCallbackHandler for Handler {
    fn call(&self, arguments: &[Val]) -> Result<Val> {
        call(self.native, arguments)
    }
}

/// `std.extVar`, which also notes whose value depends on the variables.
#[builtin(fields(
    settings: Cc<RefCell<Settings>>,
))]
fn ext_var(this: &ext_var, loc: CallLocation<'_>, x: IStr) -> Result<Val> {
    depends(loc);
    let variable = this.settings.borrow().ext_vars.get(&x).cloned();
    variable
        .ok_or_else(|| ErrorKind::UndefinedExternalVariable(x))?
        .evaluate_tailstrict()
}

#[builtin]
fn mantissa(x: f64) -> f64 {
    split(x).0
}

#[builtin]
fn exponent(x: f64) -> f64 {
    split(x).1
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

/// A number as a fraction from 1/2 up to 1, and the power of two it is multiplied by.
fn split(number: f64) -> (f64, f64) {
    if number == 0.0 || !number.is_finite() {
        return (number, 0.0);
    }
    if number.is_subnormal() {
        let (mantissa, exponent) = split(number * (1_u64 << FRACTION_BITS) as f64);
        return (mantissa, exponent - f64::from(FRACTION_BITS));
    }
    let bits = number.to_bits();
    let exponent = (bits >> FRACTION_BITS) & EXPONENT_MASK;
    let others = bits & !(EXPONENT_MASK << FRACTION_BITS);
    let mantissa = f64::from_bits(others | (EXPONENT_OF_HALF << FRACTION_BITS));
    (mantissa, exponent as f64 - EXPONENT_OF_HALF as f64)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_number_is_split_exactly() {
        for (number, mantissa, exponent) in [
            (42.0, 0.656_25, 6.0),
            (-42.0, -0.656_25, 6.0),
            (0.42, 0.84, -1.0),
            (1.0, 0.5, 1.0),
            (0.0, 0.0, 0.0),
            (5e-324, 0.5, -1073.0),
            (f64::MAX, 1.0 - f64::EPSILON / 2.0, 1024.0),
        ] {
            assert_eq!(split(number), (mantissa, exponent), "{number}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_parts_make_the_number(number in proptest::num::f64::NORMAL) {
            let (mantissa, exponent) = split(number);
            let half = 2_f64.powi((exponent / 2.0) as i32);
            let rest = 2_f64.powi(exponent as i32 - (exponent / 2.0) as i32);
            proptest::prop_assert_eq!(mantissa * half * rest, number);
        }
    }
}
