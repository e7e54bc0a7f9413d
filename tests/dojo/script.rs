//! The hijacked model: it answers with its row, step by step, and records the requests. A mark in the person's words
//! identifies the conversation: `(case 17)`.

use super::bystander;
use super::configuration::SECOND_MODEL;
use super::expansion::DojoCase;
use super::table::{ScriptedCall, ScriptedFault};
use super::watch::LeakWatch;
use drydock::simulation::emulator::model::{AnswerFault, AnswerScript, ModelRequest, ScriptedAnswer, says};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time that the first answer takes if the person writes in the meantime.
const SLOW: Duration = Duration::from_millis(1_000);

/// Returns the text of every last answer, which identifies it.
pub(crate) fn final_line(number: usize) -> String {
    format!("End of answer {number}.")
}

/// Returns the mark of a case in the words of a person.
pub(crate) fn case_mark(number: usize) -> String {
    format!("(case {number})")
}

/// The result of one call as the model received it.
#[derive(Clone, Debug)]
pub(crate) struct ToolCallRecord {
    /// The number of the answer with the call, from 0.
    pub(crate) step: usize,
    pub(crate) tool: String,
    pub(crate) is_error: bool,
    pub(crate) content: String,
}

/// The observations of one conversation of the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConversationRecord {
    /// The number of requests so far.
    pub(crate) requests: usize,
    /// True if the last answer was given.
    pub(crate) ended: bool,
    /// The forbidden parts found in requests.
    pub(crate) leaks: BTreeSet<String>,
    /// The results of calls.
    pub(crate) results: Vec<ToolCallRecord>,
    /// The texts of the row's `sends` that a request contained.
    pub(crate) sent: BTreeSet<String>,
    /// The texts of the person, and the remarks of the gateway.
    pub(crate) read: String,
}

/// The observations of all conversations, by the number of their case.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConversationRecords(Arc<Mutex<BTreeMap<usize, ConversationRecord>>>);

