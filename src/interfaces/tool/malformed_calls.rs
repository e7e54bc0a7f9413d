//! Tests of calls with invalid arguments: each is answered with its JSON pointer and changes nothing.

#![allow(clippy::unwrap_used)]

use super::file_delete::FileDelete;
use super::file_edit::FileEdit;
use super::file_list::FileList;
use super::file_read::FileRead;
use super::file_search::FileSearch;
use super::file_write::FileWrite;
use super::git_diff::GitDiff;
use super::git_status::GitStatus;
use super::testing::{all_tools, call, write_policy};
use super::write_policy::WritePolicy;
use super::{Tool, ToolError};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_oneof, proptest};
use proptest::{collection, sample};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

/// Every tool; built once, because their schemas are rendered.
static EVERY_TOOL: LazyLock<Vec<Arc<dyn Tool>>> = LazyLock::new(all_tools);

fn bound(policy: &WritePolicy, name: &str, arguments: Value) -> Result<String, ToolError> {
    match name {
        "file_read" => call::<FileRead>(policy, arguments),
        "file_write" => call::<FileWrite>(policy, arguments),
        "file_edit" => call::<FileEdit>(policy, arguments),
        "file_list" => call::<FileList>(policy, arguments),
        "file_search" => call::<FileSearch>(policy, arguments),
        "file_delete" => call::<FileDelete>(policy, arguments),
        "git_diff" => call::<GitDiff>(policy, arguments),
        _ => call::<GitStatus>(policy, arguments),
    }
}

