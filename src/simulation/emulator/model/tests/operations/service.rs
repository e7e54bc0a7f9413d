//! A service that reads each request as all four services do, and answers it as the one that was asked.

use super::counts::{Counted, Counts};
use super::plan::{ARGUMENTS, CALLS, IDS, PlannedAnswer, PlannedFault, WORDS};
use crate::base::config::WireFormat;
use crate::base::model::{Turn, Usage};
use crate::interfaces::provider::in_process::{EncodedRequest, InProcessService, ServedAnswer};
use crate::interfaces::provider::{TurnRequest, fixed_bytes};
use crate::simulation::emulator::model::server::{KeyPolicy, ParsedRequest};
use crate::simulation::emulator::model::wire_format::EmulatedFormat;
use crate::simulation::emulator::model::{
    AnswerFault, RequestMessage, RequestRole, RequestedCalls, ScriptedAnswer, WIRE_FORMATS, says,
};
use http::Uri;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// The service of all providers of a conversation.
pub(super) struct FourServices {
    state: Mutex<ServiceState>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct ServiceState {
    answers: VecDeque<PlannedAnswer>,
    /// The kind of the summary that is written.
    summary: usize,
    /// The request that is answered, and its format.
    asked: Option<(&'static dyn EmulatedFormat, ParsedRequest)>,
    given: u64,
    problems: Vec<String>,
}

impl FourServices {
    pub(super) fn new(counts: Arc<Counts>) -> Self {
        Self {
            state: Mutex::default(),
            counts,
        }
    }

    /// Sets the answers of the next turn. After them, the model is done.
    pub(super) fn will_answer(&self, answers: &[PlannedAnswer], summary: usize) {
        let mut state = self.state();
        state.answers = answers.iter().cloned().collect();
        state.summary = summary;
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.state().problems.clone()
    }

    fn state(&self) -> MutexGuard<'_, ServiceState> {
        self.state.lock().unwrap()
    }
}

fn format_of(request: &EncodedRequest) -> &'static dyn EmulatedFormat {
    let mut formats = WIRE_FORMATS.iter();
    *formats.find(|format| format.wire() == request.wire).unwrap()
}

/// Reads a request as its service does.
fn read(request: &EncodedRequest) -> Result<ParsedRequest, String> {
    let format = format_of(request);
    let uri: Uri = format!("{}{}", format.base_path(), request.path).parse().unwrap();
    let body = serde_json::from_slice(&request.body).map_err(|error| error.to_string())?;
    let read = format.read(&uri, &request.headers, &body, KeyPolicy::Required);
    read.map_err(|refusal| refusal.why)
}

/// Returns the roles of messages, with the numbers of their calls and results. They are the same in every format.
fn shape(messages: &[RequestMessage]) -> Vec<(bool, usize, usize)> {
    let shape = |message: &RequestMessage| {
        let is_user = message.role == RequestRole::User;
        (is_user, message.calls.len(), message.results.len())
    };
    messages.iter().map(shape).collect()
}

/// Returns what is wrong with a request, beside the rules of its service.
fn differences(encoded: &EncodedRequest, parsed: &ParsedRequest, request: &TurnRequest<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    // No text of the conversation becomes a part of the instructions.
    if parsed.system != request.system {
        wrong.push(format!("the instructions are {:?}", parsed.system));
    }
    // Chat completions offer nothing but the call that they force.
    let is_forced = matches!(parsed.tool_choice, RequestedCalls::Forced(_));
    let offered = match encoded.wire {
        WireFormat::OpenaiChat if is_forced => 1,
        _ => request.tools.len(),
    };
    if parsed.tools.len() != offered {
        wrong.push(format!("{} tools are offered", parsed.tools.len()));
    }
    let turns = request.turns.iter().map(Turn::bytes).sum::<usize>();
    let counted = fixed_bytes(request.system, request.tools) + turns;
    if encoded.body.len() > counted {
        wrong.push(format!("{} bytes were counted as {counted}", encoded.body.len()));
    }
    wrong
}

