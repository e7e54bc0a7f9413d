//! The start of a run that a program asks for: its pipeline has the trigger `api` at the head of the trusted branch, and its
//! owner is the person of the token. A request with a key starts one run, however often it comes.

use super::RunApi;
use super::answer::{ApiRefusal, ApiResult, no_place};
use crate::base::model::{RunId, UserId, quoted};
use crate::engine::gateway::handover::{FieldProblem, HandoverAnswer};
use crate::engine::gateway::intake::redact_value;
use crate::engine::gateway::runs::definitions::{PublishedPipelines, UnpublishedReason};
use crate::engine::gateway::runs::plan::{PlanRefusal, RunStart};
use crate::engine::gateway::runs::start::{admitted, unpublished_text};
use crate::engine::pipeline::definition::{PipelineDefinition, PipelineTrigger, TriggerSource};
use crate::engine::pipeline::run::{ParameterProblem, RunInputs};
use crate::state::access::Identity;
use crate::state::store::{NewRun, StoreError};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The longest time in which the definitions are read.
const PLANNING_TIME_MAX: Duration = Duration::from_secs(30);
/// The most problems of one answer.
const PROBLEMS_MAX: usize = 20;

/// A request to start a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunStartRequest {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The repository; by default the only one that the person may read.
    pub repository: Option<String>,
    /// The parameters by name: texts, numbers and booleans.
    pub params: BTreeMap<String, Value>,
    /// The key under which the same request may come again.
    pub key: Option<String>,
}

impl RunStartRequest {
    /// Returns every name under which the request may come again; none without a key.
    fn names(&self, person: UserId) -> Vec<String> {
        let content = json!([self.pipeline, self.repository, self.params]).to_string();
        names(person, self.key.as_deref(), &content)
    }
}

/// Returns every name under which a request to repeat a run may come again; none without a key.
pub(super) fn retry_names(person: UserId, id: RunId, key: Option<&str>) -> Vec<String> {
    names(person, key, &json!(["retry", id]).to_string())
}