impl ConversationRecords {
    /// Returns the observations of one case, which are empty if the model had no request.
    pub(crate) fn record(&self, number: usize) -> ConversationRecord {
        self.change(|seen| seen.get(&number).cloned().unwrap_or_default())
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<usize, ConversationRecord>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The model of one fixture.
pub(crate) struct HijackedModel {
    pub(crate) cases: BTreeMap<usize, DojoCase>,
    pub(crate) records: ConversationRecords,
    pub(crate) watch: Arc<LeakWatch>,
}

impl AnswerScript for HijackedModel {
    fn answer(&mut self, asked: &ModelRequest) -> Option<ScriptedAnswer> {
        let number = case_number(asked)?;
        let mut leaks = self.watch.secrets_and_canaries(asked.raw.as_bytes(), number);
        let case = self.cases.get(&number);
        leaks.extend(case.into_iter().flat_map(|case| forbidden_texts(case, asked)));
        let sent = case.into_iter().flat_map(|case| &case.row.expect.sends);
        let sent: BTreeSet<String> = sent.filter(|text| is_sent(asked, text)).cloned().collect();
        let summary = case.and_then(|case| case.row.summary.as_ref());
        if let Some(summary) = summary.filter(|_| asked.tools.is_empty()) {
            self.records.change(|all| {
                let seen = all.entry(number).or_default();
                seen.leaks.extend(leaks);
                seen.sent.extend(sent);
            });
            return Some(says(summary.clone()));
        }
        let calls = asked
            .messages
            .iter()
            .rev()
            .nth(1)
            .map(|message| message.calls.as_slice());
        let results: Vec<_> = asked
            .last_results()
            .iter()
            .map(|result| {
                let mut calls = calls.into_iter().flatten();
                let call = calls.find(|call| call.id == result.call);
                let tool = call.map_or("?", |call| &call.name).to_owned();
                // Chat completions mark errors only by this prefix.
                let is_error = result.is_error || result.content.starts_with("error: ");
                (tool, is_error, result.content.clone())
            })
            .collect();
        let outcome = |step: usize, (tool, is_error, content)| ToolCallRecord {
            step,
            tool,
            is_error,
            content,
        };
        let step = self.records.change(|all| {
            let seen = all.entry(number).or_default();
            seen.leaks.extend(leaks);
            seen.sent.extend(sent);
            let step = seen.requests.saturating_sub(1);
            let results = results.into_iter().map(|result| outcome(step, result));
            seen.results.extend(results);
            seen.read = asked.last_user_text().to_owned();
            seen.requests += 1;
            seen.requests - 1
        });
        let Some(case) = self.cases.get(&number) else {
            return Some(bystander::answer(number, step));
        };
        let (answer, is_last) = answer(case, step);
        if is_last {
            self.records
                .change(|all| all.entry(number).or_default().ended = true);
        }
        Some(answer)
    }
}

fn answer(case: &DojoCase, step: usize) -> (ScriptedAnswer, bool) {
    let row = &case.row;
    // The last answer is the one after the steps, and again the one after the later steps.
    let later = step.checked_sub(row.steps.len() + 1);
    let calls = row.steps.get(step).or_else(|| row.later.get(later?));
    let (answer, is_last) = match calls {
        Some(calls) => {
            let mut answer = tool_calls(calls);
            answer.thinking = row.ponders.clone();
            (answer, false)
        }
        None => {
            let words = row.says.as_deref().unwrap_or("Done.");
            let mut answer = says(format!("{words}\n\n{}", final_line(case.number)));
            answer.thinking = row.thinks.clone();
            (answer, true)
        }
    };
    match &row.fault {
        // The person writes in the meantime.
        None if step == 0 && !row.meanwhile.is_empty() => {
            (answer.with_fault(AnswerFault::Delay(SLOW)), is_last)
        }
        Some(broken) if step == row.fault_at => (answer.with_fault(emulator_fault(broken)), is_last),
        Some(_) | None => (answer, is_last),
    }
}

/// Returns the texts in a request that its row forbids.
fn forbidden_texts(case: &DojoCase, asked: &ModelRequest) -> Vec<String> {
    let expect = &case.row.expect;
    let instructed = expect.never_instructs.iter();
    let instructed = instructed.filter(|text| asked.system.contains(text.as_str()));
    let passed_on = expect.never_passes_on.iter();
    let passed_on = passed_on.filter(|text| asked.model == SECOND_MODEL && asked.raw.contains(text.as_str()));
    let sent = expect.never_sends.iter().filter(|text| is_sent(asked, text));
    let sent = sent.map(|text| format!("{text:?} in a message"));
    let instructed = instructed.map(|text| format!("{text:?} in its instructions"));
    let passed_on = passed_on.map(|text| format!("{text:?} for the second model"));
    instructed.chain(passed_on).chain(sent).collect()
}

/// Returns true if a message of a request contains a text.
fn is_sent(asked: &ModelRequest, text: &str) -> bool {
    asked.messages.iter().any(|message| message.text.contains(text))
}

fn tool_calls(calls: &[ScriptedCall]) -> ScriptedAnswer {
    let mut answer = says("");
    for call in calls {
        for _ in 0..call.times {
            answer = answer.with_call(&call.tool, call.with.clone());
        }
    }
    answer
}

fn emulator_fault(broken: &ScriptedFault) -> AnswerFault {
    match broken {
        ScriptedFault::Body {
            status,
            headers,
            body,
        } => AnswerFault::Status {
            status: *status,
            headers: headers.clone().into_iter().collect(),
            body: body.clone(),
        },
        ScriptedFault::Arguments(text) => AnswerFault::Arguments(text.clone()),
        ScriptedFault::Ids(id) => AnswerFault::Ids(id.clone()),
        ScriptedFault::Stop(reason) => AnswerFault::Stop(reason.clone()),
        ScriptedFault::Reset(bytes) => AnswerFault::ResetAfter(*bytes),
        ScriptedFault::End(bytes) => AnswerFault::EndAfter(*bytes),
        ScriptedFault::Malformed => AnswerFault::Malformed,
    }
}

/// Returns the case of a request: the newest mark in it.
fn case_number(asked: &ModelRequest) -> Option<usize> {
    let texts = asked.messages.iter().rev().map(|message| &message.text);
    texts.filter_map(|text| number_in_mark(text)).next()
}

fn number_in_mark(text: &str) -> Option<usize> {
    let (_, after) = text.rsplit_once("(case ")?;
    after.split_once(')')?.0.parse().ok()
}
