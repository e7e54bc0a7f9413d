//! One evaluation from the engines' view: the texts they may read, and the record of failures that an engine's error
//! type cannot represent.

use super::error_location::{self, ErrorLocation};
use crate::rendering::jsonnet::edits::SourceEdits;
use crate::rendering::jsonnet::external_program::{CallRefusal, ProgramCall};
use crate::rendering::jsonnet::message::{
    self, EngineFailure, EvalTask, FILE, ImportRequest, NO_FILE, NO_OUTPUT, OUTPUT, SAME_FILE, TASK,
    TASK_DEPENDENT, TaskBatch,
};
use crate::rendering::jsonnet::native::NativeError;
use crate::rendering::jsonnet::rewrite::RewrittenSource;
use crate::rendering::jsonnet::syntax::{self, SyntaxError};
use crate::rendering::sandbox::{Frame, read_frame, write_frame};
use rsjsonnet_lang::program::EvalErrorKind;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::ops::Range;
use std::rc::Rc;

/// Tanka's library: `import 'tk'`.
const TANKA: &str = "{ env: std.extVar('tanka.dev/environment') }\n";
const TANKA_IMPORT: &str = "tk";
/// The variable that enables Tanka's library.
const TANKA_VARIABLE: &str = "tanka.dev/environment";
const TANKA_NAME: &str = "<internal>/tk.libsonnet";

/// The origin of a source text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::rendering::jsonnet) enum SourceOrigin {
    /// The program itself.
    Entry(Rc<str>),
    /// A file of the tree, or Tanka's own library.
    File(Rc<str>),
    /// An external variable.
    External(Rc<str>),
    /// A top-level argument.
    Argument(Rc<str>),
}

impl std::fmt::Display for SourceOrigin {
    /// Writes the name for traces and for `std.thisFile`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Entry(path) | Self::File(path) => f.write_str(path),
            Self::External(name) => write!(f, "<extvar:{name}>"),
            Self::Argument(name) => write!(f, "<top-level-arg:{name}>"),
        }
    }
}

/// The engine that reads a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rendering::jsonnet) enum EngineKind {
    /// The engine whose values are used.
    First,
    /// The engine that cross-checks the values of the first.
    Second,
}

impl EngineKind {
    fn edits(self, reading: &RewrittenSource) -> &SourceEdits {
        match self {
            Self::First => &reading.first,
            Self::Second => &reading.second,
        }
    }
}

/// The error of a failed import. The job keeps the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rendering::jsonnet) struct ImportRefused;

/// The channel to the parent, and the files received from it. It lasts as long as the process.
pub(in crate::rendering::jsonnet) struct ParentChannel {
    parent: RefCell<ParentStreams>,
    files: RefCell<HashMap<Rc<str>, Rc<[u8]>>>,
    /// The rewritten sources of the files that were imported as code.
    rewritten: RefCell<HashMap<Rc<str>, Rc<RewrittenSource>>>,
    /// Task-dependent files, whose values are not kept for the next task.
    task_dependent: RefCell<HashSet<Rc<str>>>,
    tasks: Cell<u64>,
}

struct ParentStreams {
    input: Box<dyn Read>,
    output: Box<dyn Write>,
    input_bytes_max: usize,
}

impl ParentChannel {
    pub(in crate::rendering::jsonnet) fn new(
        input: Box<dyn Read>,
        output: Box<dyn Write>,
        input_bytes_max: usize,
    ) -> Rc<Self> {
        let tanka: (Rc<str>, Rc<[u8]>) = (TANKA_NAME.into(), TANKA.as_bytes().into());
        Rc::new(Self {
            parent: RefCell::new(ParentStreams {
                input,
                output,
                input_bytes_max,
            }),
            files: RefCell::new(HashMap::from([tanka])),
            rewritten: RefCell::default(),
            task_dependent: RefCell::new(HashSet::from([TANKA_NAME.into()])),
            tasks: Cell::new(0),
        })
    }

    /// Returns the next task; `None` if there is none.
    pub(in crate::rendering::jsonnet) fn next(self: &Rc<Self>) -> Option<Rc<EvalJob>> {
        let frame = self.receive().ok().filter(|frame| frame.tag == TASK)?;
        let task: EvalTask = serde_json::from_slice(&frame.content).ok()?;
        self.tasks.set(self.tasks.get() + 1);
        Some(Rc::new(EvalJob {
            task,
            number: self.tasks.get(),
            channel: self.clone(),
            imports: RefCell::default(),
            rewritten: RefCell::default(),
            cause: RefCell::default(),
            program_failed: Cell::new(false),
        }))
    }

