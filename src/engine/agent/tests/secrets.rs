//! Tests of secrets in the results of calls.

use super::fixture::{SECRET, TurnFixture};
use crate::engine::agent::TurnEvent;
use crate::interfaces::provider::scripted::{ScriptedProvider, calls, says};

/// T59
#[tokio::test]
async fn a_secret_is_gone_before_a_result_is_cut() {
    let mut fixture = TurnFixture::new();
    // The truncation would cut through the secret.
    fixture.limits.tool_output_bytes_max = 80;
    let ran = fixture
        .run(&ScriptedProvider::new([
            calls(&[("1", "tell_secret", "")]),
            says(SECRET),
        ]))
        .await;
    let visible = format!("{:?}{:?}{:?}", ran.results(), ran.events, ran.outcome());
    for part in [SECRET, "hunter2-h", "unter2-hunter2"] {
        let visible = visible.replace(&format!("Text({SECRET:?})"), "");
        assert!(!visible.contains(part), "{visible}");
    }
}

/// T59, T87: a call reveals a secret while another call has already answered, or after that.
#[tokio::test(start_paused = true)]
async fn a_secret_one_call_learns_is_redacted_from_parallel_results_before_truncation() {
    let tells = ("1", "tell_learnt", "");
    let learns = ("2", "learn", "");
    for (step, is_shown_early) in [
        (calls(&[tells, learns]), false),
        (calls(&[tells, ("3", "slow_write", ""), learns]), true),
    ] {
        let mut fixture = TurnFixture::new();
        // The truncation would cut through the secret.
        fixture.limits.tool_output_bytes_max = 80;
        let ran = fixture.run(&ScriptedProvider::new([step, says("Done.")])).await;
        let results = ran.results();
        assert!(results[0].0.ends_with("xx⟦secret:1⟧"), "{results:?}");
        let finished = ran.events.iter().filter_map(|event| match event {
            TurnEvent::ToolFinished { call, content, .. } => Some((call.as_str(), content.as_str())),
            _ => None,
        });
        let finished: Vec<_> = finished.collect();
        assert_eq!(finished.len(), results.len());
        for text in [format!("{results:?}"), format!("{:?}", finished.last())] {
            assert!(!text.contains("kept-to") && !text.contains("-4711"), "{text}");
        }
        // Users see the answer of a call at once, redacted with the secrets known at that time.
        assert_eq!(finished[0].1 != results[0].0, is_shown_early);
    }
}