/// Returns the name of a request with its content, and the name that its key has whatever the content. The first one is that of
/// the run, so the same key with another content finds no run.
fn names(person: UserId, key: Option<&str>, content: &str) -> Vec<String> {
    let Some(key) = key else {
        return Vec::new();
    };
    let of_key = format!("api/{person}/{}", digest(key));
    vec![format!("{of_key}/{}", digest(content)), of_key]
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

impl RunApi {
    pub(super) async fn start_for(&self, token: &str, request: &RunStartRequest, at: Timestamp) -> ApiResult {
        let writer = self.writer(token, at).await?;
        let person = &writer.person;
        let names = request.names(person.user());
        if let Some(known) = self.known(&names).await? {
            return self.created(known, &writer).await;
        }
        let repository = self.repository(person, request.repository.as_deref())?;
        let reading = Box::pin(self.published(person, &repository)).await?;
        let kept = self.without_secrets(request);
        let new = self.planned(person, (&repository, &reading), (&kept, names))?;
        let (parts, runs) = (Arc::clone(&self.parts), Arc::clone(&self.runs));
        // It goes on if the client does not wait for its answer.
        let creating = self.background.spawn(async move {
            let (created, stopped) = parts.store.create_run(new, None, (parts.now)()).await?;
            runs.stop(stopped);
            runs.wake();
            Ok::<_, StoreError>(created)
        });
        let created = creating.await??;
        self.created(created, &writer).await
    }

    /// Returns a request without the secrets in its parameters, which are stored with the run.
    fn without_secrets(&self, request: &RunStartRequest) -> RunStartRequest {
        let mut kept = request.clone();
        let values = kept.params.values_mut();
        values.for_each(|value| redact_value(value, &self.parts.redactor));
        kept
    }

    /// Checks that a pipeline can be started over HTTP now.
    pub(super) async fn check_startable(
        &self,
        person: &Identity,
        repository: &str,
        pipeline: &str,
    ) -> Result<(), ApiRefusal> {
        let published = Box::pin(self.published(person, repository)).await?;
        definition(&published, pipeline).map(|_| ())
    }

    /// Returns the repository of a request. One that the person may not read is answered like one that does not exist.
    fn repository(&self, person: &Identity, wanted: Option<&str>) -> Result<String, ApiRefusal> {
        let names = self.parts.repositories.names();
        let granted: Vec<&str> = names.filter(|name| person.role(name).is_some()).collect();
        match (wanted, granted.as_slice()) {
            (Some(wanted), granted) if granted.contains(&wanted) => Ok(wanted.to_owned()),
            (None, [only]) => Ok((*only).to_owned()),
            (Some(_), _) | (None, []) => Err(HandoverAnswer::NotFound.into()),
            (None, several) => {
                let problem = FieldProblem {
                    field: "repository".to_owned(),
                    problem: format!("is required, because you have several: {}", several.join(", ")),
                };
                Err(HandoverAnswer::Unprocessable {
                    why: "the repository is not clear".to_owned(),
                    problems: vec![problem],
                }
                .into())
            }
        }
    }

    /// Reads the definitions at the head of the trusted branch, until the end of the person's access or of the time.
    async fn published(&self, person: &Identity, repository: &str) -> Result<PublishedPipelines, ApiRefusal> {
        if person.role(repository).is_none() {
            return Err(HandoverAnswer::NotFound.into());
        }
        let place = self.plannings.take(person.user());
        let _place = place.ok_or_else(|| no_place("requests to start a run"))?;
        let stop = CancellationToken::new();
        let _ended = stop.clone().drop_guard();
        let definitions = &self.runs.definitions;
        let published = tokio::select! {
            biased;
            () = self.shutdown.cancelled() => return Err(HandoverAnswer::Unavailable.into()),
            () = person.wait_until_locked_out(repository) => return Err(HandoverAnswer::NotFound.into()),
            published = definitions.published(&self.parts, repository, &stop) => published,
            () = tokio::time::sleep(PLANNING_TIME_MAX) => return Err(HandoverAnswer::Unavailable.into()),
        };
        published.map_err(|why| match why {
            // Its text may name a path of the machine, and is for the log.
            UnpublishedReason::Repository(error) => error.into(),
            why @ UnpublishedReason::Definition(_) => {
                let text = unpublished_text(repository, &why, &self.parts.redactor);
                HandoverAnswer::Refused(text).into()
            }
        })
    }

    /// Plans the run of a request.
    fn planned(
        &self,
        person: &Identity,
        (repository, published): (&str, &PublishedPipelines),
        (request, deliveries): (&RunStartRequest, Vec<String>),
    ) -> Result<NewRun, ApiRefusal> {
        let name = request.pipeline.as_str();
        let redacted = |why: String| self.parts.redactor.redact(&why).into_owned();
        let definition = definition(published, name)?;
        let inputs = RunInputs::from_values(definition, &request.params).map_err(|problems| {
            let shown = problems.into_iter().take(PROBLEMS_MAX);
            HandoverAnswer::Unprocessable {
                why: "nothing was started: the parameters have problems".to_owned(),
                problems: shown.map(|problem| self.field_problem(problem)).collect(),
            }
        })?;
        admitted(api_triggers(definition), &inputs).map_err(|why| HandoverAnswer::Refused(redacted(why)))?;
        let loaded = published.loaded.as_ref().ok_or(HandoverAnswer::NotFound)?;
        let start = RunStart {
            owner: person,
            repository,
            commit: &published.commit,
            event: None,
            trigger: "api".to_owned(),
            deliveries,
            place: None,
        };
        let planned = start.plan(loaded, &self.runs.definitions.operator, name, inputs);
        Ok(planned.map_err(|why| {
            let text = redacted(format!("{} was not started: {why}.", quoted(name)));
            match why {
                PlanRefusal::Unknown => HandoverAnswer::NotFound,
                PlanRefusal::NeedsEditor(_) => HandoverAnswer::Forbidden(text),
                PlanRefusal::Unavailable(_) | PlanRefusal::NoText => HandoverAnswer::Refused(text),
            }
        })?)
    }

    fn field_problem(&self, ParameterProblem { parameter, why }: ParameterProblem) -> FieldProblem {
        let named = format!("{parameter}: ");
        let problem = self
            .parts
            .redactor
            .redact(why.strip_prefix(&named).unwrap_or(&why));
        FieldProblem {
            problem: problem.into_owned(),
            field: parameter,
        }
    }
}

/// Returns the definition of a pipeline that can be started over HTTP. Another one is answered like one that does not exist.
fn definition<'a>(
    published: &'a PublishedPipelines,
    name: &str,
) -> Result<&'a PipelineDefinition, ApiRefusal> {
    let loaded = published.loaded.as_ref();
    let found = loaded.and_then(|loaded| loaded.file.pipelines.get(name));
    let found = found.filter(|definition| api_triggers(definition).next().is_some());
    Ok(found.ok_or(HandoverAnswer::NotFound)?)
}

fn api_triggers(definition: &PipelineDefinition) -> impl Iterator<Item = &PipelineTrigger> {
    let triggers = definition.triggers.iter();
    triggers.filter(|trigger| matches!(trigger.source, TriggerSource::Api(_)))
}

#[cfg(test)]
mod tests {
    use super::{RunStartRequest, retry_names};
    use crate::base::model::{RunId, UserId};
    use serde_json::json;

    #[test]
    fn the_names_of_a_request_are_those_of_its_person_its_key_and_its_content() {
        let request = |pipeline: &str, key: Option<&str>| RunStartRequest {
            pipeline: pipeline.to_owned(),
            repository: None,
            params: [("number".to_owned(), json!(7))].into(),
            key: key.map(str::to_owned),
        };
        let names = |pipeline, key, person| request(pipeline, Some(key)).names(UserId(person));
        assert_eq!(request("review", None).names(UserId(1)), Vec::<String>::new());
        assert_eq!(names("review", "one", 1), names("review", "one", 1));
        let (first, other_content) = (names("review", "one", 1), names("check", "one", 1));
        assert_eq!(first[1], other_content[1]);
        assert_ne!(first[0], other_content[0]);
        assert!(first[0].starts_with(&first[1]) && !first[1].contains("one"));
        for other in [names("review", "two", 1), names("review", "one", 2)] {
            assert!(first.iter().all(|name| !other.contains(name)));
        }
        let retry = retry_names(UserId(1), RunId(3), Some("one"));
        assert_eq!(retry[1], first[1]);
        assert_ne!(retry[0], first[0]);
    }
}
