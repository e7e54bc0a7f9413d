//! The second engine: `rsjsonnet-lang`.
//!
//! Like the first engine it keeps the values of files that are the same for all tasks of a batch. Its variables cannot
//! be removed, so the variables of a task get a prefix with the task's number, and `std.extVar` looks up the current
//! task when it is called.

use super::job::ImportRefused;
use super::prelude::{LIBRARY, LIBRARY_VARIABLE, VARIABLE, VARIABLE_PARAMETERS, prelude};
use super::stateful::EngineState;
use super::{EngineKind, EvalJob, SourceOrigin, error_messages, warm_up};
use crate::rendering::jsonnet::canonical::{CanonicalWriter, ValueLimits, ValueTooLarge};
use crate::rendering::jsonnet::contract::TraceFrame;
use crate::rendering::jsonnet::message::{EngineFailure, FRAMES_MAX, cut};
use crate::rendering::jsonnet::native;
use crate::rendering::jsonnet::nesting::RESERVED;
use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::interner::InternedStr;
use rsjsonnet_lang::program::{
    Callbacks, EvalError, EvalErrorKind, EvalStackTraceItem, ImportError, LoadError, NativeError, Program,
    Thunk, Value, ValueKind,
};
use rsjsonnet_lang::span::{SourceId, SpanContext, SpanId};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// The factor by which this engine's depth limit exceeds the first one's, because it counts more steps.
const DEPTH_FACTOR: usize = 4;

/// An engine state with the values of files that are the same for every task of the batch.
pub(super) struct Rsjsonnet {
    program: Program<'static>,
    texts: LoadedSources<'static>,
}

impl EngineState for Rsjsonnet {
    fn begin() -> Self {
        // The arena lives until the process ends, which does not free memory.
        let arena: &'static Arena = Box::leak(Box::new(Arena::new()));
        let mut program = Program::new(arena);
        let natives = native::ALL.map(|native| (native.name(), native.parameters()));
        let standard = native::STANDARD_OVERRIDES.map(|(name, _, parameters)| (name, parameters));
        let ours = [(VARIABLE, VARIABLE_PARAMETERS.as_slice())];
        for (name, parameters) in natives.into_iter().chain(standard).chain(ours) {
            let parameters: Vec<InternedStr<'static>> =
                parameters.iter().map(|name| program.intern_str(name)).collect();
            program.register_native_func(program.intern_str(name), &parameters);
        }
        let (context, _) = program.span_manager_mut().insert_source_context(LIBRARY.len());
        // If the library cannot be loaded, every program fails when it uses the library.
        if let Ok(library) = program.load_source(context, LIBRARY.as_bytes(), true, LIBRARY_VARIABLE) {
            program.add_ext_var(program.intern_str(LIBRARY_VARIABLE), &library);
        }
        Self {
            program,
            texts: LoadedSources::default(),
        }
    }

    fn warm_up() -> Option<String> {
        let arena = Arena::new();
        let mut program = Program::new(&arena);
        let text = warm_up::program();
        let (context, _) = program.span_manager_mut().insert_source_context(text.len());
        let thunk = program
            .load_source(context, text.as_bytes(), true, "exercise")
            .ok()?;
        let value = program.eval_value(&thunk, &mut NoCallbacks).ok()?;
        let mut out = CanonicalWriter::new(ValueLimits::NONE);
        manifest(&value, &mut out).ok()?;
        Some(out.finish())
    }

    fn evaluate(&mut self, job: &Rc<EvalJob>) -> Result<String, EngineFailure> {
        self.program
            .set_max_stack(job.task.max_stack.saturating_mul(DEPTH_FACTOR));
        self.texts.forget_task();
        let mut session = EngineCallbacks {
            job,
            texts: &mut self.texts,
        };
        let result = session.run(&mut self.program);
        match (result, job.take_cause()) {
            (Ok(value), None) => Ok(value),
            (Err(failure), None) => Err(failure),
            (Err(EngineFailure::Runtime { trace, .. }), Some(cause)) => Err(cause.with_trace(trace)),
            (_, Some(cause)) => Err(cause),
        }
    }
}

