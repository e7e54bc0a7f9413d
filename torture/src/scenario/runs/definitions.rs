//! The pipelines of the scenario, the sections of the configuration that start them, and the events.

use crate::hook::{HookEvent, HookSender};
use crate::task::Task;
use crate::testbed::HOOK_CHANNEL;
use serde_json::json;

/// The channel of the replies. The messages of the runs are in that of the hooks.
pub(super) const REPLY_CHANNEL: &str = "C0REPLIES";
/// The schedule that is off. An order to turn it off again makes the program compare its clock with all times.
pub(super) const PARKED: &str = "parked";
/// The start of the names of the pipelines that start at set times.
pub(super) const TICK: &str = "tick-";

const HOOK: &str = "runs";
/// The program of tasks.
const PROGRAM: &str = "/usr/bin/printf";
/// The first task of a pipeline that starts at set times, above those of events.
const TICK_TASK: u32 = 1_000_000;

/// A pipeline that events start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventPipeline {
    /// One agent. A run is left out while another one has not ended. Its name is the first, so it begins before the others
    /// of its event.
    Alone,
    /// A program, and then a question that the operator answers.
    Checked,
    /// A question that nobody answers.
    Late,
    /// One agent. A newer run cancels the older ones.
    Newest,
    /// Two agents at the same time.
    Pair,
    /// One agent.
    Plain,
    /// Two agents, one after the other. A run waits for the older ones.
    Turns,
}

impl EventPipeline {
    pub(super) const ALL: [Self; 7] = [
        Self::Alone,
        Self::Checked,
        Self::Late,
        Self::Newest,
        Self::Pair,
        Self::Plain,
        Self::Turns,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Checked => "checked",
            Self::Late => "late",
            Self::Newest => "newest",
            Self::Pair => "pair",
            Self::Plain => "plain",
            Self::Turns => "turns",
        }
    }

    /// Returns the states in which a run may end when nothing goes wrong.
    pub(super) fn ends(self) -> &'static [&'static str] {
        match self {
            Self::Alone => &["succeeded", "skipped"],
            Self::Newest => &["succeeded", "cancelled"],
            Self::Checked | Self::Late | Self::Pair | Self::Plain | Self::Turns => &["succeeded"],
        }
    }

    fn concurrency(self) -> &'static str {
        match self {
            Self::Alone => "    concurrency: {group: alone, on_conflict: skip}\n",
            Self::Newest => "    concurrency: {group: newest, on_conflict: cancel}\n",
            Self::Turns => "    concurrency: {group: turns, on_conflict: serial}\n",
            Self::Checked | Self::Late | Self::Pair | Self::Plain => "",
        }
    }

    fn steps(self) -> &'static str {
        match self {
            Self::Alone | Self::Newest | Self::Plain => ONE_AGENT,
            Self::Checked => PROGRAM_AND_QUESTION,
            Self::Late => QUESTION,
            Self::Pair => TWO_AT_ONCE,
            Self::Turns => TWO_IN_TURN,
        }
    }

    fn definition(self) -> String {
        let name = self.name();
        format!(
            "  {name}:\n    triggers:\n      - hook: {{name: {HOOK}, params: {{task: /task, other: /other}}}}\n        \
             when: event.{name} == true\n    params: {{task: {{type: text}}, other: {{type: text}}}}\n{}    steps:\n{}",
            self.concurrency(),
            self.steps()
        )
    }
}

const ONE_AGENT: &str = r#"      - name: work
        agent: {prompt: Carry it out., params: {task: "${params.task}"}}
      - name: tell
        reply: {to: "channel:slack:C0REPLIES", text: "${steps.work.output}"}
"#;

const PROGRAM_AND_QUESTION: &str = r#"      - name: work
        task: {command: [printf, "%s", "${params.task}"]}
      - name: approve
        ask: {to: {group: editors}, question: Tell the team?, choices: ["yes", "no"], deadline: 30m}
      - name: tell_work
        reply: {to: "channel:slack:C0REPLIES", text: "${steps.work.output}"}
      - name: tell
        reply: {to: "channel:slack:C0REPLIES", text: "${steps.approve.output}"}
"#;

const QUESTION: &str = r#"      - name: approve
        ask: {to: {group: editors}, question: Tell the team?, choices: ["yes", "no"], deadline: 2s, default: "no"}
      - name: tell
        reply: {to: "channel:slack:C0REPLIES", text: "${steps.approve.output}"}
"#;

const TWO_AT_ONCE: &str = r#"      - name: both
        parallel:
          - name: first
            agent: {prompt: Carry it out., params: {task: "${params.task}"}}
          - name: second
            agent: {prompt: Carry it out., params: {task: "${params.other}"}}
      - name: tell_first
        reply: {to: "channel:slack:C0REPLIES", text: "${steps.first.output}"}
      - name: tell_second
        reply: {to: "channel:slack:C0REPLIES", text: "${steps.second.output}"}
