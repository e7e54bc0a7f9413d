//! Evaluations as the parent sees them: a task goes in, imports are answered, a value comes out.
//! Blocks; whoever calls it can end it at any time by killing the sandbox worker.

use super::canonical::Bounds;
use super::contract::{Entry, EvalError, EvalLimits, Evaluated, Request, SecondOpinion};
use super::foreign::{Call, Outside, Programs};
use super::import::{Found, Imports};
use super::known::Known;
use super::message::{
    ASK, Ask, DEPENDS, Engines, FAILED, FAILING, FILE, Failure, NO_FILE, NO_OUTPUT, OPINION, OUTPUT, OWN,
    Opinion, RUN, SAME_FILE, TASK, Task, VALUE,
};
use super::remembered::Remembered;
use super::syntax;
use crate::model::RepoPath;
use crate::sandbox::{Inmate, JailError, Killer, LayerName, PostMortem};
use crate::spool;
use crate::workspace::{Denied, Tree};
use bytes::Bytes;
use std::io::ErrorKind;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Depth of calls when nobody says otherwise.
const STACK_DEFAULT: u32 = 500;
/// Bytes of a message that is not a value; the values of a chart have at most a MiB before they are quoted.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The signal for too much processor time.
const SIGXCPU: i32 = 24;

/// The end of a conversation with a sandbox worker.
pub(super) enum Ending {
    /// Ended with an answer, or with a failure that has its reason. The sandbox worker can be given another task, unless it took too much
    /// of the machine or broke the protocol.
    Answered(Result<Evaluated, EvalError>, Option<Dialogue>),
    /// The sandbox worker died. There may be a value already; then only the cross-check is missing. Or it is known why there is
    /// none.
    Died {
        value: Option<Evaluated>,
        failed: Option<EvalError>,
        post_mortem: PostMortem,
    },
    /// The sandbox worker ended before it was given anything. Another one may do better.
    NotStarted(String),
}

/// The terms of every conversation with a sandbox worker: limits, forbidden paths, layers, programs and caches.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) limits: EvalLimits,
    pub(super) denied: Arc<Denied>,
    pub(super) required: Arc<[LayerName]>,
    pub(super) programs: Arc<Programs>,
    pub(super) remembered: Arc<Remembered>,
}

/// A sandbox worker, and what it has been told. It serves the requests of one batch on one tree.
#[derive(Debug)]
pub(super) struct Dialogue {
    inmate: Inmate,
    known: Known,
    tree: Arc<dyn Tree>,
    tasks: usize,
}

impl Dialogue {
    pub(super) fn new(inmate: Inmate, tree: Arc<dyn Tree>) -> Self {
        Self {
            inmate,
            known: Known::default(),
            tree,
            tasks: 0,
        }
    }

    /// Returns a handle that ends the worker from elsewhere.
    pub(super) fn killer(&self) -> Killer {
        self.inmate.killer()
    }

    /// Returns true if it may serve a request: its tree must be the same one.
    pub(super) fn fits(&self, request: &Request) -> bool {
        Arc::ptr_eq(&self.tree, &request.tree)
    }

    /// Evaluates one request by these engines. `first_done` is told when the first of both has answered;
    /// `shares` is true when the request is one of several; `outside` is what it waits for meanwhile.
    pub(super) fn hold(
        mut self,
        request: &Request,
        engines: Engines,
        terms: &Terms,
        shares: bool,
        first_done: oneshot::Sender<()>,
        outside: &Outside,
    ) -> Ending {
        if self.tasks == 0 {
            match self.inmate.require(&terms.required) {
                Ok(()) => {}
                Err(JailError::NotStarted(why)) => return Ending::NotStarted(why),
                Err(error @ JailError::Weaker(_)) => {
                    return Ending::Answered(Err(EvalError::Jail(error.to_string())), None);
                }
            }
        }
        self.tasks += 1;
        let limits = &terms.limits;
        let mut talk = Talk {
            inmate: &mut self.inmate,
            imports: Imports::new(
                request.tree.as_ref(),
                &request.jpath,
                limits,
                &terms.denied,
                &mut self.known,
            ),
            limits,
            programs: &terms.programs,
            outside,
            went_outside: false,
            refused: None,
            failed: None,
        };
        let json = match talk.first(request, engines, shares) {
            Ok(json) => json,
            Err(stop) => {
                let failed = talk.failed.take();
                return self.stopped(stop, None, failed, limits);
            }
        };
        // Nobody listens when the caller has gone.
        let _gone = first_done.send(());
        let opinion = talk.second(engines);
        let is_settled = !talk.went_outside && engines == Engines::First;
        let evaluated = Evaluated {
            json,
            imports: talk.imports.into_list(),
            second_opinion: SecondOpinion::NotAsked,
        };
        if is_settled {
            terms.remembered.keep(request, &evaluated);
        }
        match opinion {
            Ok(second_opinion) => {
                let evaluated = Evaluated {
                    second_opinion,
                    ..evaluated
                };
                Ending::Answered(Ok(evaluated), self.another(limits))
            }
            Err(stop) => self.stopped(stop, Some(evaluated), None, limits),
        }
    }

