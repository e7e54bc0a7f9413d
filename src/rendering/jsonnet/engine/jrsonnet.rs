//! The first engine: `jrsonnet-evaluator`. Its own file resolver is never created; every import goes through the job.

use super::library::Library;
use super::stateful::EngineState;
use super::{EngineKind, EvalJob, SourceOrigin, depth_reserve, error_messages, warm_up};
use crate::rendering::jsonnet::canonical::{CanonicalWriter, ValueLimits, ValueTooLarge};
use crate::rendering::jsonnet::contract::TraceFrame;
use crate::rendering::jsonnet::external_program::ProgramCall;
use crate::rendering::jsonnet::message::{EngineFailure, FRAMES_MAX, cut};
use crate::rendering::jsonnet::native::{NativeError, NativeFunction};
use crate::rendering::jsonnet::rewrite::BYTES_PREFIX;
use jrsonnet_evaluator::analyze::DiagLevel;
use jrsonnet_evaluator::error::{ErrorKind, StackTraceElement};
use jrsonnet_evaluator::function::CallLocation;
use jrsonnet_evaluator::tla::TlaArg;
use jrsonnet_evaluator::{
    AsPathLike, Error, IStr, ImportResolver, NumValue, ObjValueBuilder, ResolvePath, Result, SourcePath,
    Span, State, Thunk, Val, apply_tla, in_description_frame, with_state,
};
use jrsonnet_gcmodule::Acyclic;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::rc::Rc;

/// An engine state with the values of files that are the same for every task of the batch.
pub(super) struct Jrsonnet {
    state: State,
    library: Library,
}

impl EngineState for Jrsonnet {
    fn begin() -> Self {
        let library = Library::new();
        let mut builder = State::builder();
        builder
            .import_resolver(Resolver)
            .context_initializer(library.clone());
        Self {
            state: builder.build(),
            library,
        }
    }

    fn warm_up() -> Option<String> {
        let begun = Self::begin();
        let entered = begun.state.enter();
        let value = begun.state.evaluate_snippet("exercise", warm_up::program()).ok();
        let mut out = CanonicalWriter::new(ValueLimits::NONE);
        let written = value.and_then(|value| manifest(&value, &mut out, &mut None).ok());
        drop(entered);
        drop(begun);
        // The engine's objects contain reference cycles, which only this call frees.
        jrsonnet_gcmodule::collect_thread_cycles();
        written.map(|()| out.finish())
    }

    fn evaluate(&mut self, job: &Rc<EvalJob>) -> std::result::Result<String, EngineFailure> {
        let _depth = depth_reserve::limit(job.task.max_stack);
        self.library.set_variables(job.task.ext_code.keys().map(|name| {
            let origin = SourceOrigin::External(name.as_str().into());
            (name.as_str().into(), lazily(&origin, job))
        }));
        let _current = CurrentJob::set(job);
        let _entered = self.state.enter();
        let mut out = CanonicalWriter::new(job.task.bounds);
        let mut too_long = None;
        let result = value(&self.state, job).and_then(|value| manifest(&value, &mut out, &mut too_long));
        match result {
            Ok(()) => match job.take_cause() {
                // The connection to the parent failed during the evaluation.
                Some(cause) => Err(cause),
                None => Ok(out.finish()),
            },
            Err(error) => Err(match too_long {
                Some(too_long) => too_long.into(),
                None => job.take_cause().unwrap_or_else(|| failure(&error, job)),
            }),
        }
    }
}

fn value(state: &State, job: &Rc<EvalJob>) -> Result<Val> {
    let value = state.import_resolved(SourcePath::new(EngineSource::from_origin(&job.entry(), job)))?;
    #[allow(
        clippy::mutable_key_type,
        reason = "the engine takes them so; what changes in its strings is how often they are used"
    )]
    let arguments: HashMap<IStr, TlaArg> = job
        .task
        .tla_code
        .keys()
        .map(|name| {
            let origin = SourceOrigin::Argument(name.as_str().into());
            (name.as_str().into(), lazily(&origin, job))
        })
        .collect();
    apply_tla(&arguments, value)
}