/// T59
#[test]
fn arguments_that_do_not_fit_are_named_by_their_pointer() {
    let policy = write_policy(&[("a", "x\n")]);
    let cases = [
        (
            "file_read",
            json!(null),
            "the arguments must be a JSON object, not null",
        ),
        (
            "file_read",
            json!([]),
            "the arguments must be a JSON object, not an array",
        ),
        (
            "file_read",
            json!("a"),
            "the arguments must be a JSON object, not the string \"a\"",
        ),
        (
            "file_read",
            json!(7),
            "the arguments must be a JSON object, not 7",
        ),
        ("file_read", json!({}), "`/path` is missing: expected a string"),
        (
            "file_read",
            json!({ "path": null }),
            "`/path` is missing: expected a string",
        ),
        (
            "file_read",
            json!({ "path": 7 }),
            "`/path`: expected a string, got 7",
        ),
        (
            "file_read",
            json!({ "path": ["a"] }),
            "`/path`: expected a string, got an array",
        ),
        (
            "file_read",
            json!({ "path": { "file": "a" } }),
            "`/path`: expected a string, got an object",
        ),
        (
            "file_read",
            json!({ "path": true }),
            "`/path`: expected a string, got true",
        ),
        (
            "file_read",
            json!({ "pth": "a" }),
            "`/pth`: unknown parameter, did you mean `path`? known: `limit`, `offset`, `path`",
        ),
        (
            "file_read",
            json!({ "path": "a", "Path": "a" }),
            "`/Path`: unknown parameter, did you mean `path`? known: `limit`, `offset`, `path`",
        ),
        (
            "file_read",
            json!({ "path": "a", "encoding": "utf-8" }),
            "`/encoding`: unknown parameter; known: `limit`, `offset`, `path`",
        ),
        (
            "file_read",
            json!({ "path": "a", "file": "a" }),
            "`/path` is given twice under different names",
        ),
        (
            "file_read",
            json!({ "path": "a", "offset": -1 }),
            "`/offset`: expected an integer from 0, got -1",
        ),
        (
            "file_read",
            json!({ "path": "a", "offset": "ten" }),
            "`/offset`: expected an integer from 0, got the string \"ten\"",
        ),
        (
            "file_read",
            json!({ "path": "a", "offset": "-1" }),
            "`/offset`: expected an integer from 0, got the string \"-1\"",
        ),
        (
            "file_read",
            json!({ "path": "a", "limit": 0 }),
            "`/limit`: expected an integer from 1 to 500, got 0",
        ),
        (
            "file_read",
            json!({ "path": "a", "limit": 2.5 }),
            "`/limit`: expected an integer from 1 to 500, got 2.5",
        ),
        (
            "file_read",
            json!({ "path": "a", "limit": [] }),
            "`/limit`: expected an integer from 1 to 500, got an array",
        ),
        (
            "file_write",
            json!({ "path": "a" }),
            "`/content` is missing: expected a string",
        ),
        (
            "file_write",
            json!({ "path": "a", "content": null }),
            "`/content` is missing: expected a string",
        ),
        (
            "file_write",
            json!({ "content": "x" }),
            "`/path` is missing: expected a string",
        ),
        (
            "file_write",
            json!({ "path": "a", "contents": "x" }),
            "`/contents`: unknown parameter, did you mean `content`? known: `content`, `path`",
        ),
        (
            "file_edit",
            json!({ "path": "a", "old": "x" }),
            "`/new` is missing: expected a string",
        ),
        (
            "file_edit",
            json!({ "path": "a", "old": 1, "new": "" }),
            "`/old`: expected a string, got 1",
        ),
        (
            "file_edit",
            json!({ "path": "a", "old_string": "x", "new": "y" }),
            "`/old_string`: unknown parameter; known: `new`, `old`, `path`",
        ),
        (
            "file_list",
            json!({}),
            "`/glob_pattern` is missing: expected a string",
        ),
        (
            "file_list",
            json!({ "glob": "a", "pattern": "b" }),
            "`/glob_pattern` is given twice under different names",
        ),
        (
            "file_list",
            json!({ "glob": "a", "limit": false }),
            "`/limit`: expected an integer from 1 to 200, got false",
        ),
        (
            "file_search",
            json!({ "glob": "**" }),
            "`/text_query` is missing: expected a string",
        ),
        (
            "file_search",
            json!({ "glob": "**", "query": "x", "regex": true }),
            "`/regex`: unknown parameter; known: `glob_pattern`, `limit`, `offset`, `text_query`",
        ),
        ("file_delete", json!({}), "`/path` is missing: expected a string"),
        (
            "file_delete",
            json!({ "path": "a", "recursive": true }),
            "`/recursive`: unknown parameter; known: `path`",
        ),
        (
            "git_diff",
            json!({ "path": 1 }),
            "`/path`: expected a string, got 1",
        ),
        (
            "git_status",
            json!({ "path": "a" }),
            "`/path`: unknown parameter; this tool takes no parameters",
        ),
        (
            "git_status",
            json!({ "a\u{202e}": 1 }),
            "`/a<U+202E>`: unknown parameter; this tool takes no parameters",
        ),
    ];
    assert!(cases.len() >= 30);
    for (name, arguments, says) in cases {
        match bound(&policy, name, arguments) {
            Err(ToolError::Malformed(why)) => assert_eq!(why, format!("{name}: {says}")),
            other => panic!("{name}: {says}: {other:?}"),
        }
    }
    assert_eq!(policy.tree.changes().unwrap(), []);
}

/// Returns a strategy for any JSON, up to a few levels deep.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let key = sample::select(vec![
        "path",
        "env_path",
        "file_path",
        "ref",
        "packages",
        "include",
        "update",
        "file",
        "content",
        "old",
        "new",
        "glob_pattern",
        "glob",
        "text_query",
        "query",
        "offset",
        "limit",
        "x/~",
    ]);
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// T59
    #[test]
    fn no_arguments_break_a_tool(arguments in any_json()) {
        let policy = write_policy(&[("a", "x\n")]);
        for name in [
            "file_read", "file_write", "file_edit", "file_list", "file_search", "file_delete", "git_diff", "git_status",
        ] {
            let answer = bound(&policy, name, arguments.clone());
            prop_assert!(!matches!(answer, Err(ToolError::Fatal(_))), "{}", name);
        }
        for tool in EVERY_TOOL.iter() {
            let checked = tool.check(arguments.clone());
            let is_answered = matches!(checked, Ok(()) | Err(ToolError::Malformed(_)));
            prop_assert!(is_answered, "{}", tool.spec().name);
        }
    }
}
