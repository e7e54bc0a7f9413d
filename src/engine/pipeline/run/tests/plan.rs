//! The plan of a run, and what is refused before it begins.

use super::*;
use crate::base::config::{PipelineOperatorSettings, PipelineSettings};
use crate::engine::agent::shorthand::Shorthand;
use crate::engine::pipeline::OperatorLimits;
use crate::engine::pipeline::tests::COMPLETE;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// T92
#[test]
fn bounds_that_the_operator_has_reduced_hold_for_a_planned_run() {
    let budget = |max_steps: u32, max_tokens: u64, max_cents: u64, seconds: u64| RunBudget {
        max_steps,
        max_tokens,
        max_cents,
        timeout: Duration::from_secs(seconds),
    };
    let operator = PipelineSettings {
        run_steps_max: 10,
        run_tokens_max: 1_000,
        run_cents_max: 0,
        run_time_max: Duration::from_secs(60),
        ..PipelineSettings::default()
    };
    for (planned, expected) in [
        (budget(200, 0, 0, 3_600), budget(10, 1_000, 0, 60)),
        (budget(20, 2_000, 50, 61), budget(10, 1_000, 50, 60)),
        (budget(5, 500, 50, 30), budget(5, 500, 50, 30)),
    ] {
        assert_eq!(planned.within(&operator), expected, "{planned:?}");
    }
}

/// CI-13
#[test]
fn a_plan_has_the_effective_values_of_the_start() {
    let group = "name: both, parallel: [{name: a, agent: {prompt: review, permissions: {role: editor}}}, {name: b, agent: \
                 {prompt: Look., model: openai/gpt-4o, base_url: 'https://x.example/v1', tools: [file_read], \
                 permissions: {role: viewer, environments: ['environments/dev*']}}}]";
    let keys = "    defaults: {max_steps: 9, timeout: 2m}\n    budget: {max_steps: 30, timeout: 1h}\n";
    let plan = planned(keys, &[group, "name: last, agent: {prompt: Change it.}"]);
    let shape: Vec<_> = plan
        .steps
        .iter()
        .map(|step| (step.name.as_str(), step.group, step.work.word()))
        .collect();
    let expected = [
        ("both", None, "parallel"),
        ("a", Some(0), "agent"),
        ("b", Some(0), "agent"),
        ("last", None, "agent"),
    ];
    assert_eq!(shape, expected);
    let agents: Vec<&PlannedAgent> = plan
        .steps
        .iter()
        .filter_map(|step| match &step.work {
            PlannedWork::Agent(agent) => Some(agent),
            _ => None,
        })
        .collect();
    assert_eq!(agents[0].request, Shorthand::Review.text());
    assert_eq!(agents[1].request, "Look.");
    let bounds = &agents[1].bounds;
    assert_eq!((bounds.model.as_str(), bounds.max_steps), ("openai/gpt-4o", 9));
    assert_eq!(bounds.base_url.as_deref(), Some("https://x.example/v1"));
    assert_eq!((bounds.timeout.as_secs(), bounds.tools.len()), (120, 1));
    assert_eq!((bounds.truncate_head, bounds.truncate_tail), (4_096, 61_440));
    assert_eq!(
        bounds.environments,
        Some(vec![vec!["environments/dev*".to_owned()]])
    );
    // A standard request changes no file, whatever is permitted.
    let may_edit: Vec<bool> = agents.iter().map(|agent| agent.bounds.may_edit).collect();
    assert_eq!(may_edit, [false, false, true]);
    assert_eq!(
        (plan.budget.max_steps, plan.budget.timeout.as_secs()),
        (30, 3_600)
    );
    // It is stored and read as it is.
    let stored = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<RunPlan>(&stored).unwrap(), plan);
}