/// The callbacks of a program without imports.
struct NoCallbacks;

impl<'p> Callbacks<'p> for NoCallbacks {
    fn import(&mut self, _: &mut Program<'p>, _: SpanId, _: &str) -> Result<Thunk<'p>, ImportError> {
        Err(ImportError)
    }

    fn import_str(&mut self, _: &mut Program<'p>, _: SpanId, _: &str) -> Result<String, ImportError> {
        Err(ImportError)
    }

    fn import_bin(&mut self, _: &mut Program<'p>, _: SpanId, _: &str) -> Result<Vec<u8>, ImportError> {
        Err(ImportError)
    }

    fn trace(&mut self, _: &mut Program<'p>, _: &str, _: &[EvalStackTraceItem]) {}

    fn native_call(
        &mut self,
        _: &mut Program<'p>,
        _: InternedStr<'p>,
        _: &[Value<'p>],
    ) -> Result<Value<'p>, NativeError> {
        Err(NativeError)
    }
}

struct EngineCallbacks<'a, 'p> {
    job: &'a Rc<EvalJob>,
    texts: &'a mut LoadedSources<'p>,
}

/// The texts that the engine has loaded.
#[derive(Default)]
struct LoadedSources<'p> {
    sources: HashMap<SourceId, LoadedSource>,
    /// The loaded values, by the task they belong to; 0 if they belong to all tasks.
    loaded: HashMap<(u64, SourceOrigin), Thunk<'p>>,
}

impl LoadedSources<'_> {
    /// Drops the values of the previous task.
    fn forget_task(&mut self) {
        self.loaded.retain(|(owner, _), _| *owner == 0);
        self.sources.retain(|_, text| text.owner == 0);
    }
}

/// A text in the form that the engine loaded.
struct LoadedSource {
    origin: SourceOrigin,
    owner: u64,
    prelude_bytes: usize,
}

