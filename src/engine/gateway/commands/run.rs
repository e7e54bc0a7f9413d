//! `run` and `runs`: the pipelines that a person starts in a chat, and their runs. A run of another person is answered like
//! one that does not exist.

use super::environments::INSPECTION_TIME_MAX;
use super::{AcceptedCommand, CommandAnswer, CommandRunner, ShuttingDown, may_be_without_bot};
use crate::base::model::{ChatPlace, ConversationId, Reply, ReplyPart, Role, RunId, RunStatus, quoted};
use crate::engine::gateway::choice::RepositoryChoiceError;
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::inspections::Inspection;
use crate::engine::gateway::runs::{
    MESSAGE, RUN_USAGE, RunReport, RunVerb, RunsRequest, is_own, list, may_see, needs_editor, parse_run,
    parse_runs, unknown_pipeline,
};
use crate::engine::gateway::turn::locked_out_text;
use crate::engine::pipeline::run::RunPlan;
use crate::state::access::Identity;
use crate::state::store::{NewRun, RunChange, RunCreation, RunHead, RunRow};
use tokio_util::sync::CancellationToken;

/// The most runs of one answer.
const RUNS_SHOWN_MAX: usize = 20;
/// The answer to a person who has too many slow commands.
const TOO_MANY_COMMANDS: &str =
    "Nothing is started: too many slow commands are running. Try again when one has ended.";
/// The answer to a slash command of which nobody knows whether a result could be posted to its chat.
const AS_MESSAGE: &str = "Nothing is started: a slash command does not say whether I am in this chat, and only then a result can \
                          come here. Write `!run …` as a message to me here.";