    fn stopped(
        self,
        stop: Stop,
        value: Option<Evaluated>,
        failed: Option<EvalError>,
        limits: &EvalLimits,
    ) -> Ending {
        let (error, dialogue) = match stop {
            Stop::Told(error) => (error, self.another(limits)),
            Stop::Broken(error) => (error, None),
            Stop::Silence => {
                let post_mortem = self.inmate.post_mortem();
                return Ending::Died {
                    value,
                    failed,
                    post_mortem,
                };
            }
        };
        let result = match value {
            None => Err(error),
            Some(evaluated) => Ok(Evaluated {
                second_opinion: SecondOpinion::Failed(Box::new(error)),
                ..evaluated
            }),
        };
        Ending::Answered(result, dialogue)
    }

    /// Returns the dialogue itself, unless it has grown too large to go on.
    fn another(self, limits: &EvalLimits) -> Option<Self> {
        let bytes = self.inmate.resident_bytes()?;
        (bytes < limits.recycle_bytes).then_some(self)
    }
}

struct Talk<'a> {
    inmate: &'a mut Inmate,
    imports: Imports<'a>,
    limits: &'a EvalLimits,
    programs: &'a Programs,
    outside: &'a Outside,
    /// True if the value depends on more than its imports.
    went_outside: bool,
    /// The reason why the last import was refused.
    refused: Option<EvalError>,
    /// The reason why there will be no value, while its place is looked for.
    failed: Option<EvalError>,
}

/// The reason why the conversation does not go on.
enum Stop {
    /// The sandbox worker says so, and waits for the next task.
    Told(EvalError),
    /// The sandbox worker does not do what it should.
    Broken(EvalError),
    /// The other side is gone.
    Silence,
}