/// Returns code that is evaluated at its first use.
fn lazily(origin: &SourceOrigin, job: &EvalJob) -> TlaArg {
    let evaluate = |place: SourcePath| with_state(|state| state.import_resolved(place));
    TlaArg::Lazy(Thunk::new(jrsonnet_evaluator::val::MemoizedClosureThunk::new(
        SourcePath::new(EngineSource::from_origin(origin, job)),
        evaluate,
    )))
}

thread_local! {
    /// The job of this thread's engine. It is a thread-local because the engine's resolver can hold only plain data.
    static CURRENT: RefCell<Option<Rc<EvalJob>>> = const { RefCell::new(None) };
}

/// Makes a job the current one until it is dropped.
struct CurrentJob;

impl CurrentJob {
    fn set(job: &Rc<EvalJob>) -> Self {
        CURRENT.set(Some(job.clone()));
        Self
    }

    fn get() -> Option<Rc<EvalJob>> {
        CURRENT.with_borrow(Clone::clone)
    }
}

impl Drop for CurrentJob {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

#[derive(Acyclic)]
struct Resolver;

impl ImportResolver for Resolver {
    fn resolve_from(&self, from: &SourcePath, path: &dyn AsPathLike) -> Result<SourcePath> {
        let refused = || ErrorKind::ImportNotSupported(from.clone(), path.as_path().to_owned());
        let (Some(place), ResolvePath::Str(written)) = (from.downcast_ref::<EngineSource>(), path.as_path())
        else {
            return Err(refused().into());
        };
        let job = CurrentJob::get().ok_or_else(refused)?;
        let (written, kind) = match written.strip_prefix(BYTES_PREFIX) {
            Some(written) => (written, EngineSourceKind::Bytes),
            None => (written, EngineSourceKind::File),
        };
        let found = job.import(&place.origin(), written).map_err(|_| refused())?;
        let mut found = EngineSource::from_origin(&SourceOrigin::File(found), &job);
        found.kind = kind;
        if place.owner == 0 && found.owner != 0 {
            job.mark_task_dependent(Some(&place.name));
        }
        Ok(SourcePath::new(found))
    }

    fn load_file_contents(&self, resolved: &SourcePath) -> Result<Vec<u8>> {
        let lost = || ErrorKind::ResolvedFileNotFound(resolved.clone());
        let job = CurrentJob::get().ok_or_else(lost)?;
        let place = resolved.downcast_ref::<EngineSource>().ok_or_else(lost)?;
        let bytes = match place.kind {
            EngineSourceKind::Bytes => job.bytes(&place.origin()),
            _ => job.code(&place.origin(), EngineKind::First),
        };
        Ok(bytes.map_err(|_| lost())?.to_vec())
    }
}

/// The origin of a text in the engine's terms.
#[derive(Acyclic, Debug, PartialEq, Eq, Hash)]
struct EngineSource {
    kind: EngineSourceKind,
    name: String,
    /// The task that the value belongs to; 0 if it belongs to all tasks.
    owner: u64,
}

#[derive(Acyclic, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum EngineSourceKind {
    Entry,
    File,
    /// A file that is imported as text or bytes.
    Bytes,
    External,
    Argument,
}

impl EngineSource {
    fn from_origin(origin: &SourceOrigin, job: &EvalJob) -> Self {
        let owner = job.owner(origin);
        let (kind, name) = match origin {
            SourceOrigin::Entry(name) => (EngineSourceKind::Entry, name),
            SourceOrigin::File(name) => (EngineSourceKind::File, name),
            SourceOrigin::External(name) => (EngineSourceKind::External, name),
            SourceOrigin::Argument(name) => (EngineSourceKind::Argument, name),
        };
        let name = name.to_string();
        Self { kind, name, owner }
    }

    fn origin(&self) -> SourceOrigin {
        let name = self.name.as_str().into();
        match self.kind {
            EngineSourceKind::Entry => SourceOrigin::Entry(name),
            EngineSourceKind::File | EngineSourceKind::Bytes => SourceOrigin::File(name),
            EngineSourceKind::External => SourceOrigin::External(name),
            EngineSourceKind::Argument => SourceOrigin::Argument(name),
        }
    }
}

impl std::fmt::Display for EngineSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.origin().fmt(f)
    }
}

impl jrsonnet_ir::SourcePathT for EngineSource {
    fn is_default(&self) -> bool {
        false
    }

