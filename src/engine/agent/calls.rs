//! Runs the tool calls of one answer in three phases: prepare, execute, finish. Every call gets exactly one result;
//! unknown tools, invalid arguments and refusals are results, never errors.

use super::answer_record::{is_given_live_secret, redact_arguments};
use super::excerpt::{Excerpt, WholeTextBudget};
use super::messages;
use super::questions::QuestionLimit;
use super::{TurnContext, TurnEvent};
use crate::base::model::{Assistant, Effect, OutputNumber, StopReason, StoredOutput, ToolCall, ToolResult};
use crate::interfaces::tool::{Context, PreparedCall, ToolError, Toolbox};
use crate::state::download::DownloadObserver;
use futures_util::future::join_all;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The number of progress messages that may wait to be passed on; further ones are dropped.
const PROGRESS_QUEUE_MAX: usize = 16;

/// Time limit for an admitted write to finish after its turn was stopped or ran out of time. If a write takes longer,
/// the turn fails and returns to its last recorded step.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);

/// The channel on which running calls report progress: the index of a call in its group, and a text for users.
type ProgressSender = mpsc::Sender<(usize, String)>;

/// A call with its result, as it is shown.
#[derive(Clone, Debug)]
pub(super) struct CallResult {
    pub(super) result: ToolResult,
    pub(super) outcome: CallOutcome,
    /// The reason why a writing call did not write, without secrets.
    pub(super) write_failure: Option<String>,
}

/// The results of the calls of one answer.
pub(super) struct StepResults {
    /// The results in the order of the calls.
    pub(super) done: Vec<CallResult>,
    /// The whole texts of those that were shortened.
    pub(super) outputs: Vec<StoredOutput>,
}

/// A call that has ended, with its answer. A later call may reveal that a part of the answer is secret.
struct FinishedCall<'c> {
    call: &'c ToolCall,
    answer: Excerpt,
    /// The number under which the whole answer is stored, if it is too long to be shown.
    stored: Option<OutputNumber>,
    outcome: CallOutcome,
    /// The reason why a writing call did not write.
    write_failure: Option<String>,
}

/// The outcome of a call, for statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallOutcome {
    Read,
    Wrote,
    /// A message to another person is sent.
    Notified,
    Failed,
    Malformed,
    Refused,
}

impl CallOutcome {
    fn is_error(self) -> bool {
        match self {
            Self::Read | Self::Wrote | Self::Notified => false,
            Self::Failed | Self::Malformed | Self::Refused => true,
        }
    }
}

/// The calls of one answer.
pub(super) struct Calls<'a> {
    cx: TurnContext<'a>,
    offered: &'a Toolbox,
    deadline: Instant,
    /// Cancelled when the turn is stopped or out of time: no write is admitted after that.
    ended: CancellationToken,
    writers: TaskTracker,
    whole: WholeTextBudget,
    questions: QuestionLimit,
}

impl<'a> Calls<'a> {
    pub(super) fn new(cx: TurnContext<'a>, offered: &'a Toolbox, deadline: Instant) -> Self {
        let writers = TaskTracker::new();
        writers.close();
        Self {
            cx,
            offered,
            deadline,
            ended: cx.cancel.child_token(),
            writers,
            whole: WholeTextBudget::of_step(),
            questions: QuestionLimit::default(),
        }
    }

    /// Sets which of the calls may ask the person.
    pub(super) fn with_questions(self, questions: QuestionLimit) -> Self {
        Self { questions, ..self }
    }

