//! Tests of files of pipelines: what they mean, and what is refused with file, line and key.

#![allow(clippy::unwrap_used)]

mod conditions;
mod hostile;
mod schema;

use super::definition::{
    PipelineAction, PipelineValue, RunConflict, StepAction, StepOutcome, TriggerSource, ValueReference,
};
use super::*;
use crate::base::config::{PipelineOperatorSettings, PipelineSettings};
use crate::base::webhook::HookScheme;
use std::collections::BTreeSet;

/// A file that uses every kind of trigger and step.
pub(super) const COMPLETE: &str = include_str!("complete.yaml");

/// Returns the operator of the tests: with two tools, and without a configuration.
pub(super) fn operator() -> OperatorLimits {
    OperatorLimits {
        tools: ["file_read", "file_search"].map(str::to_owned).into(),
        server: None,
    }
}

pub(super) fn load(text: &str) -> Result<LoadedPipelines, DefinitionError> {
    LoadedPipelines::from_yaml(text.as_bytes(), &operator())
}

/// Returns the text of the problems of a file.
pub(super) fn problems(text: &str) -> String {
    load(text)
        .unwrap_err()
        .to_string()
        .replace(".drydock/pipelines.yaml", "F")
}

/// CI-1, CI-8, CI-9, CI-10, CI-11
#[test]
fn a_file_defines_triggers_params_and_every_kind_of_step() {
    let loaded = load(COMPLETE).unwrap_or_else(|error| panic!("{error}"));
    let pipeline = &loaded.file.pipelines["review-pr"];
    let sources: Vec<&str> = pipeline
        .triggers
        .iter()
        .map(|trigger| trigger.source.word())
        .collect();
    assert_eq!(
        sources,
        ["hook", "schedule", "slash_command", "chat", "command_line", "api"]
    );
    let TriggerSource::Hook(hook) = &pipeline.triggers[0].source else {
        panic!("{sources:?}");
    };
    assert_eq!(hook.events, ["pull_request.opened"]);
    assert_eq!(hook.params["number"].as_str(), "/pull_request/number");
    assert_eq!(
        pipeline.concurrency.as_ref().unwrap().on_conflict,
        RunConflict::Cancel
    );
    let steps: Vec<(&str, &str)> = pipeline
        .all_steps()
        .map(|step| (step.name.as_str(), step.word()))
        .collect();
    let expected = [
        ("build", "task"),
        ("checks", "parallel"),
        ("lint", "agent"),
        ("tests", "task"),
        ("approve", "ask"),
        ("answer", "reply"),
    ];
    assert_eq!(steps, expected);
    let PipelineAction::Task(build) = &pipeline.steps[0].action else {
        panic!("{steps:?}");
    };
    let number = ValueReference::Parameter("number".to_owned());
    assert_eq!(build.command[2], PipelineValue::Reference(number));
    let StepAction::Agent(lint) = &pipeline.steps[1].parallel()[0].action else {
        panic!("{steps:?}");
    };
    assert_eq!(lint.prompt.as_str(), "review");
    assert_eq!(lint.settings.max_steps, Some(7));
    assert_eq!(pipeline.steps[3].condition.on, StepOutcome::Always);
}

/// CI-8: both spellings of each key.
#[test]
fn camel_case_means_the_same_as_snake_case() {
    let snake = "pipelines:\n  a:\n    triggers: [{command_line: {}}]\n    steps:\n    - name: s\n      agent: \
                 {prompt: debug, model: openai/gpt-4o, base_url: 'https://x.example/v1', max_steps: 3, max_tokens: 9, \
                 truncate_head: 1, truncate_tail: 2, mcp_servers: []}\n";
    let camel = [
        "command_line",
        "base_url",
        "max_steps",
        "max_tokens",
        "truncate_head",
        "truncate_tail",
        "mcp_servers",
    ]
    .into_iter()
    .zip([
        "commandLine",
        "baseURL",
        "maxSteps",
        "maxTokens",
        "truncateHead",
        "truncateTail",
        "mcpServers",
    ])
    .fold(snake.to_owned(), |text, (snake, camel)| {
        text.replace(snake, camel)
    });
    assert_ne!(snake, camel);
    assert_eq!(load(snake).unwrap().file, load(&camel).unwrap().file);
    let both = camel.replace("maxSteps: 3", "maxSteps: 3, max_steps: 4");
    assert_eq!(
        problems(&both),
        "F:6:pipelines.a.steps[0].agent.max_steps: is written twice, in two spellings; keep one of them"
    );
}

