//! Tests of the tab of a code channel that shows a diff: what Slack gets, what it refuses, and lost answers.

use super::strictness::call;
use super::*;
use crate::base::model::DiffTab;
use crate::interfaces::channel::{DeliveryLookup, FaultSeverity};
use crate::simulation::emulator::slack::CodeChannel;
use std::collections::BTreeSet;

const SCOPE: &str = "code_channels:manage";
const CREATE: &str = "agents.conversations.create";
const SET_VIEW: &str = "agents.conversations.setView";
const ARCHIVE: &str = "agents.conversations.archive";
const PATCH: &str = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-<@U0ALICE>\n+\u{e9}\n";

fn with_code_channels(emulator: &SlackEmulator) -> SlackSettings {
    SlackSettings {
        code_channels: true,
        ..settings(&emulator.api_base_url())
    }
}

async fn connected_with(settings: SlackSettings) -> Arc<dyn Channel> {
    let settings = ChannelSettings::Slack(settings);
    channel::connect("slack", &settings, &server(), &http())
        .await
        .unwrap()
}

/// Returns a workspace with code channels, its channel, and a thread of Alice.
async fn workspace_of_code() -> (SlackEmulator, Arc<dyn Channel>, String) {
    let emulator = workspace().await;
    emulator.grant(SCOPE);
    let channel = connected_with(with_code_channels(&emulator)).await;
    let thread = root(&emulator, "C0OPS");
    (emulator, channel, thread)
}

/// Writes a message of Alice, without an event.
fn root(emulator: &SlackEmulator, channel: &str) -> String {
    emulator.write("U0ALICE", channel, None, "hello").ts
}

fn shows(id: &str, thread: &str, revision: u32, content: &[u8]) -> Op {
    let head = match revision {
        1 => "CHG-1".to_owned(),
        revision => format!("CHG-1 rev {revision}"),
    };
    let action = Action::ShowDiff {
        tab: DiffTab {
            change: "CHG-1".to_owned(),
            repository: "platform".to_owned(),
            base: "main".to_owned(),
            head: head.clone(),
        },
        file_name: "CHG-1.diff".to_owned(),
        content: Bytes::copy_from_slice(content),
        caption: format!("{head}: 1 file, +1 -1, base 0a1b2c3"),
    };
    Op {
        id: id.to_owned(),
        ..op("C0OPS", Some(thread), action)
    }
}

fn closes(thread: &str) -> Op {
    let action = Action::CloseDiff {
        change: "CHG-1".to_owned(),
    };
    op("C0OPS", Some(thread), action)
}

fn code_channels(emulator: &SlackEmulator) -> Vec<(String, CodeChannel)> {
    emulator.with_state(|state| state.code_channels.clone().into_iter().collect())
}

fn calls_of(emulator: &SlackEmulator, method: &str) -> usize {
    emulator.with_state(|state| state.calls.iter().filter(|call| call.method == method).count())
}

fn file_names(emulator: &SlackEmulator) -> Vec<String> {
    emulator.with_state(|state| state.files.iter().map(|file| file.name.clone()).collect())
}