impl CommandRunner {
    /// Starts a pipeline, or lists those that the person can start.
    pub(super) async fn run_pipeline(
        &self,
        arguments: &str,
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<CommandAnswer> {
        let store = &self.parts.store;
        // It may have been started before a restart.
        if let Some(created) = store.run_of_command(asked.inbox).await? {
            return self.started(created, asked, (address, identity)).await;
        }
        let refused = |why: String| Ok(self.posted(address, Reply::text(why)));
        if may_be_without_bot(&asked.inbound) {
            return refused(AS_MESSAGE.to_owned());
        }
        let stored = store.conversation(conversation).await?;
        let chosen = self
            .parts
            .resolve_repository(identity, &asked.inbound.channel, &stored, arguments);
        let (repository, words) = match chosen {
            Ok((repository, words)) => (Some(repository), words),
            Err(RepositoryChoiceError::NoGrant) => (None, arguments.to_owned()),
            Err(RepositoryChoiceError::Ambiguous(names)) => {
                return refused(format!(
                    "Which repository? Write its name and a colon first, as in `!run infra: review`; you have {}.",
                    names.join(", ")
                ));
            }
        };
        let (repository, words) = match in_unknown_repository(&words) {
            Some(words) => (None, words),
            None => (repository, words.as_str()),
        };
        if let (Some(repository), "") = (&repository, words) {
            let listed = self.list_startable((repository, conversation), identity).await?;
            return Ok(self.posted(address, listed));
        }
        let request = match parse_run(words) {
            Ok(request) => request,
            Err(why) => return refused(why),
        };
        let Some(repository) = repository else {
            return refused(unknown_pipeline(&request.name));
        };
        let (runs, repository, request) = (&self.runs, repository.as_str(), &request);
        let planning = |place: (String, ChatPlace), stop: CancellationToken| async move {
            Box::pin(runs.planned(identity, repository, request, place, &stop)).await
        };
        let created = self
            .create_run((asked, conversation), (identity, repository), planning)
            .await?;
        match created {
            // The driver is woken once the answer is stored, so that the run's message replies to that of the person.
            Ok(created) => self.started(created, asked, (address, identity)).await,
            Err(why) => refused(why),
        }
    }

    /// Plans a run whose results go to the place of its command, and creates it as the effect of that command. The error is a
    /// text for the person.
    pub(super) async fn create_run<P>(
        &self,
        (asked, conversation): (&AcceptedCommand, ConversationId),
        (identity, repository): (&Identity, &str),
        plan: impl FnOnce((String, ChatPlace), CancellationToken) -> P,
    ) -> anyhow::Result<Result<RunCreation, String>>
    where
        P: Future<Output = Result<NewRun, String>>,
    {
        let Some(inspection) = self.inspections.begin(conversation, identity.user()) else {
            return Ok(Err(TOO_MANY_COMMANDS.to_owned()));
        };
        let place = (asked.inbound.channel.clone(), asked.inbound.place.clone());
        let planning = plan(place, inspection.stop.clone());
        let planned = self.within(&inspection, (identity, repository), planning).await?;
        drop(inspection);
        let new = match planned {
            Ok(new) => new,
            Err(why) => return Ok(Err(why)),
        };
        let (store, at) = (&self.parts.store, (self.parts.now)());
        let (created, stopped) = store.create_run(new, Some(asked.inbox), at).await?;
        self.runs.stop(stopped);
        Ok(Ok(created))
    }

    async fn list_startable(
        &self,
        (repository, conversation): (&str, ConversationId),
        identity: &Identity,
    ) -> anyhow::Result<Reply> {
        let startable = self.startable((repository, conversation), identity).await?;
        Ok(match startable {
            Err(why) => Reply::text(why),
            Ok(pipelines) if pipelines.is_empty() => Reply::text(format!(
                "`{repository}` has no pipeline that is started in a chat."
            )),
            Ok(rows) => Reply {
                parts: vec![
                    ReplyPart::Facts { rows },
                    ReplyPart::Text {
                        text: RUN_USAGE.to_owned(),
                    },
                ],
            },
        })
    }

    /// Returns the pipelines that a person can start now, or the text why they are not known.
    async fn startable(
        &self,
        (repository, conversation): (&str, ConversationId),
        identity: &Identity,
    ) -> anyhow::Result<Result<Vec<(String, String)>, String>> {
        let Some(inspection) = self.inspections.begin(conversation, identity.user()) else {
            return Ok(Err(TOO_MANY_COMMANDS.to_owned()));
        };
        let reading = Box::pin(self.runs.startable(repository, &inspection.stop));
        self.within(&inspection, (identity, repository), reading).await
    }

    /// Reads the definitions of pipelines until a stop, the end of the person's access or of the time. A shutdown leaves the
    /// command for the next start.
    async fn within<T>(
        &self,
        inspection: &Inspection,
        (identity, repository): (&Identity, &str),
        reading: impl Future<Output = Result<T, String>>,
    ) -> anyhow::Result<Result<T, String>> {
        Ok(tokio::select! {
            biased;
            () = self.shutdown.cancelled() => return Err(ShuttingDown.into()),
            () = inspection.stop.cancelled() => Err("Stopped.".to_owned()),
            () = identity.wait_until_locked_out(repository) => Err(locked_out_text(identity, repository)),
            read = reading => read,
            () = tokio::time::sleep(INSPECTION_TIME_MAX) => {
                let seconds = INSPECTION_TIME_MAX.as_secs();
                Err(format!("Nothing is started: it took more than {seconds} s to read the pipelines, so I stopped."))
            }
        })
    }

    /// Returns the answer about a run that was started: its message, which shows its progress and its result.
    async fn started(
        &self,
        created: RunCreation,
        asked: &AcceptedCommand,
        (address, identity): (&Address, &Identity),
    ) -> anyhow::Result<CommandAnswer> {
        let row = match created {
            RunCreation::Created(run) => self.parts.store.run(run).await?,
            _ => None,
        };
        let Some(row) = row else {
            return Ok(self.posted(address, Reply::text(self.not_started(created, identity).await?)));
        };
        let inbound = &asked.inbound;
        let place = (inbound.channel.as_str(), &inbound.place);
        let own = self.runs.address(row.head.id, place, inbound.message.clone());
        let report = RunReport::of(&row).reply(|reply| own.fits(&self.parts.config, reply, 1));
        let mut ops = vec![own.placeholder(MESSAGE, report)];
        // A slash command has an answer of its own.
        if inbound.message.is_none() {
            let text = format!("Run {} is started; its result comes here.", row.head.id);
            ops.insert(0, address.post("answer", Reply::text(text)));
        }
        Ok(CommandAnswer::ops(ops))
    }

    /// Lists the runs that a person may see, or shows, cancels or repeats one.
    pub(super) async fn own_runs(
        &self,
        arguments: &str,
        asked: &AcceptedCommand,
        identity: &Identity,
    ) -> anyhow::Result<Reply> {
        let (verb, id) = match parse_runs(arguments) {
            Err(why) => return Ok(Reply::text(why)),
            Ok(RunsRequest::List) => return self.list_runs(identity).await,
            Ok(RunsRequest::Answer(id, words)) => {
                return Ok(Reply::text(self.answer_run(id, &words, (asked, identity)).await?));
            }
            Ok(RunsRequest::About(verb, id)) => (verb, id),
        };
        let row = self.parts.store.run(id).await?;
        let row = row.filter(|row| may_see(&self.parts.access, identity, &row.head));
        let Some(row) = row else {
            return Ok(Reply::text(unknown_run(id)));
        };
        Ok(match verb {
            RunVerb::Show => RunReport::of(&row).reply(|_| true),
            RunVerb::Cancel => Reply::text(self.cancel_run(&row, asked, identity).await?),
            RunVerb::Retry => Reply::text(self.retry_run(&row, asked, identity).await?),
        })
    }

    async fn list_runs(&self, identity: &Identity) -> anyhow::Result<Reply> {
        let (access, person) = (self.parts.access.clone(), identity.clone());
        let is_listed = move |head: &RunHead| may_see(&access, &person, head);
        let runs = self.parts.store.runs(is_listed, RUNS_SHOWN_MAX).await?;
        Ok(match runs.is_empty() {
            true => {
                Reply::text("There is no run that you may see. `!run` lists the pipelines you can start.")
            }
            false => list(&runs),
        })
    }

    async fn cancel_run(
        &self,
        row: &RunRow,
        asked: &AcceptedCommand,
        identity: &Identity,
    ) -> anyhow::Result<String> {
        let head = &row.head;
        let id = head.id;
        if !is_own(&self.parts.access, identity, head) && identity.role(&head.repository) < Some(Role::Editor)
        {
            return Ok(format!(
                "Run {id} goes on: it is of a service, and only an editor of `{}` may cancel it.",
                head.repository
            ));
        }
        let (by, at) = (identity.name().to_owned(), (self.parts.now)());
        let cancelled = self.parts.store.cancel_run(id, by, Some(asked.inbox), at).await?;
        self.runs.stop(cancelled.stopped);
        self.runs.wake();
        Ok(match cancelled.outcome {
            RunChange::Changed => format!("Run {id} is cancelled."),
            RunChange::Unchanged => format!("Run {id} has ended already; `!runs show {id}` shows how."),
            RunChange::Gone => format!("There is no run {id} any more."),
        })
    }

    /// Checks that a person may still start the pipeline of an own run. The error is a text for them.
    async fn may_repeat(
        &self,
        row: &RunRow,
        asked: &AcceptedCommand,
        identity: &Identity,
    ) -> anyhow::Result<Result<(), String>> {
        let head = &row.head;
        let plan = serde_json::from_str::<RunPlan>(&row.plan);
        let may_start = plan
            .is_ok_and(|plan| !needs_editor(&plan) || identity.role(&head.repository) >= Some(Role::Editor));
        if !may_start {
            return Ok(Err(format!(
                "Nothing was started: {} may change files, and your role in `{}` is viewer.",
                quoted(&head.pipeline),
                head.repository
            )));
        }
        let Some(inspection) = self.inspections.begin(asked.conversation, identity.user()) else {
            return Ok(Err(TOO_MANY_COMMANDS.to_owned()));
        };
        let reading = Box::pin(self.runs.check_repeatable(head, &inspection.stop));
        self.within(&inspection, (identity, &head.repository), reading)
            .await
    }

    async fn retry_run(
        &self,
        row: &RunRow,
        asked: &AcceptedCommand,
        identity: &Identity,
    ) -> anyhow::Result<String> {
        let head = &row.head;
        let id = head.id;
        if !is_own(&self.parts.access, identity, head) {
            return Ok(format!(
                "Nothing was started: run {id} is of a service; `drydock runs retry {id}` on the server repeats it."
            ));
        }
        if head.status == RunStatus::Skipped {
            return self.not_started(RunCreation::NotKept, identity).await;
        }
        if !self.parts.store.has_effect(asked.inbox).await?
            && let Err(why) = self.may_repeat(row, asked, identity).await?
        {
            return Ok(why);
        }
        let (store, at) = (&self.parts.store, (self.parts.now)());
        let (created, stopped) = store.retry_run(id, None, Some(asked.inbox), at).await?;
        self.runs.stop(stopped);
        self.runs.wake();
        Ok(match created {
            RunCreation::Created(new) => format!(
                "Run {new} repeats run {id} from its first step that did not succeed. Its result comes to where run {id} was started."
            ),
            other => self.not_started(other, identity).await?,
        })
    }

    /// Returns the text about a run that was not started. It names another run only to a person who may see that.
    pub(super) async fn not_started(
        &self,
        outcome: RunCreation,
        identity: &Identity,
    ) -> anyhow::Result<String> {
        let why = match outcome {
            RunCreation::Created(RunId(id)) => {
                return Ok(format!("Run {id} was started, and is removed by now."));
            }
            RunCreation::Known(_) => "it was started before".to_owned(),
            RunCreation::Skipped(busy) => {
                let row = self.parts.store.run(busy).await?;
                let other = match row.is_some_and(|row| may_see(&self.parts.access, identity, &row.head)) {
                    true => format!("run {busy}"),
                    false => "another run".to_owned(),
                };
                format!("{other} of its group has not ended, and this pipeline does not wait for it")
            }
            RunCreation::TooMany => "too many runs are open; `!runs cancel` one first".to_owned(),
            RunCreation::TooLarge => "its values are too large; give shorter ones".to_owned(),
            RunCreation::Gone => "it is removed by now".to_owned(),
            RunCreation::Unfinished => "it has not ended; `!runs cancel` it first".to_owned(),
            RunCreation::Succeeded => "it succeeded; `!run` starts a new one".to_owned(),
            RunCreation::NotKept => "it was skipped before it began; `!run` starts a new one".to_owned(),
        };
        Ok(format!("Nothing was started: {why}."))
    }
}

/// Returns the words after the name of a repository that the person may not read or that does not exist.
fn in_unknown_repository(words: &str) -> Option<&str> {
    let (name, rest) = words.split_once(':')?;
    let is_name = !name
        .trim()
        .contains(|char: char| char.is_whitespace() || char == '=');
    is_name.then(|| rest.trim())
}

/// Returns the text about a run that this person may not see, whether or not it exists.
pub(super) fn unknown_run(id: RunId) -> String {
    format!("There is no run {id} that you may see; `!runs` lists those you may.")
}

#[cfg(test)]
mod tests {
    use super::in_unknown_repository;

    #[test]
    fn a_word_before_a_colon_names_a_repository() {
        for (words, rest) in [
            ("infra: review", Some("review")),
            ("infra:review a=1", Some("review a=1")),
            ("review", None),
            ("review url=https://example.com", None),
            ("review title=\"a: b\"", None),
        ] {
            assert_eq!(in_unknown_repository(words), rest, "{words}");
        }
    }
}