    /// Runs all calls. Neighbouring read-only calls run in parallel; a call that writes waits for those before it.
    /// The results have the order of the calls. Outputs are numbered after `last_output`.
    pub(super) async fn run(
        &self,
        assistant: &Assistant,
        mut last_output: OutputNumber,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> anyhow::Result<StepResults> {
        let prepared: Vec<(&ToolCall, Result<PreparedCall, ToolError>)> = assistant
            .calls()
            .enumerate()
            .map(|(index, call)| (call, self.prepare(index, call, assistant.stop)))
            .collect();
        let mut all = Vec::new();
        let mut rest = prepared.into_iter().peekable();
        while let Some(first) = rest.next() {
            let mut group = vec![first];
            while reads(&group)
                && let Some(next) = rest.next_if(|next| reads(std::slice::from_ref(next)))
            {
                group.push(next);
            }
            let mut ended = self.run_in_parallel(group, events).await?;
            for ended in &mut ended {
                if ended.answer.is_longer_than(self.cx.limits.tool_output_bytes_max) {
                    last_output.0 += 1;
                    ended.stored = Some(last_output);
                }
            }
            report_finished(&ended, &self.shown(&ended), events);
            all.extend(ended);
        }
        self.end_writes().await?;
        // A secret that a later call revealed is redacted from earlier answers, too.
        Ok(StepResults {
            done: self.shown(&all),
            outputs: self.stored(&all),
        })
    }

    /// Returns the whole texts of answers that are too long to be shown.
    fn stored(&self, ended: &[FinishedCall<'_>]) -> Vec<StoredOutput> {
        let long = ended.iter().filter_map(|ended| {
            ended.stored.map(|number| StoredOutput {
                number,
                text: ended.answer.whole(self.cx.redactor),
            })
        });
        long.collect()
    }

    /// Ends the writes of the step: calls that were abandoned can write no more, and admitted writes are awaited. So
    /// the recorded edits of the step are complete.
    async fn end_writes(&self) -> anyhow::Result<()> {
        self.ended.cancel();
        let done = tokio::time::timeout(WRITE_TIME_MAX, self.writers.wait()).await;
        done.map_err(|_| anyhow::anyhow!("a write did not end within {} s", WRITE_TIME_MAX.as_secs()))
    }

    /// Runs neighbouring calls in parallel.
    async fn run_in_parallel<'c>(
        &self,
        group: Vec<(&'c ToolCall, Result<PreparedCall, ToolError>)>,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> anyhow::Result<Vec<FinishedCall<'c>>> {
        for (call, _) in &group {
            let arguments = redact_arguments(&call.arguments, self.cx.redactor);
            let tool = self.cx.toolbox.find(&call.name);
            let subject = tool.zip(arguments.value().ok());
            let subject = subject.and_then(|(tool, arguments)| tool.subject(arguments).map(str::to_owned));
            events(TurnEvent::ToolStarted {
                call: call.id.clone(),
                name: call.name.clone(),
                arguments,
                subject,
            });
        }
        let ended = self.join_with_progress(group, events).await;
        ended.into_iter().collect()
    }

    /// Waits for calls that run in parallel, and passes on their progress.
    async fn join_with_progress<'c>(
        &self,
        group: Vec<(&'c ToolCall, Result<PreparedCall, ToolError>)>,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> Vec<anyhow::Result<FinishedCall<'c>>> {
        let (progress, mut words) = mpsc::channel(PROGRESS_QUEUE_MAX);
        let calls: Vec<&ToolCall> = group.iter().map(|(call, _)| *call).collect();
        let running = group.into_iter().enumerate();
        let running = running
            .map(|(index, (call, prepared))| self.execute(call, prepared, self.watch(index, &progress)));
        let running = join_all(running);
        tokio::pin!(running);
        loop {
            tokio::select! {
                // Progress that was reported before the end is passed on before the end.
                biased;
                Some((index, text)) = words.recv() => if let Some(call) = calls.get(index) {
                    events(TurnEvent::ToolProgress {
                        call: call.id.clone(),
                        name: call.name.clone(),
                        text: self.cx.redactor.redact(&text).into_owned(),
                    });
                },
                ended = &mut running => return ended,
            }
        }
    }

    /// Returns an observer for the downloads of a call. It never blocks: messages are dropped if the queue is full or
    /// the call has ended.
    fn watch(&self, index: usize, progress: &ProgressSender) -> DownloadObserver {
        let progress = progress.clone();
        let report = move |text| drop(progress.try_send((index, text)));
        DownloadObserver::with_messages(report, &self.ended)
    }

    fn prepare(&self, index: usize, call: &ToolCall, stop: StopReason) -> Result<PreparedCall, ToolError> {
        let limits = self.cx.limits;
        if stop == StopReason::MaxTokens {
            let why = "your answer was cut at its token limit, so none of its calls was run; make fewer or smaller \
                       calls";
            return Err(ToolError::Malformed(why.to_owned()));
        }
        if index >= limits.calls_per_step_max {
            let max = limits.calls_per_step_max;
            return Err(ToolError::Failed(format!(
                "not run: at most {max} calls in one answer; call it in the next one"
            )));
        }
        if is_given_live_secret(call, self.cx.redactor) {
            let why = "not run: the arguments contain a secret of this server; no tool accepts it";
            return Err(ToolError::refused(why));
        }
        let prepared = self.offered.prepare(call, limits.call_arguments_bytes_max)?;
        self.questions.check(index, call)?;
        messages::check(call, self.questions)?;
        Ok(prepared)
    }

    async fn execute<'c>(
        &self,
        call: &'c ToolCall,
        prepared: Result<PreparedCall, ToolError>,
        watch: DownloadObserver,
    ) -> anyhow::Result<FinishedCall<'c>> {
        let result = match prepared {
            Ok(prepared) => self.call(prepared, &watch).await,
            Err(error) => Err(error),
        };
        let (answer, outcome, why) = match result {
            Ok((answer, outcome)) => (answer, outcome, None),
            Err(ToolError::Failed(why)) => (why.clone(), CallOutcome::Failed, Some(why)),
            Err(ToolError::Malformed(why)) => (why.clone(), CallOutcome::Malformed, Some(why)),
            Err(ToolError::Refused { answer, why }) => (answer, CallOutcome::Refused, Some(why)),
            Err(ToolError::Fatal(error)) => return Err(error),
        };
        Ok(FinishedCall {
            call,
            answer: Excerpt::new(
                &answer,
                self.cx.limits.tool_output_bytes_max,
                self.cx.redactor,
                &self.whole,
            ),
            stored: None,
            outcome,
            write_failure: why.filter(|_| self.is_write(call)),
        })
    }

    /// Returns the results of calls, without the secrets that are known by now. Redaction comes before truncation, so
    /// that no part of a secret is left.
    fn shown(&self, ended: &[FinishedCall<'_>]) -> Vec<CallResult> {
        let redactor = self.cx.redactor;
        let shown = ended.iter().map(|ended| {
            let unwritten = ended.write_failure.as_deref().map(|why| redactor.redact(why));
            CallResult {
                result: ToolResult {
                    call: ended.call.id.clone(),
                    content: ended
                        .answer
                        .shown(self.cx.limits.tool_output_bytes_max, ended.stored, redactor),
                    is_error: ended.outcome.is_error(),
                },
                outcome: ended.outcome,
                write_failure: unwritten.map(|why| match ended.outcome {
                    CallOutcome::Refused => why.into_owned(),
                    CallOutcome::Read
                    | CallOutcome::Wrote
                    | CallOutcome::Notified
                    | CallOutcome::Failed
                    | CallOutcome::Malformed => reason(&why),
                }),
            }
        });
        shown.collect()
    }

    /// Returns true if the tool of a call writes, whether or not it was offered to this user.
    fn is_write(&self, call: &ToolCall) -> bool {
        let tool = self.cx.toolbox.find(&call.name);
        tool.is_some_and(|tool| tool.effect() != Effect::Read)
    }

    async fn call(
        &self,
        prepared: PreparedCall,
        watch: &DownloadObserver,
    ) -> Result<(String, CallOutcome), ToolError> {
        let cx = Context {
            workspace: self.cx.workspace,
            identity: self.cx.identity,
            files_changed_max: self.cx.limits.files_changed_max,
            lines_changed_max: self.cx.limits.lines_changed_max,
            environments_changed_max: self.cx.limits.environments_changed_max,
            cancel: &self.ended,
            writers: &self.writers,
            watch,
            outputs: self.cx.outputs,
            output_bytes_max: self.cx.limits.tool_output_bytes_max,
        };
        let out_of_time = || {
            self.ended.cancel();
            ToolError::Failed("stopped: the turn ran out of time".to_owned())
        };
        if Instant::now() >= self.deadline {
            return Err(out_of_time());
        }
        let effect = prepared.tool.effect();
        let content = tokio::select! {
            // A call that finishes together with the stop counts as done.
            biased;
            result = prepared.tool.call(cx, prepared.arguments) => result?,
            () = self.cx.cancel.cancelled() => return Err(ToolError::Failed("stopped before it was done".to_owned())),
            () = tokio::time::sleep_until(self.deadline) => return Err(out_of_time()),
        };
        Ok((
            content,
            match effect {
                Effect::Read => CallOutcome::Read,
                Effect::Notify => CallOutcome::Notified,
                Effect::WriteWorkspace | Effect::Execute => CallOutcome::Wrote,
            },
        ))
    }
}

/// Reports to users that calls have ended. A call that sends a message has ended when the message is sent.
fn report_finished(
    ended: &[FinishedCall<'_>],
    done: &[CallResult],
    events: &mut (dyn FnMut(TurnEvent) + Send),
) {
    let finished = ended.iter().zip(done);
    for (ended, done) in finished.filter(|(_, done)| !messages::is_waiting(done)) {
        events(TurnEvent::ToolFinished {
            call: ended.call.id.clone(),
            name: ended.call.name.clone(),
            content: done.result.content.clone(),
            is_error: done.result.is_error,
        });
    }
}

/// Returns the reason of a failure, without the advice for the model that follows it.
fn reason(why: &str) -> String {
    why.split([';', '\n']).next().unwrap_or_default().to_owned()
}

fn reads(group: &[(&ToolCall, Result<PreparedCall, ToolError>)]) -> bool {
    let read = |prepared: &PreparedCall| prepared.tool.effect() == Effect::Read;
    group
        .iter()
        .all(|(_, prepared)| prepared.as_ref().is_ok_and(read))
}
