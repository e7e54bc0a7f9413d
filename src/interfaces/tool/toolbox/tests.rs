//! Tests of the toolbox.

#![allow(clippy::unwrap_used)]

use super::{Toolbox, ToolboxError};
use crate::base::model::{Effect, ToolCall};
use crate::interfaces::provider::ToolSpec;
use crate::interfaces::tool::testing::all_tools;
use crate::interfaces::tool::{Context, Tool, ToolError};
use crate::state::access::{Role, testing::identity};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;

/// The default of `[limits] call_arguments_bytes_max`.
const BYTES_MAX: usize = 65_536;

fn toolbox() -> Toolbox {
    Toolbox::new(all_tools()).unwrap()
}

fn names(toolbox: &Toolbox) -> Vec<&'static str> {
    toolbox.names().collect()
}

/// Returns the list of tools in a refusal.
fn listed(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("available: {}", names.join(", "))
}

fn written(name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: "call_1".to_owned(),
        name: name.to_owned(),
        arguments: arguments.into(),
    }
}

struct Named(&'static str, Value);

#[async_trait]
impl Tool for Named {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.0,
            description: "Does nothing.",
            schema: self.1.clone().into(),
        }
    }

    fn effect(&self) -> Effect {
        Effect::Execute
    }

    async fn call(&self, _cx: Context<'_>, _arguments: Value) -> Result<String, ToolError> {
        Ok(String::new())
    }
}

/// TK-24, TK-25
#[test]
fn a_malformed_tool_fails_the_start() {
    let empty = json!({ "type": "object", "additionalProperties": false, "properties": {} });
    let refused = |tools: Vec<Named>| {
        let tools = tools
            .into_iter()
            .map(|tool| Arc::new(tool) as Arc<dyn Tool>)
            .collect();
        Toolbox::new(tools).unwrap_err()
    };
    assert_eq!(
        refused(vec![Named("a", json!({ "type": "object" }))]),
        ToolboxError::Schema {
            tool: "a",
            why: "it accepts unknown parameters".to_owned()
        }
    );
    assert_eq!(
        refused(vec![Named("a", empty.clone()), Named("a", empty.clone())]),
        ToolboxError::Duplicate("a")
    );
    for name in ["", "File", "a-b", "_a", "a.b", "é"] {
        assert_eq!(
            refused(vec![Named(name, empty.clone())]),
            ToolboxError::Name(name)
        );
    }
}

