//! Agent steps of pipelines as turns: the message with which one begins, and what its definition leaves of the rights of the
//! person or service that the run belongs to.

use super::intake;
use super::parts::Parts;
use crate::base::model::{
    Account, AgentBounds, ChatPlace, Inbound, InboundKind, PipelineWork, Sender, truncated_result,
};
use crate::base::redact::Redactor;
use crate::engine::agent::{ModelChain, prompt};
use crate::interfaces::tool::{self, Toolbox, ToolboxError};
use crate::state::access::Identity;
use std::collections::BTreeSet;

/// The channel of these messages. Nothing is sent over it.
const CHANNEL: &str = "pipeline";

/// Returns the message that starts an agent step for the owner of its run. Its conversation is its own.
pub(super) fn message(owner: &Sender, work: PipelineWork, redactor: &Redactor) -> Inbound {
    let name = format!("{}:{}", work.run, work.step);
    let inbound = Inbound {
        channel: CHANNEL.to_owned(),
        delivery: vec![format!("pipeline:{name}")],
        sender: owner.clone(),
        place: ChatPlace {
            account: Account::of_pipelines(),
            chat: work.run.to_string(),
            thread: Some(name),
        },
        direct: false,
        message: None,
        about: None,
        kind: InboundKind::Pipeline(Box::new(work)),
        files: Vec::new(),
        response_url: None,
    };
    intake::without_secrets(inbound, redactor)
}

/// Returns the owner of a run with what the definition of a step allows. It never allows more than the grants.
pub(super) fn limited(owner: &Identity, bounds: &AgentBounds) -> Identity {
    let identity = match bounds.may_edit {
        true => owner.clone(),
        false => owner.reading_only(),
    };
    match &bounds.environments {
        Some(lists) => identity.within_environments(lists),
        None => identity,
    }
}

/// Returns the request of a step for the model: its words, and its values as marked data, each within the bounds of a result.
/// Secrets are removed before a value is cut, because a cut secret would not be recognised.
pub(super) fn request(work: &PipelineWork, words: &str, redactor: &Redactor) -> String {
    let (head, tail) = (work.bounds.truncate_head, work.bounds.truncate_tail);
    let shortened = |(name, value): &(String, String)| {
        let value = redactor.redact(value);
        (name.clone(), truncated_result(&value, head, tail).into_owned())
    };
    let data: Vec<(String, String)> = work.data.iter().map(shortened).collect();
    prompt::step_request(words, &work.pipeline, &data, &work.results)
}

/// Returns the tools that the definition of a step lists, without those that the operator has ceased to allow since the run
/// was planned.
fn allowed_tools(bounds: &AgentBounds, operator: Option<&[String]>) -> BTreeSet<String> {
    let listed = bounds.tools.iter();
    let allowed = listed.filter(|name| operator.is_none_or(|operator| operator.contains(name)));
    allowed.cloned().collect()
}

impl Parts {
    /// Returns the tools of a step: those that its definition lists and the operator allows, and that for the results of earlier
    /// steps, if there are any.
    pub(super) fn step_tools(&self, work: &PipelineWork) -> Result<Toolbox, ToolboxError> {
        let PipelineWork { bounds, results, .. } = work;
        let tools = allowed_tools(bounds, self.config.pipelines.tools.as_deref());
        let listed = self.toolbox.limited_to(&tools)?;
        match results.is_empty() {
            true => Ok(listed),
            false => listed.with(tool::get_step_result(
                results.clone(),
                bounds.truncate_head,
                bounds.truncate_tail,
            )),
        }
    }

    /// Returns the model of a step, if the operator has configured it.
    pub(super) fn step_model(&self, bounds: &AgentBounds) -> Result<ModelChain, String> {
        ModelChain::of_step(&self.config, &self.providers, bounds)
    }
}

#[cfg(test)]
pub(super) mod testing {
    use crate::base::model::{AgentBounds, PipelineWork, RunId};
    use std::collections::BTreeMap;
    use std::time::Duration;