    fn path(&self) -> Option<&Path> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn dyn_hash(&self, mut hasher: &mut dyn Hasher) {
        self.hash(&mut hasher);
    }

    fn dyn_eq(&self, other: &dyn jrsonnet_ir::SourcePathT) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }

    fn dyn_debug(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

pub(super) fn call(native: NativeFunction, arguments: &[Val]) -> Result<Val> {
    let arguments = arguments.iter().map(to_json).collect::<Result<Vec<_>>>()?;
    let job = CurrentJob::get();
    let run = |call: &ProgramCall| match &job {
        Some(job) => job.run(call),
        None => Err(NativeError::program_disabled(call)),
    };
    from_json(native.call(&arguments, &run).map_err(native_error)?)
}

/// Converts an error of a native function to the engine's error type. A cause that the caller must know is recorded.
pub(super) fn native_error(error: NativeError) -> Error {
    let message = error.to_string();
    if let (Some(cause), Some(job)) = (error.into_cause(), CurrentJob::get()) {
        job.note(cause);
    }
    ErrorKind::RuntimeError(message.into()).into()
}

/// Records that the code at this location used a value that differs between tasks.
pub(super) fn mark_task_dependent(place: CallLocation<'_>) {
    let Some(job) = CurrentJob::get() else { return };
    let place = place
        .0
        .and_then(|span| span.0.source_path().downcast_ref::<EngineSource>());
    match place {
        Some(place) if place.owner != 0 => {}
        Some(place) => job.mark_task_dependent(Some(&place.name)),
        None => job.mark_task_dependent(None),
    }
}

/// Converts a value to JSON, the form of native functions' arguments. A function cannot be converted.
pub(super) fn to_json(value: &Val) -> Result<serde_json::Value> {
    Ok(match value {
        Val::Null => serde_json::Value::Null,
        Val::Bool(value) => (*value).into(),
        Val::Num(number) => number.get().into(),
        Val::Str(text) => text.to_string().into(),
        Val::Arr(items) => {
            let item =
                |item: Result<Val>| in_description_frame(|| "an element".to_owned(), || to_json(&item?));
            let items: Result<Vec<_>> = items.iter().map(item).collect();
            serde_json::Value::Array(items?)
        }
        Val::Obj(object) => {
            object.run_assertions()?;
            let fields = object.iter().map(|(name, value)| {
                let value = in_description_frame(|| format!("field \"{name}\""), || to_json(&value?))?;
                Ok((name.to_string(), value))
            });
            serde_json::Value::Object(fields.collect::<Result<_>>()?)
        }
        Val::Func(_) => {
            let message = "couldn't manifest function as JSON";
            return Err(ErrorKind::RuntimeError(message.into()).into());
        }
    })
}

pub(super) fn from_json(value: serde_json::Value) -> Result<Val> {
    Ok(match value {
        serde_json::Value::Null => Val::Null,
        serde_json::Value::Bool(value) => Val::Bool(value),
        serde_json::Value::Number(number) => {
            let number = number.as_f64().and_then(NumValue::new);
            Val::Num(number.ok_or_else(|| ErrorKind::RuntimeError("not a finite number".into()))?)
        }
        serde_json::Value::String(text) => Val::string(text),
        serde_json::Value::Array(items) => {
            Val::arr(items.into_iter().map(from_json).collect::<Result<Vec<Val>>>()?)
        }
        serde_json::Value::Object(fields) => {
            let mut object = ObjValueBuilder::with_capacity(fields.len());
            for (name, value) in fields {
                object.field(name).value(from_json(value)?);
            }
            Val::Obj(object.build())
        }
    })
}

fn manifest(value: &Val, out: &mut CanonicalWriter, too_long: &mut Option<ValueTooLarge>) -> Result<()> {
    let written = match value {
        Val::Null => out.null(),
        Val::Bool(value) => out.boolean(*value),
        Val::Num(number) => out.number(number.get()),
        Val::Str(text) => {
            out.open_string();
            let mut written = Ok(());
            text.chunks(&mut |part: &IStr| {
                if written.is_ok() {
                    written = out.string_part(part);
                }
            });
            written.and_then(|()| out.close_string())
        }
        Val::Arr(items) => {
            bounded(out.open('['), too_long)?;
            for (index, item) in items.iter().enumerate() {
                let item = item?;
                out.item();
                in_description_frame(
                    || format!("array element {index}"),
                    || manifest(&item, out, too_long),
                )?;
            }
            out.close(']')
        }
        Val::Obj(object) => {
            object.run_assertions()?;
            bounded(out.open('{'), too_long)?;
            for name in object.fields() {
                bounded(out.field(&name), too_long)?;
                in_description_frame(
                    || format!("field \"{name}\""),
                    || manifest(&object.get_or_bail(name.clone())?, out, too_long),
                )?;
            }
            out.close('}')
        }
        Val::Func(_) => {
            let message = "couldn't manifest function as JSON";
            return Err(ErrorKind::RuntimeError(message.into()).into());
        }
    };
    bounded(written, too_long)
}

/// Checks a bound while a value is written. The engine's error type cannot represent the reason, so `too_long` keeps
/// it.
fn bounded(
    written: std::result::Result<(), ValueTooLarge>,
    too_long: &mut Option<ValueTooLarge>,
) -> Result<()> {
    written.map_err(|why| {
        *too_long = Some(why);
        ErrorKind::RuntimeError("the value is too long".into()).into()
    })
}

fn failure(error: &Error, job: &EvalJob) -> EngineFailure {
    match error.error() {
        ErrorKind::StackOverflow => EngineFailure::Stack(job.task.name.clone()),
        ErrorKind::ImportSyntaxError { error, .. } => {
            let path = error.location.0.source_path();
            let refused = path
                .downcast_ref::<EngineSource>()
                .and_then(|place| job.syntax_failure(&place.origin()));
            refused.unwrap_or_else(|| syntax(job, &error.location, &error.message))
        }
        ErrorKind::StaticAnalysisError(diagnostics) => {
            // The diagnostics also contain warnings about unused names.
            let errors = diagnostics
                .iter()
                .filter(|found| matches!(found.level, DiagLevel::Error));
            let first = errors
                .clone()
                .find_map(|found| Some((found.span.as_ref()?, found)));
            match first {
                Some((span, found)) => syntax(job, span, &found.message),
                None => {
                    let messages: Vec<&str> = errors.map(|found| found.message.as_str()).collect();
                    EngineFailure::runtime(messages.join("; "))
                }
            }
        }
        ErrorKind::RuntimeError(message) => runtime(job, message.to_string(), error),
        ErrorKind::ValueIndexMustBeTypeGot(value, _, index) => {
            let message = match value.name() {
                "object" => format!("Unexpected type {}, expected string", index.name()),
                "array" | "string" => format!("Unexpected type {}, expected number", index.name()),
                other => error_messages::not_indexable(other),
            };
            runtime(job, message, error)
        }
        ErrorKind::ArrayBoundsError(index, length) => {
            let message = format!("Index {index} out of bounds, not within [0, {length})");
            runtime(job, message, error)
        }
        kind => runtime(job, kind.to_string(), error),
    }
}

fn runtime(job: &EvalJob, message: String, error: &Error) -> EngineFailure {
    let trace = error.trace().0.iter().take(FRAMES_MAX);
    EngineFailure::Runtime {
        message: cut(&message),
        trace: trace.map(|element| frame(job, element)).collect(),
    }
}

fn syntax(job: &EvalJob, span: &Span, message: &str) -> EngineFailure {
    let (line, column) = place(job, span).unwrap_or((1, 1));
    EngineFailure::Syntax {
        path: span.0.source_path().to_string(),
        line,
        column,
        message: cut(message),
        trace: Vec::new(),
    }
}

fn frame(job: &EvalJob, element: &StackTraceElement) -> TraceFrame {
    let at = element.location.as_ref().and_then(|span| {
        let (line, column) = place(job, span)?;
        Some(format!("{}:{line}:{column}", span.0.source_path()))
    });
    TraceFrame {
        at: at.unwrap_or_default(),
        what: cut(&element.desc),
    }
}

/// Returns line and column in the original text.
fn place(job: &EvalJob, span: &Span) -> Option<(u64, u64)> {
    let origin = span.0.source_path().downcast_ref::<EngineSource>()?.origin();
    job.place(&origin, EngineKind::First, span.1 as usize)
}