impl Talk<'_> {
    /// Sends the task, serves what the worker asks for, and returns the value.
    fn first(&mut self, request: &Request, engines: Engines, shares: bool) -> Result<Bytes, Stop> {
        let task = self.task(request, engines, shares).map_err(Stop::Told)?;
        let task = serde_json::to_vec(&task).map_err(|error| broken(&error))?;
        self.inmate.say(TASK, &[&task]).map_err(|_| Stop::Silence)?;
        let answer = self.answer(VALUE)?;
        let spool = self.programs.spool();
        if !spool.has_room(answer.len()) {
            let bytes = spool::BYTES_MAX;
            return Err(Stop::Told(EvalError::Crowded { bytes }));
        }
        Ok(spool.keep(answer))
    }

    /// Returns the answer of the second engine about the value, if it is asked in the same process.
    fn second(&mut self, engines: Engines) -> Result<SecondOpinion, Stop> {
        match engines {
            Engines::First | Engines::Second => Ok(SecondOpinion::NotAsked),
            Engines::Both => self.opinion(),
        }
    }

    fn opinion(&mut self) -> Result<SecondOpinion, Stop> {
        let answer = self.answer(OPINION)?;
        let opinion: Opinion = serde_json::from_slice(&answer).map_err(|error| broken(&error))?;
        Ok(match opinion {
            Opinion::Agrees => SecondOpinion::Agrees,
            Opinion::Differs {
                path,
                first,
                second,
                known,
            } => SecondOpinion::Differs {
                path,
                first,
                second,
                known,
            },
            Opinion::Failed(failure) => {
                SecondOpinion::Failed(Box::new(failure.into_error(self.limits, self.refused.take())))
            }
        })
    }

    /// Answers imports until the sandbox worker says what is waited for.
    fn answer(&mut self, wanted: u8) -> Result<Vec<u8>, Stop> {
        let bytes_max = self.limits.output_bytes_max.max(MESSAGE_BYTES_MAX);
        loop {
            let frame = self.inmate.hear(bytes_max).map_err(|error| match error.kind() {
                ErrorKind::InvalidData => Stop::Broken(EvalError::Output {
                    bytes: self.limits.output_bytes_max as u64,
                }),
                _ => Stop::Silence,
            })?;
            match frame.tag {
                ASK => {
                    let ask: Ask = serde_json::from_slice(&frame.content).map_err(|error| broken(&error))?;
                    self.import(&ask)?;
                }
                RUN => {
                    let call: Call =
                        serde_json::from_slice(&frame.content).map_err(|error| broken(&error))?;
                    self.run(&call)?;
                }
                DEPENDS => {
                    let file = String::from_utf8_lossy(&frame.content);
                    let own = self.imports.depends(&file);
                    self.keep_apart(&own)?;
                }
                FAILED => {
                    let failure: Failure =
                        serde_json::from_slice(&frame.content).map_err(|error| broken(&error))?;
                    return Err(Stop::Told(failure.into_error(self.limits, self.refused.take())));
                }
                FAILING => {
                    let failure: Failure =
                        serde_json::from_slice(&frame.content).map_err(|error| broken(&error))?;
                    self.failed = Some(failure.into_error(self.limits, self.refused.clone()));
                }
                tag if tag == wanted => return Ok(frame.content),
                tag => return Err(broken(&format!("an unexpected message {tag}"))),
            }
        }
    }

    fn import(&mut self, ask: &Ask) -> Result<(), Stop> {
        let answer = match self.imports.find(ask) {
            Ok(answer) => answer,
            Err(error) => {
                self.refused = Some(error);
                return self.inmate.say(NO_FILE, &[]).map_err(|_| Stop::Silence);
            }
        };
        if !answer.own.is_empty() {
            self.keep_apart(&answer.own)?;
        }
        let said = match answer.found {
            Found::New(path, content) => {
                let path = path.as_str().as_bytes();
                // A path has at most 4,096 bytes.
                let length = u16::try_from(path.len()).unwrap_or(u16::MAX).to_be_bytes();
                self.inmate.say(FILE, &[&length, path, &content])
            }
            Found::Same(path) => self.inmate.say(SAME_FILE, &[path.as_str().as_bytes()]),
        };
        said.map_err(|_| Stop::Silence)
    }

    fn run(&mut self, call: &Call) -> Result<(), Stop> {
        self.went_outside = true;
        let said = match self.programs.answer(call, &mut self.imports, self.outside) {
            Ok(output) => self.inmate.say(OUTPUT, &[output.as_bytes()]),
            Err(refusal) => {
                let refusal = serde_json::to_vec(&refusal).map_err(|error| broken(&error))?;
                self.inmate.say(NO_OUTPUT, &[&refusal])
            }
        };
        said.map_err(|_| Stop::Silence)
    }

    fn keep_apart(&mut self, own: &[String]) -> Result<(), Stop> {
        let own = serde_json::to_vec(own).map_err(|error| broken(&error))?;
        self.inmate.say(OWN, &[&own]).map_err(|_| Stop::Silence)
    }

    fn task(&mut self, request: &Request, engines: Engines, shares: bool) -> Result<Task, EvalError> {
        let (name, text) = match &request.entry {
            Entry::Snippet { name, text } => (name, text.clone()),
            Entry::File(path) => (path, text_of(path, &self.imports.program(path)?)?),
        };
        let max_stack = match request.max_stack {
            0 => STACK_DEFAULT,
            depth => depth,
        };
        Ok(Task {
            name: name.to_string(),
            text,
            ext_code: request.ext_code.clone(),
            tla_code: request.tla_code.clone(),
            max_stack: max_stack as usize,
            bounds: Bounds {
                bytes_max: self.limits.output_bytes_max,
                values_max: self.limits.values_max,
                objects_max: self.limits.objects_max,
            },
            nesting_max: self.limits.nesting_max,
            depth_max: syntax::depth_within(self.limits.stack_bytes_max),
            engines,
            shares,
        })
    }
}

fn text_of(path: &RepoPath, content: &Bytes) -> Result<String, EvalError> {
    match String::from_utf8(content.to_vec()) {
        Ok(text) => Ok(text),
        Err(_) => Err(EvalError::ImportFailed {
            path: path.to_string(),
            importer: String::new(),
            why: "not UTF-8".to_owned(),
            trace: Vec::new(),
        }),
    }
}

fn broken(error: &dyn std::fmt::Display) -> Stop {
    Stop::Broken(EvalError::Jail(error.to_string()))
}

/// Returns the error for a sandbox worker that ended by itself, from its exit report.
pub(super) fn cause_of_death(post_mortem: &PostMortem, entry: &Entry, limits: &EvalLimits) -> EvalError {
    let name = match entry {
        Entry::File(path) | Entry::Snippet { name: path, .. } => path.to_string(),
    };
    // The standard library says these words, and then ends the process.
    let said = |words: &str| post_mortem.last_words.contains(words);
    if said("memory allocation of") {
        return EvalError::Memory {
            bytes: limits.memory_bytes_max,
        };
    }
    if said("has overflowed its stack") {
        return EvalError::Stack(name);
    }
    match post_mortem.signal {
        Some(SIGXCPU) => EvalError::Time {
            seconds: limits.time_max.as_secs(),
        },
        signal => EvalError::Crashed {
            signal: signal.unwrap_or(0),
            entry: name,
        },
    }
}