/// CI-8, CI-13
#[test]
fn the_innermost_definition_wins_and_the_rest_has_defaults() {
    let loaded = load(COMPLETE).unwrap();
    let found = effective(&loaded.file, "review-pr", &operator()).unwrap();
    let lint = found.steps[2].agent.as_ref().unwrap();
    let key = "pipelines.review-pr.steps[1].parallel[0].agent";
    assert_eq!(lint.max_steps.value, 7);
    assert_eq!(
        lint.max_steps.source,
        ValueSource::Step(format!("{key}.max_steps"))
    );
    assert_eq!(lint.timeout.value.to_string(), "5m");
    assert_eq!(
        lint.timeout.source,
        ValueSource::Pipeline("pipelines.review-pr.defaults.timeout".to_owned())
    );
    let model = lint.model.as_ref().unwrap();
    assert_eq!(model.value.as_str(), "anthropic/claude-sonnet-4-5");
    assert_eq!(model.source, ValueSource::File("defaults.model".to_owned()));
    // The image is that of the step before.
    let image = lint.image.as_ref().unwrap();
    assert_eq!(
        (image.value.as_str(), &image.source),
        (
            "example.com/build:1",
            &ValueSource::PreviousStep("build".to_owned())
        )
    );
    for (number, default) in [
        (lint.truncate_head.value, 4_096),
        (lint.truncate_tail.value, 61_440),
    ] {
        assert_eq!(number, default);
    }
    assert_eq!(lint.max_tokens.value, 0);
    assert!(!lint.workspace.value);
    assert_eq!(lint.workspace.source, ValueSource::BuiltIn);
    // Tools: of the step, the pipeline, the file, and Drydock.
    let tools: Vec<(&str, &ValueSource)> = lint
        .tools
        .iter()
        .map(|(name, tool)| (name.as_str(), &tool.source))
        .collect();
    let expected = [
        ("busybox", &ValueSource::File("tools.busybox".to_owned())),
        ("file_read", &ValueSource::BuiltIn),
        (
            "kubeconform",
            &ValueSource::Pipeline("pipelines.review-pr.tools.kubeconform".to_owned()),
        ),
        ("yq", &ValueSource::Step(format!("{key}.tools[3]"))),
    ];
    assert_eq!(tools, expected);
    assert_eq!(
        lint.mcp_servers[0].source,
        ValueSource::File("mcp_servers.docs".to_owned())
    );
}

/// CI-16
#[test]
fn a_review_bot_and_a_slack_bot_are_valid_definitions() {
    let text = r#"
defaults: {model: anthropic/claude-sonnet-4-5}
pipelines:
  review-bot:
    triggers:
    - hook: {name: ci, events: [pull_request], params: {number: /number}}
    params: {number: {type: integer}}
    steps:
    - {name: review, agent: {prompt: review, params: {number: "${params.number}"}}}
    - {name: comment, reply: {to: github-comment, text: "${steps.review.output}"}}
  slack-bot:
    triggers: [{slash_command: {command: /drydock}}]
    params: {request: {type: text}}
    steps:
    - {name: answer, agent: {prompt: Answer the request., params: {request: "${params.request}"}}}
    - {name: post, reply: {to: slack-response, text: "${steps.answer.output}"}}
"#;
    assert_eq!(load(text).unwrap().file.pipelines.len(), 2);
}