#[test]
fn specs_are_sorted_and_the_same_every_time() {
    let names = names(&toolbox());
    assert!(names.is_sorted());
    assert_eq!(names.len(), all_tools().len());
    let text = |toolbox: &Toolbox| {
        toolbox
            .specs()
            .iter()
            .map(|spec| spec.schema.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(text(&toolbox()), text(&toolbox()));
    assert_eq!(toolbox().find("git_log").unwrap().spec().name, "git_log");
    assert!(toolbox().find("git_lo").is_none());
}

#[test]
fn a_viewer_is_offered_read_only_tools_and_an_unknown_sender_none() {
    // The effect of each tool is in its snapshot.
    let tools = all_tools();
    let reading = tools.iter().filter(|tool| tool.effect() == Effect::Read);
    let mut reading: Vec<&str> = reading.map(|tool| tool.spec().name).collect();
    reading.sort_unstable();
    assert!(reading.len() >= 16 && reading.len() < tools.len(), "{reading:?}");
    let viewer = toolbox().for_identity(&identity(Role::Viewer, &["**"]), "infra");
    assert_eq!(names(&viewer), reading);
    let editor = toolbox().for_identity(&identity(Role::Editor, &["dev"]), "infra");
    assert_eq!(editor.specs(), toolbox().specs());
    let executing = Toolbox::new(vec![Arc::new(Named(
        "go_test",
        (*toolbox().specs()[0].schema).clone(),
    ))])
    .unwrap();
    assert_eq!(
        names(&executing.for_identity(&identity(Role::Viewer, &["**"]), "infra")),
        Vec::<&str>::new()
    );
    let refused = viewer
        .prepare(&written("file_write", "{}"), BYTES_MAX)
        .unwrap_err();
    let ToolError::Refused { answer, why } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(why, "you are a viewer here, and `file_write` changes files");
    let available = listed(&reading);
    assert_eq!(
        answer,
        format!("`file_write` is not available to this person in this repository; {available}")
    );
}

/// SDK-15
#[test]
fn a_call_is_prepared_with_its_effect_and_arguments() {
    let prepared = toolbox()
        .prepare(&written("file_read", "{\"path\":\"a\"}"), BYTES_MAX)
        .unwrap();
    assert_eq!(
        (prepared.tool.spec().name, prepared.tool.effect()),
        ("file_read", Effect::Read)
    );
    assert_eq!(prepared.arguments, json!({ "path": "a" }));
    for nothing in ["", "  \n", "{}"] {
        let prepared = toolbox()
            .prepare(&written("git_status", nothing), BYTES_MAX)
            .unwrap();
        assert_eq!(prepared.arguments, json!({}));
    }
    let prepared = toolbox()
        .prepare(&written("file_write", "{}"), BYTES_MAX)
        .unwrap();
    assert_eq!(prepared.tool.effect(), Effect::WriteWorkspace);
}

/// T59, TK-87, TK-88
#[test]
fn calls_that_are_no_calls_say_what_would_work() {
    let available = listed(&names(&toolbox()));
    let huge = format!("{{\"path\":\"{}\"}}", "x".repeat(1_000_000));
    let deep = "[".repeat(10_000);
    let no_tool = |text: &str| format!("{text} {available}");
    let broken = |text: &str| format!("file_read: the arguments are not valid JSON: {text}");
    let cases = [
        (
            "file_raed",
            "{}",
            no_tool("no tool `file_raed`, did you mean `file_read`?"),
        ),
        (
            "File_Read",
            "{}",
            no_tool("no tool `File_Read`, did you mean `file_read`?"),
        ),
        (
            "file-read",
            "{}",
            no_tool("no tool `file-read`, did you mean `file_read`?"),
        ),
        (
            "file_read ",
            "{}",
            no_tool("no tool `file_read `, did you mean `file_read`?"),
        ),
        ("read", "{}", no_tool("no tool `read`, did you mean `file_read`?")),
        ("git_commit", "{}", no_tool("no tool `git_commit`;")),
        ("kubectl_apply", "{}", no_tool("no tool `kubectl_apply`;")),
        ("", "{}", no_tool("no tool ``;")),
        ("a\u{202e}b", "{}", no_tool("no tool `a<U+202E>b`;")),
        (
            "file_read",
            "{",
            broken("EOF while parsing an object at line 1 column 1"),
        ),
        (
            "file_read",
            "{\"path\":\"a\"",
            broken("EOF while parsing an object at line 1 column 11"),
        ),
        (
            "file_read",
            "{'path':'a'}",
            broken("key must be a string at line 1 column 2"),
        ),
        (
            "file_read",
            "{\"path\":\"a\",}",
            broken("trailing comma at line 1 column 13"),
        ),
        (
            "file_read",
            "path: a",
            broken("expected value at line 1 column 1"),
        ),
        (
            "file_read",
            "{} {}",
            broken("trailing characters at line 1 column 4"),
        ),
        (
            "file_read",
            &deep,
            broken("recursion limit exceeded at line 1 column 128"),
        ),
        (
            "file_read",
            &huge,
            "file_read: the arguments have 1,000,011 bytes; the limit is 65,536; do it in smaller steps"
                .to_owned(),
        ),
    ];
    for (name, arguments, says) in cases {
        match toolbox().prepare(&written(name, arguments), BYTES_MAX) {
            Err(ToolError::Malformed(why)) => assert_eq!(why, says),
            other => panic!("{name}: {other:?}"),
        }
    }
}
