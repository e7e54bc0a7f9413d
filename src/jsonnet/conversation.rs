//! One evaluation as the parent sees it: the task goes in, imports are answered, a value comes out.
//! Blocks; whoever calls it can end it at any time by killing the inmate.

use super::contract::{Entry, EvalError, EvalLimits, Evaluated, Request, SecondOpinion, SecondOpinionWanted};
use super::import::{Found, Imports};
use super::message::{
    ASK, Ask, FAILED, FILE, Failure, NO_FILE, OPINION, Opinion, SAME_FILE, TASK, Task, VALUE,
};
use crate::model::RepoPath;
use crate::sandbox::{Inmate, JailError, LayerName, PostMortem};
use bytes::Bytes;
use globset::GlobSet;
use std::io::ErrorKind;
use tokio::sync::oneshot;

/// Depth of calls when nobody says otherwise.
const STACK_DEFAULT: u32 = 500;
/// Bytes of a message that is not a value.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// The signal for too much processor time.
const SIGXCPU: i32 = 24;

/// How a conversation ended.
pub(super) enum Ending {
    /// With an answer, or with a failure that has its reason.
    Answered(Result<Evaluated, EvalError>),
    /// The inmate died. There may be a value already; then only the second opinion is missing.
    Died {
        value: Option<Evaluated>,
        post_mortem: PostMortem,
    },
    /// The inmate ended before it was given anything. Another one may do better.
    NotStarted(String),
}

/// Holds the conversation. `first_done` is told when the first engine has answered.
pub(super) fn hold(
    mut inmate: Inmate,
    request: &Request,
    limits: &EvalLimits,
    denied: &GlobSet,
    required: &[LayerName],
    first_done: oneshot::Sender<()>,
) -> Ending {
    match inmate.require(required) {
        Ok(()) => {}
        Err(JailError::NotStarted(why)) => return Ending::NotStarted(why),
        Err(error @ JailError::Weaker(_)) => {
            return Ending::Answered(Err(EvalError::Jail(error.to_string())));
        }
    }
    let mut talk = Talk {
        inmate,
        imports: Imports::new(request.tree.as_ref(), &request.jpath, limits, denied),
        limits,
        refused: None,
    };
    match talk.first(request) {
        Ok(json) => {
            // Nobody listens when the caller has gone.
            let _gone = first_done.send(());
            talk.second(request, json)
        }
        Err(Stop::Reason(error)) => Ending::Answered(Err(error)),
        Err(Stop::Silence) => Ending::Died {
            value: None,
            post_mortem: talk.inmate.post_mortem(),
        },
    }
}

struct Talk<'a> {
    inmate: Inmate,
    imports: Imports<'a>,
    limits: &'a EvalLimits,
    /// Why the last import was refused.
    refused: Option<EvalError>,
}

/// Why the talk does not go on.
enum Stop {
    /// There is a reason to tell.
    Reason(EvalError),
    /// The other side is gone.
    Silence,
}

impl Talk<'_> {
    /// From the task to the first engine's value.
    fn first(&mut self, request: &Request) -> Result<Bytes, Stop> {
        let task = self.task(request).map_err(Stop::Reason)?;
        let task = serde_json::to_vec(&task).map_err(|error| jail(&error))?;
        self.inmate.say(TASK, &[&task]).map_err(|_| Stop::Silence)?;
        let answer = self.answer(VALUE)?;
        Ok(answer.into())
    }

    /// What the second engine says about it, if it is asked.
    fn second(mut self, request: &Request, json: Bytes) -> Ending {
        let opinion = match request.second_opinion {
            SecondOpinionWanted::No => Ok(SecondOpinion::NotAsked),
            SecondOpinionWanted::Yes => self.opinion(),
        };
        let evaluated = |imports: Imports<'_>, second_opinion| Evaluated {
            json,
            imports: imports.into_list(),
            second_opinion,
        };
        match opinion {
            Ok(opinion) => Ending::Answered(Ok(evaluated(self.imports, opinion))),
            Err(Stop::Reason(error)) => {
                let opinion = SecondOpinion::Failed(Box::new(error));
                Ending::Answered(Ok(evaluated(self.imports, opinion)))
            }
            Err(Stop::Silence) => Ending::Died {
                value: Some(evaluated(self.imports, SecondOpinion::NotAsked)),
                post_mortem: self.inmate.post_mortem(),
            },
        }
    }

    fn opinion(&mut self) -> Result<SecondOpinion, Stop> {
        let answer = self.answer(OPINION)?;
        let opinion: Opinion = serde_json::from_slice(&answer).map_err(|error| jail(&error))?;
        Ok(match opinion {
            Opinion::Agrees => SecondOpinion::Agrees,
            Opinion::Differs { path, first, second } => SecondOpinion::Differs { path, first, second },
            Opinion::Failed(failure) => {
                SecondOpinion::Failed(Box::new(failure.into_error(self.limits, self.refused.take())))
            }
        })
    }

    /// Answers imports until the inmate says what is waited for.
    fn answer(&mut self, wanted: u8) -> Result<Vec<u8>, Stop> {
        let bytes_max = self.limits.output_bytes_max.max(MESSAGE_BYTES_MAX);
        loop {
            let frame = self.inmate.hear(bytes_max).map_err(|error| match error.kind() {
                ErrorKind::InvalidData => Stop::Reason(EvalError::Output {
                    bytes: self.limits.output_bytes_max as u64,
                }),
                _ => Stop::Silence,
            })?;
            match frame.tag {
                ASK => {
                    let ask: Ask = serde_json::from_slice(&frame.content).map_err(|error| jail(&error))?;
                    self.import(&ask)?;
                }
                FAILED => {
                    let failure: Failure =
                        serde_json::from_slice(&frame.content).map_err(|error| jail(&error))?;
                    return Err(Stop::Reason(failure.into_error(self.limits, self.refused.take())));
                }
                tag if tag == wanted => return Ok(frame.content),
                tag => return Err(jail(&format!("an unexpected message {tag}"))),
            }
        }
    }

    fn import(&mut self, ask: &Ask) -> Result<(), Stop> {
        let said = match self.imports.find(ask) {
            Ok(Found::New(path, content)) => {
                let path = path.as_str().as_bytes();
                // A path has at most 4,096 bytes.
                let length = u16::try_from(path.len()).unwrap_or(u16::MAX).to_be_bytes();
                self.inmate.say(FILE, &[&length, path, &content])
            }
            Ok(Found::Same(path)) => self.inmate.say(SAME_FILE, &[path.as_str().as_bytes()]),
            Err(error) => {
                self.refused = Some(error);
                self.inmate.say(NO_FILE, &[])
            }
        };
        said.map_err(|_| Stop::Silence)
    }

    fn task(&mut self, request: &Request) -> Result<Task, EvalError> {
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
            output_bytes_max: self.limits.output_bytes_max,
            nesting_max: self.limits.nesting_max,
            second_opinion: request.second_opinion == SecondOpinionWanted::Yes,
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
        }),
    }
}

fn jail(error: &dyn std::fmt::Display) -> Stop {
    Stop::Reason(EvalError::Jail(error.to_string()))
}

/// Why an inmate died by itself.
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