#[test]
fn permissions_are_the_intersection_of_all_levels_and_budgets_the_smaller_bound() {
    let loaded = load(COMPLETE).unwrap();
    let server = PipelineOperatorSettings {
        pipelines: PipelineSettings {
            tools: Some(vec!["file_read".to_owned(), "busybox".to_owned()]),
            reply_targets: vec!["slack-response".to_owned()],
            run_steps_max: 10,
            ..PipelineSettings::default()
        },
        hooks: [("ci".to_owned(), HookScheme::Github)].into(),
        slash_commands: BTreeSet::new(),
    };
    let limited = OperatorLimits {
        server: Some(server),
        ..operator()
    };
    let found = effective(&loaded.file, "review-pr", &limited).unwrap();
    let lint = found.steps[2].agent.as_ref().unwrap();
    let tools: Vec<&str> = lint.tools.keys().map(String::as_str).collect();
    assert_eq!(tools, ["busybox", "file_read"]);
    assert_eq!(lint.permissions.role.limit.unwrap().word(), "viewer");
    assert!(found.permissions.replies.limit.as_ref().unwrap().is_empty());
    assert_eq!(found.budget.max_steps.value, 10);
    assert_eq!(
        found.budget.max_steps.source,
        ValueSource::Server("pipelines.run_steps_max")
    );
    assert_eq!(found.budget.max_tokens.value, 100_000);
    // What the server forbids is a problem of the definition as well.
    let error = LoadedPipelines::from_yaml(COMPLETE.as_bytes(), &limited)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the server does not allow kubeconform; its operator lists it in pipelines.tools"),
        "{error}"
    );
    assert!(
        error.contains("the server allows no reply to github-comment"),
        "{error}"
    );
    let without_hooks = OperatorLimits {
        server: Some(PipelineOperatorSettings {
            hooks: [("cii".to_owned(), HookScheme::Github)].into(),
            slash_commands: BTreeSet::new(),
            pipelines: PipelineSettings {
                reply_targets: vec!["github-comment".to_owned()],
                ..PipelineSettings::default()
            },
        }),
        ..operator()
    };
    let error = LoadedPipelines::from_yaml(COMPLETE.as_bytes(), &without_hooks)
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("hook.name: the server has no such hook; did you mean cii?"),
        "{error}"
    );
}

#[test]
fn a_group_that_does_not_exist_is_a_problem_where_a_server_asks_it() {
    let text = COMPLETE.replace("{group: editors}", "{group: reviewers}");
    assert!(load(&text).is_ok());
    let of_server = OperatorLimits {
        server: Some(PipelineOperatorSettings {
            pipelines: PipelineSettings::default(),
            hooks: [("ci".to_owned(), HookScheme::Github)].into(),
            slash_commands: BTreeSet::new(),
        }),
        ..operator()
    };
    let error = LoadedPipelines::from_yaml(text.as_bytes(), &of_server).unwrap_err();
    let why = "steps[2].ask.to.group: reviewers is no group; a group is viewers, editors or administrators";
    assert!(error.to_string().contains(why), "{error}");
    let error = LoadedPipelines::from_yaml(COMPLETE.as_bytes(), &of_server).unwrap_err();
    assert!(!error.to_string().contains("is no group"), "{error}");
}