    fn receive(&self) -> std::io::Result<Frame> {
        let mut parent = self.parent.borrow_mut();
        let bytes_max = parent.input_bytes_max;
        read_frame(&mut parent.input, bytes_max)
    }

    fn send(&self, tag: u8, content: &[u8]) -> std::io::Result<()> {
        write_frame(&mut self.parent.borrow_mut().output, tag, &[content])
    }

    fn add_task_dependent(&self, paths: &[u8]) -> Option<()> {
        let paths: Vec<String> = serde_json::from_slice(paths).ok()?;
        self.task_dependent
            .borrow_mut()
            .extend(paths.into_iter().map(Rc::from));
        Some(())
    }
}

/// The importer, and the path as written in the import.
type ImportKey = (String, String);

/// One evaluation. Both engines may use it in turn, and read the same bytes.
pub(in crate::rendering::jsonnet) struct EvalJob {
    pub(in crate::rendering::jsonnet) task: EvalTask,
    number: u64,
    channel: Rc<ParentChannel>,
    imports: RefCell<HashMap<ImportKey, Result<Rc<str>, ImportRefused>>>,
    /// The rewritten sources of the texts that belong to this task only.
    rewritten: RefCell<HashMap<SourceOrigin, Rc<RewrittenSource>>>,
    cause: RefCell<Option<EngineFailure>>,
    /// True once a call of an external program has failed.
    program_failed: Cell<bool>,
}

impl EvalJob {
    /// Returns the origin of the program.
    pub(in crate::rendering::jsonnet) fn entry(&self) -> SourceOrigin {
        SourceOrigin::Entry(self.task.name.as_str().into())
    }

    /// Returns the number of the task in this process, from 1.
    pub(in crate::rendering::jsonnet) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of the task that the value of a text belongs to; 0 if it is the same for all tasks.
    pub(in crate::rendering::jsonnet) fn owner(&self, origin: &SourceOrigin) -> u64 {
        match origin {
            SourceOrigin::File(path) if !self.channel.task_dependent.borrow().contains(path) => 0,
            _ => self.number,
        }
    }

    /// Marks a value as dependent on this task, although it would be kept for other tasks. The value is correct for
    /// this task; for each further task its file is evaluated again.
    pub(in crate::rendering::jsonnet) fn mark_task_dependent(&self, file: Option<&str>) {
        if self.task.batch == TaskBatch::One
            || file.is_some_and(|file| self.channel.task_dependent.borrow().contains(file))
        {
            return;
        }
        let said = self
            .channel
            .send(message::DEPENDS_ON_TASK, file.unwrap_or_default().as_bytes());
        let own = said.and_then(|()| self.channel.receive()).ok();
        if own.is_none_or(|own| {
            own.tag != TASK_DEPENDENT || self.channel.add_task_dependent(&own.content).is_none()
        }) {
            self.note(EngineFailure::runtime("the parent does not answer"));
        }
    }

    /// Returns the path of the file that an import resolves to.
    pub(in crate::rendering::jsonnet) fn import(
        &self,
        importer: &SourceOrigin,
        path: &str,
    ) -> Result<Rc<str>, ImportRefused> {
        if path == TANKA_IMPORT && self.task.ext_code.contains_key(TANKA_VARIABLE) {
            return Ok(TANKA_NAME.into());
        }
        let importer = match importer {
            SourceOrigin::Entry(importer) | SourceOrigin::File(importer) => importer.as_ref(),
            SourceOrigin::External(_) | SourceOrigin::Argument(_) => "",
        };
        let key = (importer.to_owned(), path.to_owned());
        if let Some(found) = self.imports.borrow().get(&key) {
            return found
                .clone()
                .inspect_err(|_| self.note(EngineFailure::Import { trace: Vec::new() }));
        }
        let ask = ImportRequest {
            importer: importer.to_owned(),
            path: path.to_owned(),
        };
        let found = self.ask(&ask).map_err(|failure| {
            self.note(failure);
            ImportRefused
        });
        self.imports.borrow_mut().insert(key, found.clone());
        found
    }