"#;

const TWO_IN_TURN: &str = r#"      - name: work
        agent: {prompt: Carry it out., params: {task: "${params.task}"}}
      - name: more
        agent: {prompt: Carry out the other one., params: {before: "${steps.work.output}", task: "${params.other}"}}
      - name: tell
        reply: {to: "channel:slack:C0REPLIES", text: "${steps.more.output}"}
"#;

/// Returns the task of a number. The number alone determines it.
pub(super) fn task(id: u32) -> Task {
    Task {
        id,
        conversation: id,
        steps: 1 + (id % 2) as usize,
    }
}

/// Returns the file of the pipelines, with so many that start at set times.
pub(super) fn file(schedules: u32) -> String {
    let of_events = EventPipeline::ALL.map(EventPipeline::definition).concat();
    let at_times: String = (0..schedules)
        .map(|number| {
            let word = task(TICK_TASK + number).word();
            format!(
                "  {TICK}{number}:\n    triggers: [{{schedule: {{cron: every 5m, params: {{task: {word}}}}}}}]\n    params: \
                 {{task: {{type: text}}}}\n    steps:\n{ONE_AGENT}"
            )
        })
        .collect();
    format!("defaults: {{model: anthropic/script}}\npipelines:\n{of_events}{at_times}")
}

/// Returns the sections of the configuration that start the pipelines and allow their replies.
pub(super) fn sections() -> String {
    let rest = format!(
        "repository = \"infra\"\npost_to = {{ channel = \"slack\", chat = \"{HOOK_CHANNEL}\" }}\n\
         grants = {{ role = \"editor\", environments = [\"**\"] }}\n"
    );
    format!(
        "[pipelines]\nreply_targets = [\"channel:slack:{REPLY_CHANNEL}\"]\nprograms.printf = \"{PROGRAM}\"\n\n\
         [hooks.{HOOK}]\nscheme = \"github\"\nsecret = {{ env = \"TORTURE_HOOK_SECRET\" }}\nprompt = \"prompts/release.md\"\n\
         pipelines = true\n{rest}\n[schedules.ticks]\npipelines = true\nquiet = false\n{rest}\n\
         [schedules.{PARKED}]\nwhen = \"monthly 1 09:00\"\nwords = \"Do nothing.\"\n{rest}\n"
    )
}

/// Returns the pipelines that an event starts.
pub(super) fn pipelines_of(number: u32) -> &'static [EventPipeline] {
    match number % 8 {
        0 | 4 => &[EventPipeline::Plain, EventPipeline::Turns],
        1 | 5 => &[EventPipeline::Pair],
        2 => &[EventPipeline::Checked, EventPipeline::Turns],
        6 => &[EventPipeline::Late],
        3 => &[EventPipeline::Alone, EventPipeline::Plain],
        _ => &[EventPipeline::Newest],
    }
}

/// Returns the event of a number.
pub(super) fn event(number: u32) -> HookEvent {
    let mut payload = json!({
        "action": "published",
        "number": number,
        "task": task(2 * number).word(),
        "other": task(2 * number + 1).word(),
    });
    for pipeline in EventPipeline::ALL {
        payload[pipeline.name()] = json!(pipelines_of(number).contains(&pipeline));
    }
    HookEvent {
        sender: HookSender::Github,
        hook: HOOK,
        number,
        payload,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{EventPipeline, event, file, pipelines_of, task};
    use drydock::engine::pipeline::{LoadedPipelines, OperatorLimits};
    use std::collections::BTreeSet;

    #[test]
    fn the_definitions_of_the_scenario_have_no_problem() {
        let operator = OperatorLimits {
            tools: BTreeSet::new(),
            server: None,
        };
        let loaded = LoadedPipelines::from_yaml(file(3).as_bytes(), &operator).unwrap();
        assert_eq!(loaded.file.pipelines.len(), EventPipeline::ALL.len() + 3);
    }

    #[test]
    fn events_start_every_pipeline_and_name_tasks_of_their_own() {
        let mut tasks = BTreeSet::new();
        let mut started: BTreeSet<EventPipeline> = BTreeSet::new();
        for number in 1..=8 {
            started.extend(pipelines_of(number));
            let event = event(number);
            for key in ["task", "other"] {
                let word = event.payload[key].as_str().unwrap().to_owned();
                assert!(tasks.insert(word));
            }
            let named = EventPipeline::ALL.map(|pipeline| (pipeline, event.payload[pipeline.name()] == true));
            let named = named.into_iter().filter(|(_, is_named)| *is_named);
            let named: Vec<EventPipeline> = named.map(|(pipeline, _)| pipeline).collect();
            assert_eq!(named, pipelines_of(number));
        }
        assert_eq!(started, EventPipeline::ALL.into());
        assert_ne!(task(2), task(3));
    }
}