#[tokio::test]
async fn a_diff_is_shown_in_a_tab_byte_for_byte_and_the_next_revision_replaces_it() {
    let (emulator, channel, thread) = workspace_of_code().await;
    let shown = shows("inbox-1/CHG-1.diff", &thread, 1, PATCH.as_bytes());
    let line = channel.deliver(&shown).await.unwrap().message.unwrap();
    let all = code_channels(&emulator);
    assert_eq!(all.len(), 1);
    let (id, first) = &all[0];
    assert_eq!(first.name, "CHG-1 platform");
    assert_eq!(first.origin, Some(("C0OPS".to_owned(), thread.clone())));
    assert!(!first.is_private && !first.is_archived);
    let diff = first.diff.clone().unwrap();
    assert_eq!((&*diff.content, diff.content_version), (PATCH, 1));
    assert_eq!((&*diff.base_branch, &*diff.head_branch), ("main", "CHG-1"));
    let members = emulator.with_state(|state| state.channels[id].clone());
    let expected = ["U0ALICE", "U0BOT"].map(str::to_owned);
    assert_eq!(members, BTreeSet::from(expected));
    // The only link of the line is the channel.
    let shown = emulator.with_state(|state| state.message("C0OPS", &line.id).cloned().unwrap());
    assert_eq!(shown.mentions(), [Mention::Channel(id.clone())]);
    assert_eq!(shown.thread_ts.as_ref(), Some(&thread));

    let next = shows("inbox-2/CHG-1.diff", &thread, 2, b"+next\n");
    channel.deliver(&next).await.unwrap();
    let all = code_channels(&emulator);
    assert_eq!(all.len(), 1);
    let second = all[0].1.diff.clone().unwrap();
    assert_eq!((&*second.content, second.content_version), ("+next\n", 2));
    assert_eq!((&*second.head_branch, &second.view), ("CHG-1 rev 2", &diff.view));
    assert_eq!(file_names(&emulator), [""; 0]);
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_code_channel_and_no_second_line() {
    let (emulator, channel, thread) = workspace_of_code().await;
    let shown = shows("inbox-1/CHG-1.diff", &thread, 1, PATCH.as_bytes());
    for method in [CREATE, SET_VIEW] {
        emulator.fail_next(method, 1, SlackFault::ResetAfter);
        let lost = channel.deliver(&shown).await;
        assert_eq!(
            lost,
            Err(not_sent("the connection to slack was lost", None)),
            "{method}"
        );
        assert_eq!(channel.find(&shown, now()).await, Ok(DeliveryLookup::Nothing));
    }
    emulator.fail_next("chat.postMessage", 1, SlackFault::ResetAfter);
    let lost = channel.deliver(&shown).await;
    assert!(matches!(lost, Err(SendError::Ambiguous(_))), "{lost:?}");
    let found = channel.find(&shown, now()).await;
    assert!(matches!(found, Ok(DeliveryLookup::Message(_))), "{found:?}");
    assert_eq!(code_channels(&emulator).len(), 1);
    let lines = emulator.with_state(|state| state.replies("C0OPS", &thread).count());
    assert_eq!(lines, 1);
    // A file in the place of the tab is found as well.
    emulator.fail_next(SET_VIEW, 1, SlackFault::Refuse("not_agent_channel".to_owned()));
    emulator.fail_next("files.completeUploadExternal", 1, SlackFault::ResetAfter);
    let file = shows("inbox-2/CHG-1.diff", &thread, 2, PATCH.as_bytes());
    let lost = channel.deliver(&file).await;
    assert!(matches!(lost, Err(SendError::Ambiguous(_))), "{lost:?}");
    let found = channel.find(&file, now()).await;
    assert!(matches!(found, Ok(DeliveryLookup::Message(_))), "{found:?}");
    assert_eq!(file_names(&emulator), ["CHG-1.diff"]);
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_workspace_without_code_channels_gets_the_file_and_is_not_asked_again() {
    let codes = ["missing_scope", "unknown_method", "not_allowed_token_type"];
    for code in codes {
        let (emulator, channel, thread) = workspace_of_code().await;
        let place = shows("x", &thread, 1, b"").place;
        assert_eq!(channel.diff_bytes_max(&place), Some(1_000_000));
        match code {
            "missing_scope" => emulator.withdraw(SCOPE),
            "unknown_method" => emulator.forget_method(CREATE),
            code => emulator.fail_next(CREATE, 1, SlackFault::Refuse(code.to_owned())),
        }
        let first = shows("inbox-1/CHG-1.diff", &thread, 1, PATCH.as_bytes());
        channel.deliver(&first).await.unwrap();
        assert_eq!(channel.diff_bytes_max(&place), None, "{code}");
        let content = emulator.with_state(|state| state.files[0].content.clone());
        assert_eq!(content, PATCH.as_bytes(), "{code}");
        let asked = calls_of(&emulator, CREATE);
        let second = shows("inbox-2/CHG-1.diff", &thread, 2, PATCH.as_bytes());
        channel.deliver(&second).await.unwrap();
        assert_eq!(calls_of(&emulator, CREATE), asked, "{code}");
        assert_eq!(file_names(&emulator), ["CHG-1.diff", "CHG-1.diff"], "{code}");
        assert_eq!(code_channels(&emulator), [], "{code}");
    }
}

/// Other channels may still have code channels.
#[tokio::test]
async fn a_shared_channel_and_an_archived_tab_get_the_file_and_others_keep_the_tab() {
    let (emulator, channel, thread) = workspace_of_code().await;
    emulator.add_user_of("U0GUEST", "T0OTHER");
    emulator.add_channel("C0SHARED", &["U0ALICE", "U0GUEST"]);
    let of_others = root(&emulator, "C0SHARED");
    let mut shown = shows("inbox-1/CHG-1.diff", &of_others, 1, PATCH.as_bytes());
    shown.place.chat = "C0SHARED".to_owned();
    channel.deliver(&shown).await.unwrap();
    assert_eq!(file_names(&emulator), ["CHG-1.diff"]);
    assert_eq!(code_channels(&emulator), []);
    let shown = shows("inbox-2/CHG-1.diff", &thread, 1, PATCH.as_bytes());
    channel.deliver(&shown).await.unwrap();
    let id = code_channels(&emulator)[0].0.clone();
    assert_eq!(call(&emulator, ARCHIVE, &json!({"channel_id": id})).await, "ok");
    let shown = shows("inbox-3/CHG-1.diff", &thread, 2, PATCH.as_bytes());
    channel.deliver(&shown).await.unwrap();
    assert_eq!(file_names(&emulator), ["CHG-1.diff", "CHG-1.diff"]);
    assert_eq!(channel.diff_bytes_max(&shown.place), Some(1_000_000));
    assert_eq!(code_channels(&emulator).len(), 1);
}

#[tokio::test]
async fn what_no_tab_can_show_is_a_file() {
    let (emulator, channel, thread) = workspace_of_code().await;
    // The limit counts bytes: this letter has two.
    let largest = "\u{e9}".repeat(500_000);
    let deliver = |content: Vec<u8>, number: usize| {
        let shown = shows(&format!("inbox-{number}/CHG-1.diff"), &thread, 1, &content);
        let channel = Arc::clone(&channel);
        async move { channel.deliver(&shown).await.unwrap() }
    };
    deliver(largest.clone().into_bytes(), 1).await;
    assert_eq!(file_names(&emulator), [""; 0]);
    deliver(format!("{largest}+").into_bytes(), 2).await;
    deliver(b"+\xff\n".to_vec(), 3).await;
    assert_eq!(file_names(&emulator).len(), 2);
    assert_eq!(calls_of(&emulator, CREATE), 1);
    let place = shows("x", &thread, 1, b"").place;
    let direct = ChatPlace {
        chat: "D0ALICE".to_owned(),
        ..place.clone()
    };
    let outside = ChatPlace {
        thread: None,
        ..place
    };
    assert_eq!(channel.diff_bytes_max(&direct), None);
    assert_eq!(channel.diff_bytes_max(&outside), None);
    let without = connected(&emulator).await;
    assert_eq!(without.diff_bytes_max(&shows("x", &thread, 1, b"").place), None);
}

#[tokio::test]
async fn a_closed_tab_is_an_archived_channel_and_where_there_is_none_nothing_is_archived() {
    let (emulator, channel, thread) = workspace_of_code().await;
    let other = root(&emulator, "C0OPS");
    channel.deliver(&closes(&thread)).await.unwrap();
    let shown = shows("inbox-1/CHG-1.diff", &thread, 1, PATCH.as_bytes());
    channel.deliver(&shown).await.unwrap();
    channel.deliver(&closes(&other)).await.unwrap();
    assert_eq!(calls_of(&emulator, ARCHIVE), 0);
    emulator.fail_next(ARCHIVE, 1, SlackFault::ResetAfter);
    assert!(channel.deliver(&closes(&thread)).await.is_err());
    assert!(code_channels(&emulator)[0].1.is_archived);
    // It is archived already.
    channel.deliver(&closes(&thread)).await.unwrap();
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_code_channel_is_refused_as_slack_refuses_it() {
    let (emulator, _, thread) = workspace_of_code().await;
    emulator.add_channel("G0PRIVATE", &["U0ALICE"]);
    let in_private = root(&emulator, "G0PRIVATE");
    let from = |chat: &str, ts: &str| {
        json!({"session_id": format!("{chat}{ts}"), "name": "a", "origin_channel_id": chat,
        "origin_message_ts": ts})
    };
    for body in [
        json!({"name": ""}),
        json!({"name": "a", "origin_channel_id": "C0OPS"}),
        json!({"name": "a", "title": "a"}),
    ] {
        assert_eq!(
            call(&emulator, CREATE, &body).await,
            "invalid_arguments",
            "{body}"
        );
    }
    let nowhere = call(&emulator, CREATE, &from("C0NOWHERE", &thread)).await;
    assert_eq!(nowhere, "channel_not_found");
    for body in [
        from("C0OPS", &thread),
        from("C0OPS", &thread),
        from("G0PRIVATE", &in_private),
    ] {
        assert_eq!(call(&emulator, CREATE, &body).await, "ok", "{body}");
    }
    let all = code_channels(&emulator);
    let (id, private) = (&all[0].0, &all[1].1);
    assert_eq!(
        (all.len(), all[0].1.is_private, private.is_private),
        (2, false, true)
    );
    let view = |id: &str, content: &str| json!({"channel_id": id, "type": "diff", "content": content});
    let large = "x".repeat(1_000_001);
    for (body, code) in [
        (view("C0OPS", "x"), "not_agent_channel"),
        (view("C0NOWHERE", "x"), "channel_not_found"),
        (view(id, &large), "content_too_large"),
        (json!({"channel_id": id, "type": "diff"}), "invalid_arguments"),
        (
            json!({"channel_id": id, "type": "table", "content": "x"}),
            "invalid_arguments",
        ),
        (view(id, "x"), "ok"),
    ] {
        let answered = call(&emulator, SET_VIEW, &body).await;
        assert_eq!(answered, code, "{}", body["type"]);
    }
    let id = id.as_str();
    for (id, code) in [
        ("C0OPS", "not_agent_channel"),
        (id, "ok"),
        (id, "already_archived"),
    ] {
        let answered = call(&emulator, ARCHIVE, &json!({"channel_id": id})).await;
        assert_eq!(answered, code);
    }
    emulator.withdraw(SCOPE);
    assert_eq!(call(&emulator, SET_VIEW, &view(id, "x")).await, "missing_scope");
}

#[tokio::test]
async fn an_inspection_misses_the_scope_of_code_channels_only_where_they_are_wanted() {
    let emulator = workspace().await;
    let missing = async |settings: SlackSettings| {
        let settings = ChannelSettings::Slack(settings);
        let findings = channel::inspect("slack", &settings, &server(), &http(), now()).await;
        let faults = findings.into_iter().filter_map(|finding| finding.outcome.err());
        let of_scope = faults.filter(|fault| fault.why.contains(SCOPE));
        of_scope
            .map(|fault| (fault.severity, fault.fix))
            .collect::<Vec<_>>()
    };
    assert_eq!(missing(settings(&emulator.api_base_url())).await, []);
    let fix = "add code_channels:manage under OAuth & Permissions of the Slack app, and install the app again, or set \
               code_channels to false";
    let wanted = missing(with_code_channels(&emulator)).await;
    assert_eq!(wanted, [(FaultSeverity::Warning, fix.to_owned())]);
    emulator.grant(SCOPE);
    assert_eq!(missing(with_code_channels(&emulator)).await, []);
}
