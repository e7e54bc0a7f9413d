//! Fixtures of the loop's tests: a workspace on a real repository of two files, slow tools, and a journal that can
//! fail.

use crate::base::config::ModelFacts;
use crate::base::model::{
    AskedQuestion, Attachment, ContextState, Effect, History, Limits, MediaTypes, MessageOutcome,
    OutputNumber, PersonMessage, Secret, Step,
};
use crate::base::redact::Redactor;
use crate::engine::agent::context::{ContextStrategy, strategy};
use crate::engine::agent::{
    CallLosses, CallPermission, CallSize, EarlierAttempts, Journal, PaidAnswer, Postconditions,
    QuestionRecord, Questioner, Questions, Recipients, SteeringMessage, StepRecord, TakeResult, TurnContext,
    TurnEvent, TurnModel, TurnOutcome, VerdictRule, run_turn,
};
use crate::interfaces::provider::scripted::ScriptedProvider;
use crate::interfaces::provider::{LostCharge, ToolSpec};
use crate::interfaces::tool::{self, Context, MemoryOutputs, Outputs, Tool, ToolError, Toolbox};
use crate::rendering::change_checks::CheckOutcome;
use crate::rendering::compare::CompareProgress;
use crate::state::access::{Identity, Role, testing::identity};
use crate::state::workspace::{
    Base, FetchProgress, Overlay, Repository, SecretGuard, Tree, Workspace, WorkspaceEdits,
};
use async_trait::async_trait;
use gix::objs::tree::EntryKind;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A secret the redactor knows.
pub(super) const SECRET: &str = "hunter2-hunter2-hunter2";

/// A secret that the redactor knows after `learn` has ended.
const LATE_SECRET: &str = "kept-to-ourselves-4711";

/// The services and settings of a turn in the tests.
pub(super) struct TurnFixture {
    base: Arc<Base>,
    pub(super) overlay: Arc<Overlay>,
    workspace: Workspace,
    pub(super) identity: Identity,
    toolbox: Toolbox,
    pub(super) limits: Limits,
    /// A strategy instead of the named one.
    pub(super) strategy: Option<&'static dyn ContextStrategy>,
    pub(super) context_tokens: Option<u32>,
    /// The types of files that the first model takes.
    pub(super) attachment_types: Option<MediaTypes>,
    /// The attachments of the next message.
    pub(super) attachments: Vec<Attachment>,
    /// The models after the first one.
    pub(super) fallbacks: Vec<(Arc<ScriptedProvider>, &'static str, ModelFacts)>,
    pub(super) verdict: VerdictRule,
    pub(super) earlier_attempts: EarlierAttempts,
    redactor: Arc<Redactor>,
    pub(super) postconditions: ScriptedPostconditions,
    pub(super) cancel: CancellationToken,
    /// The person who answers while the turn waits.
    pub(super) questioner: Option<Box<dyn Questioner>>,
    /// Outputs instead of those of the journal.
    pub(super) outputs: Option<Arc<dyn Outputs>>,
    /// True if the next turn goes on after a question.
    pub(super) resumed_steps: usize,
    /// The actions of the slow tools, in order.
    pub(super) log: Arc<Mutex<Vec<String>>>,
    _directory: TempDir,
}

/// The outcome of a turn, with its reported events and recorded steps.
pub(super) struct TurnRun {
    pub(super) outcome: anyhow::Result<TurnOutcome>,
    pub(super) events: Vec<TurnEvent>,
    pub(super) steps: Vec<Step>,
    /// The questions that were stored, with the id of their call and their number.
    pub(super) questions: Vec<(AskedQuestion, String, usize)>,
    /// The calls that were reserved.
    pub(super) reserved: Vec<CallSize>,
    /// The number of reserved calls that failed.
    pub(super) failed_calls: usize,
    /// The number of calls that may have cost more than what was recorded.
    pub(super) lost_calls: usize,
    /// Output tokens of discarded answers.
    pub(super) discarded_tokens: Vec<u64>,
    /// Output tokens of received answers.
    pub(super) received_tokens: Vec<u64>,
    /// The contexts that were recorded with summaries.
    pub(super) summarised: Vec<ContextState>,
    /// The models of the recorded steps.
    pub(super) models: Vec<String>,
}

impl TurnRun {
    pub(super) fn outcome(&self) -> &TurnOutcome {
        self.outcome.as_ref().unwrap()
    }