    /// Returns the work of a step that may only read.
    pub(in crate::engine::gateway) fn work() -> PipelineWork {
        PipelineWork {
            run: RunId(7),
            step: 2,
            step_name: "review".to_owned(),
            pipeline: "review-pr".to_owned(),
            repository: "infra".to_owned(),
            commit: None,
            words: "Review it.".to_owned(),
            data: Vec::new(),
            bounds: AgentBounds {
                model: "anthropic/demo".to_owned(),
                base_url: None,
                max_steps: 20,
                max_tokens: 0,
                max_cents: 0,
                timeout: Duration::from_secs(600),
                truncate_head: 4,
                truncate_tail: 8,
                tools: ["file_read".to_owned()].into(),
                may_edit: false,
                environments: None,
            },
            results: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::testing::work;
    use super::{allowed_tools, limited, message, request};
    use crate::base::model::{InboundKind, RepoPath, Role, Sender};
    use crate::base::redact::Redactor;
    use crate::state::access::testing::identity;

    /// T87
    #[test]
    fn a_message_of_a_step_is_stored_without_secrets() {
        let redactor = Redactor::new([]);
        redactor.learn(&redactor.secrets_in_entry("opens", "kept-to-ourselves-4711"));
        let mut work = work();
        work.words = "Use kept-to-ourselves-4711.".to_owned();
        work.data = vec![("title".to_owned(), "kept-to-ourselves-4711".to_owned())];
        work.results = [("scan".to_owned(), "It is kept-to-ourselves-4711.".to_owned())].into();
        let inbound = message(&Sender::of_hook("ci"), work, &redactor);
        assert_eq!(inbound.delivery, ["pipeline:7:2"]);
        let stored = serde_json::to_string(&inbound).unwrap();
        assert!(!stored.contains("4711"), "{stored}");
        let read: crate::base::model::Inbound = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, inbound);
        let InboundKind::Pipeline(work) = read.kind else {
            panic!("{:?}", read.kind);
        };
        assert_eq!(work.words, "Use ⟦secret:1⟧.");
    }

    #[test]
    fn a_step_has_the_tools_of_its_definition_that_the_operator_still_allows() {
        let mut bounds = work().bounds;
        bounds.tools = ["file_list".to_owned(), "file_read".to_owned()].into();
        let allowed = |operator: Option<&[String]>| {
            let allowed = allowed_tools(&bounds, operator);
            allowed.into_iter().collect::<Vec<_>>()
        };
        let operator = ["file_read".to_owned(), "grep".to_owned()];
        assert_eq!(allowed(None), ["file_list", "file_read"]);
        assert_eq!(allowed(Some(&operator)), ["file_read"]);
        assert_eq!(allowed(Some(&[])), Vec::<String>::new());
    }

    #[test]
    fn a_definition_narrows_the_grants_of_the_owner_and_widens_none() {
        let path = RepoPath::parse("environments/dev/main.jsonnet").unwrap();
        let may = |role, globs: &[&str], may_edit: bool, list: Option<&str>| {
            let mut bounds = work().bounds;
            bounds.may_edit = may_edit;
            bounds.environments = list.map(|glob| vec![vec![glob.to_owned()]]);
            let limited = limited(&identity(role, globs), &bounds);
            limited
                .may_write("infra", &path, Some("environments/dev"))
                .is_ok()
        };
        assert!(may(Role::Editor, &["dev"], true, None));
        assert!(may(Role::Editor, &["dev"], true, Some("**")));
        assert!(!may(Role::Editor, &["dev"], true, Some("prod")));
        assert!(!may(Role::Editor, &["dev"], false, None));
        assert!(!may(Role::Admin, &["**"], false, None));
        assert!(!may(Role::Viewer, &["dev"], true, Some("dev")));
        assert!(!may(Role::Editor, &["prod"], true, Some("dev")));
    }

    #[test]
    fn a_long_value_keeps_its_beginning_and_its_end_and_no_part_of_a_secret() {
        let redactor = Redactor::new([]);
        redactor.learn(&redactor.secrets_in_entry("opens", "kept-to-ourselves-4711"));
        let mut work = work();
        let value = "kept-to-ourselves-4711 is long enough".to_owned();
        work.data = vec![
            ("title".to_owned(), value),
            ("number".to_owned(), "42".to_owned()),
        ];
        let asked = request(&work, "Review it.", &redactor);
        assert!(asked.starts_with("Review it.\n\n<untrusted_data>\n"), "{asked}");
        assert!(asked.contains("[...truncated "), "{asked}");
        assert!(asked.contains("enough") && asked.contains("42"), "{asked}");
        assert!(!asked.contains("kept") && !asked.contains("4711"), "{asked}");
    }
}
