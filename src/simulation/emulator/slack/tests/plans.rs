//! Tests of plans: how tasks are shown, and what happens where plans are not known.

use super::*;
use crate::base::model::{ListedTask, TaskList, TaskState};
use serde_json::Value;

fn listed(earlier: usize, tasks: &[(&str, TaskState)]) -> Reply {
    let tasks = tasks.iter().map(|(text, state)| ListedTask {
        text: (*text).to_owned(),
        state: *state,
    });
    let list = TaskList {
        title: "Working, step 2".to_owned(),
        earlier,
        tasks: tasks.collect(),
    };
    let stop = Button::new("Stop", "t".repeat(22), ButtonStyle::Danger);
    Reply::default()
        .with(ReplyPart::Tasks { list })
        .with(ReplyPart::Text {
            text: "1 message waiting".to_owned(),
        })
        .with(ReplyPart::Buttons { buttons: vec![stop] })
}

fn shown(emulator: &SlackEmulator) -> crate::simulation::emulator::slack::SlackMessage {
    let newest = emulator.with_state(|state| state.messages.last().cloned());
    newest.unwrap()
}

const TASKS: [(&str, TaskState); 3] = [
    ("file_read <!channel> & *a*", TaskState::Done),
    ("tanka_show environments/dev", TaskState::Failed),
    ("jb_plan a: archive 8 of 40 MiB", TaskState::Running),
];

#[tokio::test]
async fn tasks_are_a_plan_with_plain_titles_and_states() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    channel.deliver(&post(listed(2, &TASKS))).await.unwrap();
    let posted = shown(&emulator);
    let task = |id: u32, title: &str, status: &str| json!({"type": "task_card", "task_id": format!("task-{id}"), "title": title, "status": status});
    assert_eq!(
        posted.request["blocks"][0],
        json!({"type": "plan", "title": "Working, step 2", "tasks": [
            task(1, "2 earlier", "complete"),
            task(2, "file_read <!channel> & *a*", "complete"),
            task(3, "tanka_show environments/dev", "error"),
            task(4, "jb_plan a: archive 8 of 40 MiB", "in_progress"),
        ]})
    );
    assert_eq!(posted.mentions(), []);
    assert_eq!(
        posted.text,
        "Working, step 2\n… 2 earlier\n✓ file_read &lt;!channel&gt; &amp; *a*\n✗ tanka_show environments/dev\n\
         … jb_plan a: archive 8 of 40 MiB\n1 message waiting"
    );
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_plan_stays_within_the_limits_of_slack() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let long = "x".repeat(1_000);
    let tasks: Vec<_> = (0..120).map(|_| ("a", TaskState::Done)).collect();
    for reply in [
        listed(0, &tasks),
        listed(0, &[(&long, TaskState::Running), ("", TaskState::Done)]),
    ] {
        for message in split(&reply) {
            channel.deliver(&post(message)).await.unwrap();
        }
    }
    let titles: Vec<usize> = shown(&emulator).request["blocks"][0]["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["title"].as_str().unwrap().chars().count())
        .collect();
    assert_eq!(titles, [256, 1]);
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_workspace_without_plans_gets_their_lines_and_is_not_asked_twice() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    emulator.forget_block("plan");
    for _ in 0..2 {
        channel.deliver(&post(listed(1, &TASKS))).await.unwrap();
        assert_eq!(
            shown(&emulator).visible(),
            [
                "*Working, step 2*",
                "✓ 1 earlier\n✓ file_read <!channel> & *a*\n✗ tanka_show environments/dev\n\
                 … jb_plan a: archive 8 of 40 MiB",
                "1 message waiting",
                "Stop"
            ]
        );
        assert_eq!(shown(&emulator).mentions(), []);
    }
    let refused = emulator.with_state(|state| {
        let posts = state
            .calls
            .iter()
            .filter(|call| call.method == "chat.postMessage");
        posts.map(|call| call.refused.clone()).collect::<Vec<_>>()
    });
    assert_eq!(refused, [Some("invalid_blocks".to_owned()), None, None]);
    // It still knows containers.
    let fold = ReplyPart::Fold {
        title: "Checks".to_owned(),
        state: FoldState::Open,
        parts: vec![ReplyPart::Text {
            text: "one".to_owned(),
        }],
    };
    channel.deliver(&post(Reply::text("a").with(fold))).await.unwrap();
    assert_eq!(shown(&emulator).request["blocks"][1]["type"], "container");
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

/// The workspace checks a plan by the documentation of Slack.
#[tokio::test]
async fn a_plan_of_another_form_is_refused() {
    let task = |fields: Value| {
        let mut task = json!({"type": "task_card", "task_id": "1", "title": "a"});
        for (name, value) in fields.as_object().unwrap() {
            task[name] = value.clone();
        }
        task
    };
    let plan =
        |tasks: Value| json!({"text": "a", "blocks": [{"type": "plan", "title": "a", "tasks": tasks}]});
    let good = [
        json!({"text": "a", "blocks": [{"type": "plan", "title": "a"}]}),
        plan(json!([
            task(json!({})),
            task(json!({"task_id": "2", "status": "pending"}))
        ])),
        plan(json!([{"task_id": "1", "title": "a", "status": "error"}])),
    ];
    for body in good {
        assert_eq!(super::super::check::message(&body), Ok(()), "{body}");
    }
    let bad = [
        json!({"text": "a", "blocks": [{"type": "plan", "tasks": [task(json!({}))]}]}),
        json!({"text": "a", "blocks": [{"type": "plan", "title": {"type": "plain_text", "text": "a"}}]}),
        plan(json!([])),
        plan(json!([task(json!({})), task(json!({}))])),
        plan(json!([task(json!({"status": "completed"}))])),
        plan(json!([task(json!({"status": null}))])),
        plan(json!([task(json!({"title": ""}))])),
        plan(json!([task(json!({"type": "section"}))])),
        plan(json!([task(json!({"details": "a"}))])),
        plan(Value::Array(
            (0..51)
                .map(|id| task(json!({"task_id": format!("{id}")})))
                .collect(),
        )),
    ];
    for body in bad {
        let refused = super::super::check::message(&body).map_err(|refusal| refusal.code);
        assert_eq!(refused, Err("invalid_blocks"), "{body}");
    }
}