    /// Returns every result, as the model read it.
    pub(super) fn results(&self) -> Vec<(&str, bool)> {
        let results = self.steps.iter().flat_map(Step::results);
        results
            .map(|result| (result.content.as_str(), result.is_error))
            .collect()
    }
}

impl TurnFixture {
    pub(super) fn new() -> Self {
        Self::with_files(&[("a.txt", "alpha\n"), ("b.txt", "beta\n")])
    }

    /// Creates a fixture whose repository has these files.
    pub(super) fn with_files(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let git = directory.path().join("repo.git");
        commit(&git, files);
        let bases = directory.path().join("bases");
        let repository = Repository::open_local("infra", &git, Some("main"), &bases).unwrap();
        let head = repository.head().unwrap().unwrap();
        let base = repository.base(&head, &|_| ()).unwrap();
        let overlay = Arc::new(Overlay::new(Arc::clone(&base), WorkspaceEdits::new()));
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut tools = tool::workspace_tools();
        for (name, effect) in [
            ("slow_read", Effect::Read),
            ("slow_write", Effect::WriteWorkspace),
        ] {
            let log = Arc::clone(&log);
            tools.push(Arc::new(SlowTool { name, effect, log }));
        }
        tools.push(Arc::new(DownloadingTool));
        tools.push(Arc::new(FixedAnswerTool("hang", || None)));
        tools.push(Arc::new(FixedAnswerTool("tell_secret", || {
            Some(Ok(format!("{}{SECRET}", "x".repeat(70))))
        })));
        tools.push(Arc::new(FixedAnswerTool("tell_learnt", || {
            Some(Ok(format!("{}{LATE_SECRET}", "x".repeat(70))))
        })));
        tools.push(Arc::new(SecretLearningTool));
        tools.push(Arc::new(FixedAnswerTool("broken", || {
            Some(Err(ToolError::Fatal(anyhow::anyhow!("the disk is gone"))))
        })));
        let redactor = Arc::new(Redactor::new([Secret::new(SECRET.to_owned())]));
        Self {
            workspace: Workspace {
                repository,
                base: Some(head),
                tree: Arc::clone(&overlay) as Arc<dyn Tree>,
                guard: SecretGuard {
                    redactor: Arc::clone(&redactor),
                    ..SecretGuard::default()
                },
            },
            base,
            overlay,
            identity: identity(Role::Editor, &["**"]),
            toolbox: Toolbox::new(tools).unwrap(),
            limits: Limits::default(),
            strategy: None,
            context_tokens: None,
            attachment_types: None,
            attachments: Vec::new(),
            fallbacks: Vec::new(),
            verdict: VerdictRule::Computed,
            earlier_attempts: EarlierAttempts::default(),
            postconditions: ScriptedPostconditions::default(),
            redactor,
            cancel: CancellationToken::new(),
            questioner: None,
            outputs: None,
            resumed_steps: 0,
            log,
            _directory: directory,
        }
    }

    /// Adds a tool.
    pub(super) fn with_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        let mut tools = tool::workspace_tools();
        tools.push(tool);
        self.toolbox = Toolbox::new(tools).unwrap();
        self
    }

    /// Replaces all tools.
    pub(super) fn with_toolbox(mut self, tools: Vec<Arc<dyn Tool>>) -> Self {
        self.toolbox = Toolbox::new(tools).unwrap();
        self
    }

    /// Replaces the tree of the workspace by one that uses it.
    pub(super) fn replace_tree(&mut self, replace: impl FnOnce(Arc<dyn Tree>) -> Arc<dyn Tree>) {
        self.workspace.tree = replace(Arc::clone(&self.workspace.tree));
    }

    /// Resets the workspace and the stop signal.
    pub(super) fn reset(&mut self) {
        self.overlay = Arc::new(Overlay::new(Arc::clone(&self.base), WorkspaceEdits::new()));
        self.workspace.tree = Arc::clone(&self.overlay) as Arc<dyn Tree>;
        self.cancel = CancellationToken::new();
    }

    /// Runs one turn of a new conversation.
    pub(super) async fn run(&self, provider: &ScriptedProvider) -> TurnRun {
        let mut history = History::default();
        self.run_on(provider, &mut history, MemoryJournal::default())
            .await
    }