#[test]
fn every_problem_has_its_line_and_its_key() {
    let start = "pipelines:\n  a:\n    triggers: [{chat: {}}]\n";
    let step = |text: &str| format!("{start}    steps:\n    - name: s\n      {text}\n");
    let agent = |text: &str| step(&format!("agent: {{prompt: p, model: a/b{text}}}"));
    let cases = [
        (
            "pipeline: {}\n".to_owned(),
            "F:1:pipeline: unknown key; did you mean pipelines?\nF:1:pipelines: is required",
        ),
        (
            format!(
                "defaults: {{env: {{A: '${{params.x}}'}}}}\n{start}    steps: [{{name: s, task: {{command: [x]}}}}]\n"
            ),
            "F:1:defaults.env.A: ${params.x} has no meaning for a whole file; set this variable in a pipeline",
        ),
        (
            step("agnt: {}"),
            "F:5:pipelines.a.steps[0]: expected exactly one of agent, ask, parallel, reply, task\nF:6:pipelines.a.steps[0].agnt: unknown key; did you mean agent?",
        ),
        (
            step("agent: {prompt: p}"),
            "F:6:pipelines.a.steps[0].agent.model: is required, as provider/model; set it here, or in `defaults` of the pipeline or of the file",
        ),
        (
            step("agent: {model: a/b}"),
            "F:6:pipelines.a.steps[0].agent.prompt: is required",
        ),
        (
            agent(", model: a/b"),
            "F:6:model: is written twice; keep one of them",
        ),
        (
            agent(", max_steps: 0"),
            "F:6:pipelines.a.steps[0].agent.max_steps: expected a whole number from 1 to 200",
        ),
        (
            agent(", max_steps: '3'"),
            "F:6:pipelines.a.steps[0].agent.max_steps: expected a whole number from 1 to 200, found text",
        ),
        (
            agent(", timeout: 10"),
            "F:6:pipelines.a.steps[0].agent.timeout: expected a duration, such as 30s, 10m or 2h, found a whole number",
        ),
        (
            agent(", timeout: 5 minutes"),
            "F:6:pipelines.a.steps[0].agent.timeout: has more than 6 characters; expected a duration, such as 30s, 10m or 2h",
        ),
        (
            agent(", timeout: 25h"),
            "F:6:pipelines.a.steps[0].agent.timeout: is longer than 24h",
        ),
        (
            agent(", workspace: yes"),
            "F:6:pipelines.a.steps[0].agent.workspace: expected true or false, found text",
        ),
        (
            agent(", image: ~"),
            "F:6:pipelines.a.steps[0].agent.image: has no value; write one, or remove the key",
        ),
        (
            agent(", tools: [file_raed]"),
            "F:6:pipelines.a.steps[0].agent.tools[0]: there is no tool file_raed; did you mean file_read?",
        ),
        (
            agent(", tools: [{name: file_read, image: example/x, description: x}]"),
            "F:6:pipelines.a.steps[0].agent.tools[0]: file_read is a tool of Drydock; give this one another name",
        ),
        (
            agent(", tools: [file_read], permissions: {tools: []}"),
            "F:6:pipelines.a.steps[0].agent.tools[0]: permissions.tools of the step does not list file_read",
        ),
        (
            agent(", mcp_servers: [x]"),
            "F:6:pipelines.a.steps[0].agent.mcp_servers[0]: there is no MCP server x",
        ),
        (
            agent(", mcp_servers: [{type: http, command: x}]"),
            "F:6:pipelines.a.steps[0].agent.mcp_servers[0].command: is not for the type http\nF:6:pipelines.a.steps[0].agent.mcp_servers[0].url: is required for the type http",
        ),
        (
            agent(", params: {p: '${params.x}'}"),
            "F:6:pipelines.a.steps[0].agent.params.p: there is no parameter x",
        ),
        (
            agent(", params: {p: '${steps.s.output}'}"),
            "F:6:pipelines.a.steps[0].agent.params.p: step s is not finished before this one; only earlier steps have values",
        ),
        (
            agent(", params: {p: '${trigger.x}'}"),
            "F:6:pipelines.a.steps[0].agent.params.p: no hook has a field x",
        ),
        (
            agent(", params: {p: 'a ${params.x}'}"),
            "F:6:pipelines.a.steps[0].agent.params.p: expected text without `${`, or exactly ${params.NAME}, ${steps.NAME.output}, ${steps.NAME.status} or ${trigger.FIELD}",
        ),
        (
            step("agent: {prompt: 'look at ${params.x}', model: a/b}"),
            "F:6:pipelines.a.steps[0].agent.prompt: expected text of 1 to 20,000 characters without `${`; give values as `params` or `values` instead",
        ),
        (
            step("agent: {prompt: '', model: a/b}"),
            "F:6:pipelines.a.steps[0].agent.prompt: expected text of 1 to 20,000 characters without `${`; give values as `params` or `values` instead",
        ),
        (
            step("task: {command: ['${steps.s.output}']}"),
            "F:6:pipelines.a.steps[0].task.command[0]: step s is not finished before this one; only earlier steps have values\nF:6:pipelines.a.steps[0].task.command[0]: the program itself must be written out; only its arguments can be values",
        ),
        (
            step("task: {command: [x]}\n    - name: s\n      task: {command: [x]}"),
            "F:7:pipelines.a.steps[1].name: another step is named s as well; give each its own name",
        ),
        (
            step("ask: {to: {person: alice}, question: q, choices: [a, a], deadline: 1h, default: b}"),
            "F:6:pipelines.a.steps[0].ask.choices[1]: is listed twice; keep one of them\nF:6:pipelines.a.steps[0].ask.default: expected one of the choices: a, a",
        ),
        (
            step("reply: {to: nowhere, text: x}"),
            "F:6:pipelines.a.steps[0].reply.to: expected github-comment, slack-response or channel:NAME:CHAT",
        ),
        (
            step("parallel: [{name: p, parallel: [{name: q, task: {command: [x]}}]}]"),
            "F:6:pipelines.a.steps[0].parallel[0]: expected exactly one of agent, ask, reply, task\nF:6:pipelines.a.steps[0].parallel[0].parallel: unknown key; there are agent, ask, name, on, reply, task, when",
        ),
        (
            step("on: never\n      task: {command: [x]}"),
            "F:6:pipelines.a.steps[0].on: expected one of success, failure, always",
        ),
        (
            "pipelines:\n  A: {}\n".to_owned(),
            "F:2:pipelines.A: is no valid name here; expected lower-case letters, digits and `-` between them, at most 64\nF:2:pipelines.A.steps: is required\nF:2:pipelines.A.triggers: is required",
        ),
        (
            "pipelines: []\n".to_owned(),
            "F:1:pipelines: expected a map, found a list",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problems(&text), *expected, "{text}");
    }
}