impl<'p> EngineCallbacks<'_, 'p> {
    /// Returns the name of a variable of this task.
    fn variable(&self, name: &str) -> String {
        format!("{}/{name}", self.job.number())
    }

    fn run(&mut self, program: &mut Program<'p>) -> Result<String, EngineFailure> {
        let job = self.job;
        for name in job.task.ext_code.keys() {
            let thunk = self.load(program, SourceOrigin::External(name.as_str().into()))?;
            program.add_ext_var(program.intern_str(&self.variable(name)), &thunk);
        }
        let entry = self.load(program, job.entry())?;
        let mut value = self.check(program, |program, session| program.eval_value(&entry, session))?;
        if value.is_function() {
            let mut arguments = Vec::new();
            for name in job.task.tla_code.keys() {
                let thunk = self.load(program, SourceOrigin::Argument(name.as_str().into()))?;
                arguments.push((program.intern_str(name), thunk));
            }
            value = self.check(program, |program, session| {
                program.eval_call(&entry, &[], &arguments, session)
            })?;
        }
        let mut out = CanonicalWriter::new(job.task.bounds);
        match manifest(&value, &mut out) {
            Ok(()) => Ok(out.finish()),
            Err(ManifestError::TooLong(why)) => Err(why.into()),
            Err(ManifestError::Function) => Err(EngineFailure::runtime("couldn't manifest function as JSON")),
        }
    }

    fn check(
        &mut self,
        program: &mut Program<'p>,
        evaluate: impl FnOnce(&mut Program<'p>, &mut Self) -> Result<Value<'p>, EvalError>,
    ) -> Result<Value<'p>, EngineFailure> {
        evaluate(program, self).map_err(|error| self.failure(program, &error))
    }

    /// Loads the text of a program as a value that is evaluated at its first use.
    fn load(&mut self, program: &mut Program<'p>, origin: SourceOrigin) -> Result<Thunk<'p>, EngineFailure> {
        let owner = self.job.owner(&origin);
        let key = (owner, origin);
        if let Some(loaded) = self.texts.loaded.get(&key) {
            return Ok(loaded.clone());
        }
        let (_, origin) = &key;
        let lost = |ImportRefused| EngineFailure::runtime(format!("no text for {origin}"));
        let text = self.job.code(origin, EngineKind::Second).map_err(lost)?;
        let prelude = match origin {
            SourceOrigin::File(path) if owner == 0 => prelude(path, &text),
            SourceOrigin::File(_)
            | SourceOrigin::Entry(_)
            | SourceOrigin::External(_)
            | SourceOrigin::Argument(_) => prelude("", &text),
        };
        let code = [prelude.as_bytes(), &text].concat();
        let (context, source) = program.span_manager_mut().insert_source_context(code.len());
        let text = LoadedSource {
            origin: origin.clone(),
            owner,
            prelude_bytes: prelude.len(),
        };
        self.texts.sources.insert(source, text);
        let thunk = program
            .load_source(context, &code, true, &origin.to_string())
            .map_err(|error| self.syntax(program, origin, &error))?;
        self.texts.loaded.insert(key, thunk.clone());
        Ok(thunk)
    }

    fn find(&self, program: &Program<'p>, from: SpanId, path: &str) -> Result<SourceOrigin, ImportError> {
        let (text, _) = self.place(program, from).ok_or(ImportError)?;
        let found = self.job.import(&text.origin, path);
        let found = SourceOrigin::File(found.map_err(|ImportRefused| ImportError)?);
        if let (SourceOrigin::File(importer), 0) = (&text.origin, text.owner)
            && self.job.owner(&found) != 0
        {
            self.job.mark_task_dependent(Some(importer));
        }
        Ok(found)
    }

    fn place(&self, program: &Program<'p>, span: SpanId) -> Option<(&LoadedSource, Range<usize>)> {
        let (context, start, end) = program.span_manager().get_span(span);
        let SpanContext::Source(source) = program.span_manager().get_context(context);
        let text = self.texts.sources.get(source)?;
        // Offsets in the prelude have no location in the program.
        let written = |at: usize| at.checked_sub(text.prelude_bytes);
        Some((text, written(start)?..written(end)?))
    }

    fn at(&self, program: &Program<'p>, span: SpanId) -> Option<(String, u64, u64)> {
        let (text, range) = self.place(program, span)?;
        let (line, column) = self.job.place(&text.origin, EngineKind::Second, range.start)?;
        Some((text.origin.to_string(), line, column))
    }

    /// Returns the name of a variable of this task. If the requesting file's value would be kept for other tasks, it is
    /// marked as task-dependent.
    fn named(&self, arguments: &[serde_json::Value]) -> serde_json::Value {
        let [file, name] = arguments else {
            return serde_json::Value::Null;
        };
        if let Some(file) = file.as_str().filter(|file| !file.is_empty()) {
            self.job.mark_task_dependent(Some(file));
        }
        match name.as_str() {
            Some(name) => self.variable(name).into(),
            None => name.clone(),
        }
    }

    fn syntax(&self, program: &Program<'p>, origin: &SourceOrigin, error: &LoadError) -> EngineFailure {
        let (message, span) = match error {
            LoadError::Analyze(error) => error_messages::analyze_error_message(error),
            // Our own parser returns Go's wording and the location.
            LoadError::Lex(_) | LoadError::Parse(_) => {
                return self
                    .job
                    .syntax_failure(origin)
                    .unwrap_or_else(|| EngineFailure::runtime(cut(&format!("{error:?}"))));
            }
        };
        match self.at(program, span) {
            Some((path, line, column)) => EngineFailure::Syntax {
                path,
                line,
                column,
                message,
                trace: Vec::new(),
            },
            None => EngineFailure::runtime(message),
        }
    }

    fn failure(&self, program: &Program<'p>, error: &EvalError) -> EngineFailure {
        if matches!(
            error.kind,
            EvalErrorKind::StackOverflow | EvalErrorKind::InfiniteRecursion
        ) {
            return EngineFailure::Stack(self.job.task.name.clone());
        }
        let (mut message, span) = error_messages::eval_error_message(&error.kind);
        let mut failed = span.and_then(|span| self.at(program, span));
        if let Some((text, range)) = span.and_then(|span| self.place(program, span))
            && let Some(location) =
                self.job
                    .error_location(&text.origin, EngineKind::Second, range, &error.kind)
        {
            message = location.message.unwrap_or(message);
            failed = self.job.original_location(&text.origin, location.start);
        }
        // The failed expression comes first; the engine lists only the expressions around it.
        let failed = failed.map(|at| TraceFrame {
            at: shown(at),
            what: "expression".to_owned(),
        });
        let outer = error.stack_trace.iter().rev();
        let outer = outer.filter_map(|item| self.frame(program, item));
        let mut trace: Vec<TraceFrame> = Vec::new();
        for frame in failed.into_iter().chain(outer) {
            let is_same = |before: &TraceFrame| frame.at == before.at && frame.what == before.what;
            if frame.at.is_empty() || !trace.last().is_some_and(is_same) {
                trace.push(frame);
            }
            if trace.len() == FRAMES_MAX {
                break;
            }
        }
        EngineFailure::Runtime {
            message: cut(&message),
            trace,
        }
    }

    /// Returns a line of a trace; `None` for code that is not part of the program.
    fn frame(&self, program: &Program<'p>, item: &EvalStackTraceItem) -> Option<TraceFrame> {
        let (span, what) = match item {
            EvalStackTraceItem::Expr { span } => (Some(*span), "expression".to_owned()),
            EvalStackTraceItem::Call { span, name } => match name.as_deref().unwrap_or("<anonymous>") {
                // The function replaces an operator.
                name if name.starts_with(RESERVED) => (*span, "expression".to_owned()),
                name => (*span, format!("function {name}")),
            },
            EvalStackTraceItem::Variable { span, name } => (Some(*span), format!("variable {name}")),
            EvalStackTraceItem::ArrayItem { span, index } => (*span, format!("array element {index}")),
            EvalStackTraceItem::ObjectField { span, name } => (*span, format!("field \"{name}\"")),
            EvalStackTraceItem::CompareArrayItem { index } => (None, format!("comparing element {index}")),
            EvalStackTraceItem::CompareObjectField { name } => (None, format!("comparing field \"{name}\"")),
            EvalStackTraceItem::ManifestArrayItem { index } => (None, format!("array element {index}")),
            EvalStackTraceItem::ManifestObjectField { name } => (None, format!("field \"{name}\"")),
            EvalStackTraceItem::Import { span } => (Some(*span), "import".to_owned()),
        };
        let is_own = matches!(item, EvalStackTraceItem::Variable { name, .. } if name.starts_with(RESERVED));
        let at = span.and_then(|span| self.at(program, span));
        match (span, at) {
            _ if is_own => None,
            (Some(_), None) => None,
            (_, at) => Some(TraceFrame {
                at: at.map_or_else(String::new, shown),
                what: cut(&what),
            }),
        }
    }
}