    /// Runs one more turn of a conversation.
    pub(super) async fn run_on(
        &self,
        provider: &ScriptedProvider,
        history: &mut History,
        mut journal: MemoryJournal,
    ) -> TurnRun {
        if self.resumed_steps == 0 {
            history
                .begin_attached("please", self.attachments.clone())
                .unwrap();
        }
        let facts = ModelFacts {
            context_tokens: self.context_tokens,
            attachments: self.attachment_types,
            ..ModelFacts::default()
        };
        let first = TurnModel {
            provider,
            name: "m",
            facts,
        };
        let mut models = vec![first];
        models.extend(self.fallbacks.iter().map(|(provider, name, facts)| TurnModel {
            provider: provider.as_ref(),
            name,
            facts: *facts,
        }));
        let cx = TurnContext {
            identity: &self.identity,
            models: &models,
            system: "s",
            toolbox: &self.toolbox,
            workspace: &self.workspace,
            postconditions: &self.postconditions,
            verdict: self.verdict,
            questions: match (&self.questioner, journal.stores_questions) {
                (Some(questioner), _) => Questions::Inline(questioner.as_ref()),
                (None, true) => Questions::Stored,
                (None, false) => Questions::Nobody,
            },
            recipients: match journal.outcomes.is_some() {
                true => Recipients::People,
                false => Recipients::Nobody,
            },
            resumed_steps: self.resumed_steps,
            limits: &self.limits,
            strategy: self
                .strategy
                .unwrap_or_else(|| strategy(self.limits.context_strategy)),
            redactor: &self.redactor,
            outputs: &match &self.outputs {
                Some(outputs) => Arc::clone(outputs),
                None => Arc::clone(&journal.outputs) as Arc<dyn Outputs>,
            },
            last_output: OutputNumber(0),
            bytes_per_1000_tokens: None,
            earlier_attempts: self.earlier_attempts,
            began: Instant::now(),
            cancel: &self.cancel,
        };
        let mut events = Vec::new();
        let outcome = run_turn(cx, history, &mut journal, &mut |event| events.push(event)).await;
        TurnRun {
            outcome,
            events,
            steps: journal.steps,
            questions: journal.questions,
            reserved: journal.reserved,
            failed_calls: journal.failed_calls,
            lost_calls: journal.lost_calls,
            discarded_tokens: journal.discarded_tokens,
            received_tokens: journal.received_tokens,
            summarised: journal.summarised,
            models: journal.models,
        }
    }
}

/// A check that reports the configured findings, one after the other, and a pass after that.
#[derive(Default)]
pub(super) struct ScriptedPostconditions {
    pub(super) findings: Mutex<VecDeque<CheckOutcome>>,
    pub(super) checks: AtomicUsize,
    /// True if a check goes on until it is cancelled.
    pub(super) takes_forever: bool,
    /// True if a check breaks.
    pub(super) breaks: bool,
}

impl ScriptedPostconditions {
    pub(super) fn finding(findings: impl IntoIterator<Item = CheckOutcome>) -> Self {
        Self {
            findings: Mutex::new(findings.into_iter().collect()),
            ..Self::default()
        }
    }
}

#[async_trait]
impl Postconditions for ScriptedPostconditions {
    async fn check(
        &self,
        progress: &mut (dyn FnMut(CompareProgress) + Send),
        cancel: &CancellationToken,
    ) -> anyhow::Result<CheckOutcome> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        progress(CompareProgress { done: 1, total: 2 });
        if self.takes_forever {
            cancel.cancelled().await;
            return Ok(CheckOutcome::Incomplete("the comparison was stopped".to_owned()));
        }
        anyhow::ensure!(!self.breaks, "the base is gone");
        let next = self.findings.lock().unwrap().pop_front();
        Ok(next.unwrap_or(CheckOutcome::Passed))
    }
}