#[test]
fn triggers_give_every_parameter_that_nobody_can_be_asked_for() {
    let file = |triggers: &str, params: &str| {
        format!(
            "pipelines:\n  a:\n    triggers:\n    - {triggers}\n    params: {params}\n    steps: [{{name: s, task: {{command: [x]}}}}]\n"
        )
    };
    let cases = [
        (
            "schedule: {cron: '0 6 * *'}",
            "{}",
            "F:4:pipelines.a.triggers[0].schedule.cron: `0 6 * *` is no time that recurs; write `weekdays 09:00`",
        ),
        (
            "schedule: {cron: '0 24 * * *'}",
            "{}",
            "F:4:pipelines.a.triggers[0].schedule.cron: `0 24 * * *` is no cron expression: Component error: Number out of bounds; write",
        ),
        (
            "schedule: {cron: '0 6 * * *', time_zone: Mars/Base}",
            "{}",
            "F:4:pipelines.a.triggers[0].schedule.time_zone: `Mars/Base` is no known time zone; use a name such as Europe/Berlin",
        ),
        (
            "schedule: {cron: '0 6 * * *'}",
            "{n: {type: integer}}",
            "F:4:pipelines.a.triggers[0].schedule.params: does not give the parameter n; add it here, or give it a default",
        ),
        (
            "schedule: {cron: '0 6 * * *', params: {n: x}}",
            "{n: {type: integer}}",
            "F:4:pipelines.a.triggers[0].schedule.params.n: expected a value of the type integer; put a text in quotes",
        ),
        (
            "hook: {name: ci, events: [pull_requst]}",
            "{}",
            "F:4:pipelines.a.triggers[0].hook.events[0]: ",
        ),
        (
            "hook: {name: ci, params: {m: /a}}",
            "{n: {type: text, default: x}}",
            "F:4:pipelines.a.triggers[0].hook.params.m: there is no parameter m",
        ),
        (
            "hook: {name: ci, fields: {f: {pointer: a}}}",
            "{}",
            "F:4:pipelines.a.triggers[0].hook.fields.f.pointer: expected a JSON pointer, such as /pull_request/number",
        ),
        (
            "chat: {}",
            "{n: {type: choice}}",
            "F:5:pipelines.a.params.n.choices: is required for the type choice",
        ),
        (
            "chat: {}",
            "{n: {type: choice, choices: [dev, prod], default: prd}}",
            "F:5:pipelines.a.params.n.default: is none of the choices; did you mean prod?",
        ),
        (
            "chat: {}",
            "{n: {type: text, default: 1}}",
            "F:5:pipelines.a.params.n.default: expected a value of the type text; put a text in quotes",
        ),
        (
            "{}",
            "{}",
            "F:4:pipelines.a.triggers[0]: expected exactly one of api, chat, command_line, hook, schedule, slash_command",
        ),
    ];
    for (triggers, params, expected) in cases {
        let found = problems(&file(triggers, params));
        assert!(
            found.starts_with(expected) && !found.contains('\n'),
            "{triggers} {params}: {found}"
        );
    }
    let fine = [
        (
            "schedule: {cron: '*/15 0-6,22 1 jan-mar mon', params: {n: 3}}",
            "{n: {type: integer}}",
        ),
        ("slash_command: {command: /run}", "{n: {type: integer}}"),
        (
            "hook: {name: ci, params: {n: /number}, fields: {f: {pointer: /a~1b}}}",
            "{n: {type: integer}}",
        ),
    ];
    for (triggers, params) in fine {
        load(&file(triggers, params)).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// A hook that has a field gives no value to a run that a person starts.
#[test]
fn a_field_of_a_hook_is_known_only_if_every_trigger_has_it() {
    let file = |more: &str| {
        format!(
            "pipelines:\n  a:\n    triggers:\n    - hook: {{name: ci, fields: {{f: {{pointer: /a}}}}}}\n{more}    steps: [{{name: s, task: {{command: [x, '${{trigger.f}}']}}}}]\n"
        )
    };
    load(&file("")).unwrap();
    assert_eq!(
        problems(&file("    - chat: {}\n")),
        "F:6:pipelines.a.steps[0].task.command[1]: a run by chat has no field f; use a parameter, which the hook sets with `params`"
    );
}

#[test]
fn an_explanation_names_the_line_of_each_source() {
    let loaded = load(COMPLETE).unwrap();
    let found = effective(&loaded.file, "review-pr", &operator()).unwrap();
    let rows = explain(&loaded, &found);
    let text: Vec<String> = rows
        .iter()
        .map(|row| format!("{} = {} ({})", row.setting, row.value, row.source))
        .collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn a_reply_needs_a_trigger_that_has_its_address() {
    let file = |trigger: &str, to: &str| {
        format!(
            "pipelines:\n  a:\n    triggers: [{{{trigger}}}]\n    steps: [{{name: s, reply: {{to: {to}, text: x}}}}]\n"
        )
    };
    let of = |scheme: HookScheme| OperatorLimits {
        server: Some(PipelineOperatorSettings {
            hooks: [("ci".to_owned(), scheme)].into(),
            slash_commands: BTreeSet::new(),
            pipelines: PipelineSettings {
                reply_targets: vec!["github-comment".to_owned(), "slack-response".to_owned()],
                ..PipelineSettings::default()
            },
        }),
        ..operator()
    };
    let hook = "hook: {name: ci}";
    let (github, generic) = (of(HookScheme::Github), of(HookScheme::Generic));
    let comment = "pipelines.a.steps[0].reply.to: needs a trigger `hook` of GitHub";
    let response = "pipelines.a.steps[0].reply.to: needs a trigger `slash_command`";
    for (trigger, to, operator, expected) in [
        (hook, "github-comment", &github, None),
        (hook, "github-comment", &operator(), None),
        (hook, "github-comment", &generic, Some(comment)),
        ("chat: {}", "github-comment", &github, Some(comment)),
        ("slash_command: {command: /a}", "slack-response", &github, None),
        ("chat: {}", "slack-response", &github, Some(response)),
    ] {
        let loaded = LoadedPipelines::from_yaml(file(trigger, to).as_bytes(), operator);
        let found = loaded.err().map(|error| error.to_string());
        match (&found, expected) {
            (None, None) => {}
            (Some(found), Some(expected)) => assert!(found.contains(expected), "{trigger} {to}: {found}"),
            _ => panic!("{trigger} {to}: {found:?}"),
        }
    }
}