    /// Returns the bytes of a text.
    pub(in crate::rendering::jsonnet) fn bytes(
        &self,
        origin: &SourceOrigin,
    ) -> Result<Rc<[u8]>, ImportRefused> {
        let text = match origin {
            SourceOrigin::File(path) => {
                return self
                    .channel
                    .files
                    .borrow()
                    .get(path)
                    .cloned()
                    .ok_or(ImportRefused);
            }
            SourceOrigin::Entry(_) => Some(&self.task.text),
            SourceOrigin::External(name) => self.task.ext_code.get(name.as_ref()),
            SourceOrigin::Argument(name) => self.task.tla_code.get(name.as_ref()),
        };
        text.map(|text| text.as_bytes().into()).ok_or(ImportRefused)
    }

    /// Returns the bytes of a text for the parser of one engine. Constructs that the engine would read differently from
    /// the language are rewritten. Constructs that the engine would accept although the language refuses them are
    /// refused here.
    pub(in crate::rendering::jsonnet) fn code(
        &self,
        origin: &SourceOrigin,
        reader: EngineKind,
    ) -> Result<Rc<[u8]>, ImportRefused> {
        let bytes = self.bytes(origin)?;
        let reading = self.rewrite(origin, &bytes);
        if reading.depth > self.task.nesting_max || reading.is_too_deep {
            self.note(EngineFailure::Stack(origin.to_string()));
            return Err(ImportRefused);
        }
        if let Some(error) = &reading.syntax_error {
            self.note(refusal(origin, &bytes, error));
            return Err(ImportRefused);
        }
        Ok(match reader.edits(&reading).apply(&bytes) {
            Cow::Borrowed(_) => bytes,
            Cow::Owned(rewritten) => rewritten.into(),
        })
    }

    /// Returns the reason why a text is not Jsonnet, in Go's wording; `None` if our parser accepts it.
    pub(in crate::rendering::jsonnet) fn syntax_failure(
        &self,
        origin: &SourceOrigin,
    ) -> Option<EngineFailure> {
        let bytes = self.bytes(origin).ok()?;
        let error = syntax::parse_with_depth(std::str::from_utf8(&bytes).ok()?, self.task.depth_max).err()?;
        Some(refusal(origin, &bytes, &error))
    }

    /// Returns the line and column in the original text for a byte of the result of [`Self::code`].
    pub(in crate::rendering::jsonnet) fn place(
        &self,
        origin: &SourceOrigin,
        reader: EngineKind,
        at: usize,
    ) -> Option<(u64, u64)> {
        let bytes = self.bytes(origin).ok()?;
        let reading = self.rewrite(origin, &bytes);
        Some(position(&bytes, reader.edits(&reading).original_offset(at)))
    }

    /// Returns location and message to report for an error of the second engine, if Go reports another expression than
    /// the engine. `range` is the range of the expression that the engine reports.
    pub(in crate::rendering::jsonnet) fn error_location(
        &self,
        origin: &SourceOrigin,
        reader: EngineKind,
        range: Range<usize>,
        kind: &EvalErrorKind,
    ) -> Option<ErrorLocation> {
        let bytes = self.bytes(origin).ok()?;
        let reading = self.rewrite(origin, &bytes);
        let edits = reader.edits(&reading);
        let range = edits.original_offset(range.start)..edits.original_offset(range.end);
        error_location::locate_error(
            kind,
            std::str::from_utf8(&bytes).ok()?,
            range,
            self.task.depth_max,
        )
    }

    /// Returns the name of a text, and the line and column of a byte in its original form.
    pub(in crate::rendering::jsonnet) fn original_location(
        &self,
        origin: &SourceOrigin,
        at: usize,
    ) -> Option<(String, u64, u64)> {
        let (line, column) = position(&self.bytes(origin).ok()?, at);
        Some((origin.to_string(), line, column))
    }

    fn rewrite(&self, origin: &SourceOrigin, bytes: &[u8]) -> Rc<RewrittenSource> {
        let reading = || Rc::new(RewrittenSource::new(bytes, self.task.depth_max));
        match origin {
            SourceOrigin::File(path) => {
                let mut readings = self.channel.rewritten.borrow_mut();
                readings.entry(path.clone()).or_insert_with(reading).clone()
            }
            SourceOrigin::Entry(_) | SourceOrigin::External(_) | SourceOrigin::Argument(_) => {
                let mut readings = self.rewritten.borrow_mut();
                readings.entry(origin.clone()).or_insert_with(reading).clone()
            }
        }
    }