impl<'p> Callbacks<'p> for EngineCallbacks<'_, 'p> {
    fn import(
        &mut self,
        program: &mut Program<'p>,
        from: SpanId,
        path: &str,
    ) -> Result<Thunk<'p>, ImportError> {
        let origin = self.find(program, from, path)?;
        self.load(program, origin).map_err(|failure| {
            self.job.note(failure);
            ImportError
        })
    }

    fn import_str(
        &mut self,
        program: &mut Program<'p>,
        from: SpanId,
        path: &str,
    ) -> Result<String, ImportError> {
        let bytes = self.import_bin(program, from, path)?;
        String::from_utf8(bytes).map_err(|_| {
            self.job
                .note(EngineFailure::runtime(format!("import {path:?}: not UTF-8")));
            ImportError
        })
    }

    fn import_bin(
        &mut self,
        program: &mut Program<'p>,
        from: SpanId,
        path: &str,
    ) -> Result<Vec<u8>, ImportError> {
        let origin = self.find(program, from, path)?;
        let bytes = self.job.bytes(&origin).map_err(|ImportRefused| ImportError)?;
        Ok(bytes.to_vec())
    }

    fn trace(&mut self, _: &mut Program<'p>, _: &str, _: &[EvalStackTraceItem]) {}

    fn native_call(
        &mut self,
        program: &mut Program<'p>,
        name: InternedStr<'p>,
        arguments: &[Value<'p>],
    ) -> Result<Value<'p>, NativeError> {
        let call = || -> Result<serde_json::Value, native::NativeError> {
            let arguments: Option<Vec<_>> = arguments.iter().map(to_json).collect();
            let arguments = arguments
                .ok_or_else(|| native::NativeError::message("couldn't manifest function as JSON"))?;
            match name.value() {
                VARIABLE => Ok(self.named(&arguments)),
                name => match native::StandardOverride::by_name(name) {
                    Some(standard) => standard.call(&arguments),
                    None => native::find_function(name)?.call(&arguments, &|call| self.job.run(call)),
                },
            }
        };
        match call() {
            Ok(value) => Ok(from_json(program, value)),
            Err(error) => {
                let message = error.to_string();
                self.job.note(
                    error
                        .into_cause()
                        .unwrap_or_else(|| EngineFailure::runtime(message)),
                );
                Err(NativeError)
            }
        }
    }
}