fn refusals(loaded: &LoadedPipelines, door: RunDoor) -> Vec<String> {
    let problems = plan_of(loaded, door).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

/// CI-8, CI-9, CI-10, CI-11
#[test]
fn work_that_is_not_available_is_refused_with_its_key_before_anything_begins() {
    let loaded = LoadedPipelines::from_yaml(COMPLETE.as_bytes(), &operator()).unwrap();
    let found = effective(&loaded.file, "review-pr", &operator()).unwrap();
    let problems = RunPlan::of("review-pr", &found, RunDoor::Server).unwrap_err();
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    let steps = "pipelines.review-pr.steps";
    let expected = [
        format!("{steps}[0].task.command"),
        format!("{steps}[0].task.image"),
        "tools.busybox".to_owned(),
        "pipelines.review-pr.tools.kubeconform".to_owned(),
        format!("{steps}[1].parallel[0].agent.tools[3]"),
        "mcp_servers.docs".to_owned(),
        format!("{steps}[1].parallel[1].task.command"),
    ];
    assert_eq!(keys, expected);
    assert_eq!(
        problems[2].why,
        "container tools do not run yet; use tools of Drydock, such as file_read"
    );
}

/// CI-8
#[test]
fn a_terminal_and_a_server_refuse_different_work() {
    let ask = "name: question, ask: {to: {person: Ann}, question: Go on?, choices: [a, b], deadline: 1h}";
    let reply = "name: answer, reply: {to: 'channel:team:C1', text: done}";
    assert!(plan_of(&file("", &[ask]), RunDoor::Local).is_ok());
    assert!(plan_of(&file("", &[reply]), RunDoor::Server).is_ok());
    let both = file("", &[ask, reply]);
    assert!(plan_of(&both, RunDoor::Server).is_ok());
    assert_eq!(
        refusals(&both, RunDoor::Local),
        [
            "pipelines.p.steps[1].reply: reply steps run on a server only; remove the step: the terminal shows the output of \
          each step"
        ]
    );
    let loaded = file(
        "    defaults: {workspace: true, env: {A: b, C: d}}\n",
        &[
            "name: one, agent: {prompt: Look., image: 'example.com/a:1'}",
            "name: two, agent: {prompt: Look., workspace: false}",
        ],
    );
    assert_eq!(
        refusals(&loaded, RunDoor::Local),
        [
            "pipelines.p.steps[0].agent.image: images are not used yet; remove the key",
            "pipelines.p.defaults.workspace: a workspace of container tools does not exist yet; remove the key",
            "pipelines.p.defaults.env.A: variables are only for container tools, which do not run yet; remove the key",
            "pipelines.p.defaults.env.C: variables are only for container tools, which do not run yet; remove the key",
        ]
    );
    assert_eq!(
        refusals(&loaded, RunDoor::Server),
        refusals(&loaded, RunDoor::Local)
    );
}

/// I5
#[test]
fn a_task_runs_only_a_program_of_the_operators_list() {
    let loaded = file("", &["name: lint, task: {command: [kubeconform, -strict, dev]}"]);
    for (door, whom) in [
        (
            RunDoor::Server,
            "ask the operator to add it to [pipelines.programs]",
        ),
        (
            RunDoor::Local,
            "add it to [pipelines.programs] of your own configuration",
        ),
    ] {
        let line = "pipelines.p.steps[0].task.command: the program kubeconform is not permitted here;";
        assert_eq!(refusals(&loaded, door), [format!("{line} {whom}")]);
    }
    let programs = BTreeMap::from([("kubeconform".to_owned(), PathBuf::from("/usr/bin/kubeconform"))]);
    let limits = OperatorLimits {
        server: Some(PipelineOperatorSettings {
            pipelines: PipelineSettings {
                programs,
                ..PipelineSettings::default()
            },
            hooks: BTreeMap::new(),
            slash_commands: BTreeSet::new(),
        }),
        ..operator()
    };
    let found = effective(&loaded.file, "p", &limits).unwrap();
    assert_eq!(RunPlan::of("p", &found, RunDoor::Server).unwrap().steps.len(), 1);
}

#[test]
fn an_event_is_kept_only_for_the_condition_of_a_step() {
    let agent = |name: &str, when: &str| format!("name: {name}, when: \"{when}\", agent: {{prompt: Look.}}");
    let (first, second) = (agent("a", "true"), agent("b", "has(event.draft)"));
    assert!(!planned("", &[&first]).uses_event());
    assert!(planned("", &[&first, &second]).uses_event());
}