/// A journal in memory.
#[derive(Default)]
pub(super) struct MemoryJournal {
    pub(super) steps: Vec<Step>,
    pub(super) reserved: Vec<CallSize>,
    /// The number of calls that the budget covers; `None` without a budget.
    pub(super) calls_allowed: Option<usize>,
    pub(super) failed_calls: usize,
    /// The number of calls that may have cost more than what was recorded.
    pub(super) lost_calls: usize,
    /// Output tokens of discarded answers.
    pub(super) discarded_tokens: Vec<u64>,
    /// Output tokens of received answers.
    pub(super) received_tokens: Vec<u64>,
    /// The contexts that were recorded with summaries.
    pub(super) summarised: Vec<ContextState>,
    /// The models of the recorded steps.
    pub(super) models: Vec<String>,
    /// The index, from 0, of the step that cannot be written.
    pub(super) breaks_at: Option<usize>,
    /// The messages that wait when each step is recorded.
    pub(super) waiting: VecDeque<Vec<SteeringMessage>>,
    /// True if the messages do not wait any more when they are taken.
    pub(super) leaves_messages: bool,
    /// True if the start of the turn cannot be recorded.
    pub(super) never_begins: bool,
    /// The results that calls get whose messages are sent, in order; `None` if a turn may send none.
    pub(super) outcomes: Option<VecDeque<MessageOutcome>>,
    /// True if a turn may store questions.
    pub(super) stores_questions: bool,
    /// The questions that were stored, with the id of their call and their number.
    pub(super) questions: Vec<(AskedQuestion, String, usize)>,
    /// The whole texts of shortened results.
    pub(super) outputs: Arc<MemoryOutputs>,
}