/// Formats a location for a trace.
fn shown((path, line, column): (String, u64, u64)) -> String {
    format!("{path}:{line}:{column}")
}

enum ManifestError {
    TooLong(ValueTooLarge),
    Function,
}

impl From<ValueTooLarge> for ManifestError {
    fn from(why: ValueTooLarge) -> Self {
        Self::TooLong(why)
    }
}

/// Writes the canonical text of a value that has been evaluated completely.
fn manifest(value: &Value<'_>, out: &mut CanonicalWriter) -> Result<(), ManifestError> {
    match value.kind() {
        ValueKind::Null => out.null()?,
        ValueKind::Bool(value) => out.boolean(value)?,
        ValueKind::Number(number) => out.number(number)?,
        ValueKind::String(text) => out.string(&text)?,
        ValueKind::Array(items) => {
            out.open('[')?;
            for item in &items {
                out.item();
                manifest(item, out)?;
            }
            out.close(']')?;
        }
        ValueKind::Object(mut fields) => {
            fields.sort_by(|(first, _), (second, _)| first.value().cmp(second.value()));
            out.open('{')?;
            for (name, value) in &fields {
                out.field(name.value())?;
                manifest(value, out)?;
            }
            out.close('}')?;
        }
        ValueKind::Function => return Err(ManifestError::Function),
    }
    Ok(())
}

fn to_json(value: &Value<'_>) -> Option<serde_json::Value> {
    Some(match value.kind() {
        ValueKind::Null => serde_json::Value::Null,
        ValueKind::Bool(value) => value.into(),
        ValueKind::Number(number) => number.into(),
        ValueKind::String(text) => text.into(),
        ValueKind::Array(items) => {
            serde_json::Value::Array(items.iter().map(to_json).collect::<Option<_>>()?)
        }
        ValueKind::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| Some((name.value().to_owned(), to_json(value)?)));
            serde_json::Value::Object(fields.collect::<Option<_>>()?)
        }
        ValueKind::Function => return None,
    })
}

fn from_json<'p>(program: &mut Program<'p>, value: serde_json::Value) -> Value<'p> {
    match value {
        serde_json::Value::Null => Value::null(),
        serde_json::Value::Bool(value) => Value::bool(value),
        serde_json::Value::Number(number) => Value::number(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Value::string(&text),
        serde_json::Value::Array(items) => {
            let items: Vec<_> = items.into_iter().map(|item| from_json(program, item)).collect();
            program.make_array(&items)
        }
        serde_json::Value::Object(fields) => {
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(name, value)| (program.intern_str(&name), from_json(program, value)))
                .collect();
            program.make_object(&fields)
        }
    }
}