impl InProcessService for FourServices {
    fn receive(&self, requests: &[EncodedRequest], request: &TurnRequest<'_>) {
        let mut state = self.state();
        state.asked = None;
        let mut first = None;
        for encoded in requests {
            self.counts.add(Counted::Requests);
            let parsed = match read(encoded) {
                Ok(parsed) => parsed,
                Err(why) => {
                    state.problems.push(format!("{:?}: {why}", encoded.wire));
                    continue;
                }
            };
            let wrong = differences(encoded, &parsed, request).into_iter();
            state
                .problems
                .extend(wrong.map(|why| format!("{:?}: {why}", encoded.wire)));
            let shape = shape(&parsed.messages);
            if *first.get_or_insert_with(|| shape.clone()) != shape {
                let why = format!(
                    "{:?}: the messages are {shape:?}, and {first:?} before",
                    encoded.wire
                );
                state.problems.push(why);
            }
            if state.asked.is_none() {
                state.asked = Some((format_of(encoded), parsed));
            }
        }
    }

    fn answer(&self) -> ServedAnswer {
        let state = &mut *self.state();
        let Some((format, asked)) = &state.asked else {
            return ServedAnswer::Body(400, String::new());
        };
        state.given += 1;
        let number = state.given;
        let is_summary = asked.tools.is_empty();
        let planned = match is_summary {
            true => None,
            false => state.answers.pop_front(),
        };
        let Some(planned) = planned else {
            let answer = match (is_summary, state.summary) {
                (true, 1) => says("").with_thinking("Hm."),
                (true, 2) => says(WORDS[5]).with_call("file_write", serde_json::json!({"path": "words"})),
                (true, 3) => return ServedAnswer::Body(529, format.error_body(529, "busy")),
                (true, 4) => says(WORDS[9].repeat(20)),
                (true, _) => says("A summary."),
                (false, _) => says("Done."),
            };
            return ServedAnswer::Body(200, format.write(&answer, asked, number));
        };
        let (status, body) = match planned.fault {
            PlannedFault::Silence => return ServedAnswer::Silence,
            PlannedFault::Status(status) => (status, format.error_body(status, "planned")),
            PlannedFault::Malformed => (200, "{\"type\":\"message\",".to_owned()),
            PlannedFault::None
            | PlannedFault::Cut
            | PlannedFault::Refused
            | PlannedFault::UnknownReason
            | PlannedFault::Arguments(_)
            | PlannedFault::Ids(_)
            | PlannedFault::Ends
            | PlannedFault::ErrorEvent => {
                let mut body = format.write(&scripted(*format, &planned), asked, number);
                if planned.fault == PlannedFault::Ends {
                    let middle = body.floor_char_boundary(body.len() / 2);
                    body.truncate(middle);
                }
                (200, body)
            }
        };
        ServedAnswer::Body(status, body)
    }
}

/// Returns an answer as it is scripted for its format.
fn scripted(format: &dyn EmulatedFormat, planned: &PlannedAnswer) -> ScriptedAnswer {
    let expected = format.expectations();
    let mut answer = says(WORDS[planned.words]).with_usage(Usage {
        input: planned.tokens * 1_000,
        output: 50,
        cache_read: 0,
        cache_write: 0,
    });
    if planned.thinks {
        answer = answer.with_thinking("Hm.\u{2028}");
    }
    for (name, arguments) in planned.calls.iter().map(|index| CALLS[*index]) {
        answer = answer.with_call(name, serde_json::from_str(arguments).unwrap());
    }
    let fault = match planned.fault {
        PlannedFault::Cut => AnswerFault::Stop(expected.cut_reason.to_owned()),
        PlannedFault::Refused => AnswerFault::Stop(expected.refusal_reason.to_owned()),
        PlannedFault::UnknownReason => AnswerFault::Stop("unheard_of".to_owned()),
        PlannedFault::Arguments(index) => AnswerFault::Arguments(ARGUMENTS[index].to_owned()),
        PlannedFault::Ids(index) => AnswerFault::Ids(IDS[index].to_owned()),
        PlannedFault::ErrorEvent => AnswerFault::ErrorEvent("overloaded_error".to_owned()),
        PlannedFault::None
        | PlannedFault::Status(_)
        | PlannedFault::Malformed
        | PlannedFault::Ends
        | PlannedFault::Silence => return answer,
    };
    answer.with_fault(fault)
}