    /// Asks the parent to run an external program, and returns its output. The record of read files belongs to this
    /// task, so every file that may have made the call is evaluated again for the next task.
    pub(in crate::rendering::jsonnet) fn run(&self, call: &ProgramCall) -> Result<String, NativeError> {
        let lost = || NativeError::message("the parent does not answer");
        self.mark_task_dependent(None);
        let question = serde_json::to_vec(call).map_err(|_| lost())?;
        self.send(message::RUN, &question).map_err(|_| lost())?;
        let answer = self.channel.receive().map_err(|_| lost())?;
        match answer.tag {
            OUTPUT => String::from_utf8(answer.content).map_err(|_| lost()),
            NO_OUTPUT => {
                self.program_failed.set(true);
                Err(match serde_json::from_slice(&answer.content) {
                    Ok(CallRefusal::Off) => NativeError::program_disabled(call),
                    Ok(CallRefusal::Said(why)) => NativeError::message(why),
                    Err(_) => lost(),
                })
            }
            _ => Err(lost()),
        }
    }

    /// True once a call of an external program has failed. A second evaluation would run the program again.
    pub(in crate::rendering::jsonnet) fn has_program_failed(&self) -> bool {
        self.program_failed.get()
    }

    /// Records the reason why the evaluation is about to fail. The first reason stays.
    pub(in crate::rendering::jsonnet) fn note(&self, cause: EngineFailure) {
        self.cause.borrow_mut().get_or_insert(cause);
    }

    /// Takes the recorded reason, if there is one.
    pub(in crate::rendering::jsonnet) fn take_cause(&self) -> Option<EngineFailure> {
        self.cause.borrow_mut().take()
    }

    /// Sends a message to the parent.
    pub(in crate::rendering::jsonnet) fn send(&self, tag: u8, content: &[u8]) -> std::io::Result<()> {
        self.channel.send(tag, content)
    }

    fn ask(&self, ask: &ImportRequest) -> Result<Rc<str>, EngineFailure> {
        let lost = |_| EngineFailure::runtime("the parent does not answer");
        let question =
            serde_json::to_vec(ask).map_err(|_| EngineFailure::runtime("an import has no name"))?;
        self.send(message::IMPORT, &question).map_err(lost)?;
        let mut answer = self.channel.receive().map_err(lost)?;
        let unclear = || EngineFailure::runtime("the parent sent an unexpected answer");
        if answer.tag == TASK_DEPENDENT {
            self.channel
                .add_task_dependent(&answer.content)
                .ok_or_else(unclear)?;
            answer = self.channel.receive().map_err(lost)?;
        }
        match answer.tag {
            NO_FILE => Err(EngineFailure::Import { trace: Vec::new() }),
            SAME_FILE => String::from_utf8(answer.content)
                .map(Rc::from)
                .map_err(|_| unclear()),
            FILE => {
                let (path, content) = split_file(&answer.content).ok_or_else(unclear)?;
                let path: Rc<str> = path.into();
                self.channel
                    .files
                    .borrow_mut()
                    .insert(path.clone(), content.into());
                self.channel.rewritten.borrow_mut().remove(&path);
                Ok(path)
            }
            _ => Err(unclear()),
        }
    }
}

/// Returns the failure of a text that the language refuses.
fn refusal(origin: &SourceOrigin, bytes: &[u8], error: &SyntaxError) -> EngineFailure {
    let place = error.range.begin;
    let mut ends = memchr::memchr_iter(b'\n', bytes);
    let line_start = match place.line {
        0 | 1 => 0,
        line => ends.nth(line as usize - 2).map_or(0, |end| end + 1),
    };
    let (line, column) = position(bytes, line_start + place.column.saturating_sub(1) as usize);
    EngineFailure::Syntax {
        path: origin.to_string(),
        line,
        column,
        message: error.message.clone(),
        trace: Vec::new(),
    }
}

/// Splits a file message into the path and the bytes of the file.
fn split_file(content: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = content.split_first_chunk::<2>()?;
    let (path, bytes) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((std::str::from_utf8(path).ok()?, bytes))
}

/// Returns line and column of a byte of a text, from 1; the column counts characters.
fn position(text: &[u8], at: usize) -> (u64, u64) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    let lines = memchr::memchr_iter(b'\n', before).count() as u64;
    let line = before.get(line_start..).unwrap_or_default();
    // Every byte that is not a continuation byte begins a character.
    let characters = line.iter().filter(|byte| (**byte & 0xc0) != 0x80).count() as u64;
    (lines + 1, characters + 1)
}