impl MemoryJournal {
    fn note(&mut self, losses: &CallLosses<'_>) {
        let discarded = losses.discarded.iter();
        self.discarded_tokens
            .extend(discarded.map(|answer| answer.usage.output));
        self.lost_calls += usize::from(losses.lost == LostCharge::Possible);
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn reserve_call(&mut self, call: CallSize) -> anyhow::Result<CallPermission> {
        self.reserved.push(call);
        Ok(match self.calls_allowed {
            Some(calls) if self.reserved.len() > calls => {
                CallPermission::Refused("the budget is $1.00".to_owned())
            }
            Some(_) | None => CallPermission::Granted,
        })
    }

    async fn call_failed(&mut self, losses: &CallLosses<'_>) -> anyhow::Result<()> {
        self.failed_calls += 1;
        self.note(losses);
        Ok(())
    }

    async fn answer_received(
        &mut self,
        answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
    ) -> anyhow::Result<()> {
        self.received_tokens.push(answer.usage.output);
        self.note(losses);
        anyhow::ensure!(!self.never_begins, "there is no such turn");
        Ok(())
    }

    async fn answer_discarded(&mut self, answer: PaidAnswer<'_>) -> anyhow::Result<()> {
        self.discarded_tokens.push(answer.usage.output);
        Ok(())
    }

    async fn record_summary(
        &mut self,
        answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
        context: &ContextState,
    ) -> anyhow::Result<()> {
        self.answer_received(answer, losses).await?;
        self.summarised.push(context.clone());
        self.answer_discarded(answer).await
    }

    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()> {
        anyhow::ensure!(self.breaks_at != Some(self.steps.len()), "the journal is full");
        self.steps.push(record.step.clone());
        let model = record.model;
        self.models.push(format!("{}/{}", model.provider, model.name));
        self.outputs.keep(record.outputs);
        Ok(())
    }

    async fn waiting_messages(&mut self) -> anyhow::Result<Vec<SteeringMessage>> {
        Ok(self.waiting.pop_front().unwrap_or_default())
    }

    async fn record_step_taking(
        &mut self,
        record: StepRecord<'_>,
        messages: &[SteeringMessage],
    ) -> anyhow::Result<TakeResult> {
        assert!(!messages.is_empty());
        if self.leaves_messages {
            return Ok(TakeResult::Left);
        }
        self.record_step(record).await?;
        Ok(TakeResult::Taken)
    }

    async fn record_question(
        &mut self,
        record: StepRecord<'_>,
        asked: QuestionRecord<'_>,
    ) -> anyhow::Result<()> {
        self.questions
            .push((asked.question.clone(), asked.call.to_owned(), asked.number));
        self.record_step(record).await
    }

    async fn record_step_sending(
        &mut self,
        record: StepRecord<'_>,
        messages: &[PersonMessage],
    ) -> anyhow::Result<Step> {
        let mut step = record.step.clone();
        for message in messages {
            let outcome = self.outcomes.as_mut().and_then(VecDeque::pop_front).unwrap();
            let (call, result) = (&message.call, outcome.result(&message.person));
            step = match outcome.is_sent() {
                true => step.with_late_result(call, PersonMessage::WAITING, &result)?,
                false => step.with_late_failure(call, PersonMessage::WAITING, &result)?,
            };
        }
        self.record_step(StepRecord {
            step: &step,
            ..record
        })
        .await?;
        Ok(step)
    }
}

/// A tool that takes a tenth of a second and logs its begin and end.
struct SlowTool {
    name: &'static str,
    effect: Effect,
    log: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Tool for SlowTool {
    fn spec(&self) -> ToolSpec {
        spec(self.name)
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    async fn call(&self, _cx: Context<'_>, _arguments: Value) -> Result<String, ToolError> {
        self.log.lock().unwrap().push(format!("{} begins", self.name));
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.log.lock().unwrap().push(format!("{} ends", self.name));
        Ok(self.name.to_owned())
    }
}

/// A tool that reports the download of an archive of a multiple of 4 MiB, with a secret in its name.
struct DownloadingTool;

#[async_trait]
impl Tool for DownloadingTool {
    fn spec(&self) -> ToolSpec {
        spec("downloads")
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    async fn call(&self, cx: Context<'_>, arguments: Value) -> Result<String, ToolError> {
        let count = arguments["path"]
            .as_str()
            .and_then(|path| path.parse().ok())
            .unwrap();
        for done in 1..=count {
            cx.watch.report(FetchProgress {
                what: format!("archive {SECRET}"),
                done: done << 22,
                total: None,
                bytes: true,
            });
        }
        tokio::task::yield_now().await;
        Ok("downloaded".to_owned())
    }
}

/// A tool that reveals a secret a tenth of a second after it began.
struct SecretLearningTool;

#[async_trait]
impl Tool for SecretLearningTool {
    fn spec(&self) -> ToolSpec {
        spec("learn")
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    async fn call(&self, cx: Context<'_>, _arguments: Value) -> Result<String, ToolError> {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let redactor = &cx.workspace.guard.redactor;
        redactor.learn(&redactor.secrets_in_entry("opens", LATE_SECRET));
        Ok(format!("learnt {LATE_SECRET}"))
    }
}

/// A tool that always gives the same answer; with `None` it never ends.
struct FixedAnswerTool(&'static str, fn() -> Option<Result<String, ToolError>>);

#[async_trait]
impl Tool for FixedAnswerTool {
    fn spec(&self) -> ToolSpec {
        spec(self.0)
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    async fn call(&self, _cx: Context<'_>, _arguments: Value) -> Result<String, ToolError> {
        match (self.1)() {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

/// Returns a specification with the schema of `git_status`, which has no parameters.
fn spec(name: &'static str) -> ToolSpec {
    static STATUS: LazyLock<ToolSpec> = LazyLock::new(|| {
        let mut all = tool::workspace_tools().into_iter().map(|tool| tool.spec());
        all.find(|spec| spec.name == "git_status").unwrap()
    });
    ToolSpec {
        name,
        ..STATUS.clone()
    }
}

#[allow(clippy::disallowed_methods, reason = "a repository has to be somewhere")]
fn commit(git: &std::path::Path, files: &[(&str, &str)]) {
    let repository = gix::init_bare(git).unwrap();
    let empty = gix::ObjectId::empty_tree(gix::hash::Kind::Sha1);
    repository.write_object(gix::objs::Tree::empty()).unwrap();
    let mut editor = repository.edit_tree(empty).unwrap();
    for (path, content) in files {
        let blob = repository.write_blob(content.as_bytes()).unwrap().detach();
        editor.upsert(*path, EntryKind::Blob, blob).unwrap();
    }
    let author = gix::actor::Signature {
        name: "Ada".into(),
        email: "ada@example.com".into(),
        time: gix::date::Time {
            seconds: 1_000,
            offset: 0,
        },
    };
    let commit = gix::objs::Commit {
        tree: editor.write().unwrap().detach(),
        parents: [].into_iter().collect(),
        author: author.clone(),
        committer: author,
        encoding: None,
        message: "first\n".into(),
        extra_headers: Vec::new(),
    };
    let commit = repository.write_object(&commit).unwrap();
    std::fs::create_dir_all(git.join("refs/heads")).unwrap();
    std::fs::write(git.join("refs/heads/main"), format!("{commit}\n")).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
}
