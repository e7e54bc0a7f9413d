//! Tests that requests stay within their bound, and calls keep their results.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{RequestTooLong, WindowBounds, fit};
use crate::base::model::{
    Assistant, ContentBlock, History, Limits, Step, StopReason, ToolCall, ToolResult, Turn, Usage,
};
use crate::engine::agent::context::ContextBudget;
use proptest::prelude::*;

const BOUNDS: WindowBounds = WindowBounds {
    bytes_max: 100_000,
    fixed: 10_000,
};

/// Builds a step that reads files of these sizes.
fn reads(step: usize, sizes: &[usize]) -> Step {
    let call = |index: usize| ToolCall {
        id: format!("{step}-{index}"),
        name: "file_read".to_owned(),
        arguments: format!("{{\"path\":\"{step}-{index}\"}}").into(),
    };
    let results = sizes.iter().enumerate().map(|(index, size)| ToolResult {
        call: call(index).id,
        content: format!("{step}-{index} {}", "x".repeat(*size)),
        is_error: false,
    });
    let assistant = Assistant {
        blocks: (0..sizes.len())
            .map(|index| ContentBlock::Call(call(index)))
            .collect(),
        raw: None,
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    Step::new(assistant, results.collect()).unwrap()
}

fn fitted(history: &History, bounds: WindowBounds) -> Result<Vec<Turn>, RequestTooLong> {
    let mut history = history.clone();
    let limits = Limits {
        history_bytes_max: bounds.bytes_max,
        ..Limits::default()
    };
    ContextBudget::new(&limits, Some(10_000_000), bounds.fixed).trim(&mut history, None);
    fit(&history, bounds, &|name| name == "file_read").map(std::borrow::Cow::into_owned)
}

fn bytes(turns: &[Turn]) -> usize {
    BOUNDS.fixed + turns.iter().map(Turn::bytes).sum::<usize>()
}

fn json(turns: &[Turn]) -> String {
    let turns: Vec<_> = turns.iter().map(|turn| (turn.user(), turn.steps())).collect();
    serde_json::to_string(&turns).unwrap()
}

fn contents(turn: &Turn) -> Vec<String> {
    let results = turn.steps().iter().flat_map(Step::results);
    results.map(|result| result.content.clone()).collect()
}

/// STK-53
#[test]
fn what_fits_is_sent_as_it_is() {
    let mut history = History::default();
    history.begin("one").unwrap();
    history.push(reads(0, &[30_000, 20_000])).unwrap();
    history.push(reads(1, &[30_000])).unwrap();
    let turns = fitted(&history, BOUNDS).unwrap();
    assert_eq!(json(&turns), json(history.turns()));
}

/// STK-33, STK-54, SDK-16
#[test]
fn earlier_turns_are_left_out_first_then_earlier_results_are_shortened_and_say_so() {
    let mut history = History::default();
    for turn in 0..3 {
        history.begin(format!("turn {turn}")).unwrap();
        history.push(reads(turn, &[25_000])).unwrap();
        history.close("done");
    }
    history.begin("now").unwrap();
    let lengths =
        |turns: &[Turn]| -> Vec<usize> { turns.iter().flat_map(contents).map(|text| text.len()).collect() };
    // Four fifths of the bound are used, so the oldest results are trimmed until three fifths are.
    let turns = fitted(&history, BOUNDS).unwrap();
    assert_eq!((turns.len(), lengths(&turns)), (4, vec![9, 9, 25_004]));
    history.push(reads(10, &[40_000])).unwrap();
    let turns = fitted(&history, BOUNDS).unwrap();
    assert_eq!(
        (turns.len(), lengths(&turns)),
        (4, vec![9, 9, 9, 40_005]),
        "{}",
        bytes(&turns)
    );
    history.push(reads(11, &[40_000])).unwrap();
    let turns = fitted(&history, BOUNDS).unwrap();
    assert_eq!((turns.len(), lengths(&turns)), (1, vec![40_005, 40_005]));
    history.push(reads(12, &[20_000, 100])).unwrap();
    let turns = fitted(&history, BOUNDS).unwrap();
    assert_eq!((turns.len(), turns[0].user()), (1, "now"));
    let [first, second, third, fourth] = <[String; 4]>::try_from(contents(&turns[0])).unwrap();
    assert_eq!((second.len(), third.len(), fourth.len()), (40_005, 20_005, 105));
    assert!(
        first.starts_with("10-0 xxx") && first.ends_with("xxx") && first.len() < 2_400,
        "{first}"
    );
    let line = first.lines().find(|line| line.starts_with('[')).unwrap();
    assert_eq!(
        line,
        "[... 37957 bytes of this result left out here, because the request would be too long; `file_read` with the \
         same arguments shows them again ...]"
    );
}

#[test]
fn a_step_that_is_too_long_by_itself_is_shortened_evenly() {
    let mut history = History::default();
    history.begin("now").unwrap();
    history.push(reads(0, &[60_000, 60_000, 500, 60_000])).unwrap();
    let turns = fitted(&history, BOUNDS).unwrap();
    assert!(bytes(&turns) <= BOUNDS.bytes_max);
    let sizes: Vec<usize> = contents(&turns[0]).iter().map(String::len).collect();
    assert_eq!(sizes[2], 504);
    assert!(
        sizes[0] == sizes[1] && sizes[1] == sizes[3] && sizes[0] > 16_000,
        "{sizes:?}"
    );
}

#[test]
fn whole_steps_are_left_out_where_results_are_not_what_is_long() {
    let mut history = History::default();
    history.begin("now").unwrap();
    for step in 0..10 {
        let mut write = reads(step, &[10]);
        let arguments = format!("{{\"path\":\"{step}\",\"content\":\"{}\"}}", "y".repeat(15_000));
        let ContentBlock::Call(call) = write.assistant().blocks[0].clone() else {
            panic!()
        };
        let assistant = Assistant {
            blocks: vec![ContentBlock::Call(ToolCall {
                arguments: arguments.into(),
                name: "file_write".into(),
                ..call
            })],
            ..write.assistant().clone()
        };
        write = Step::new(assistant, write.results().to_vec()).unwrap();
        history.push(write).unwrap();
        let turns = fitted(&history, BOUNDS).unwrap();
        assert!(bytes(&turns) <= BOUNDS.bytes_max);
        let last = turns[0].steps().last().unwrap();
        assert_eq!(last.results()[0].call, format!("{step}-0"));
        let left_out = step + 1 - turns[0].steps().len();
        let said = format!("The first {left_out} steps of your work on this message are left out here");
        assert_eq!(
            turns[0].user().contains(&said),
            left_out > 0,
            "{}",
            turns[0].user()
        );
    }
    assert!(fitted(&history, BOUNDS).unwrap()[0].steps().len() < 6);
}

#[test]
fn what_cannot_be_made_to_fit_is_an_error() {
    let mut history = History::default();
    history.begin("x".repeat(89_000)).unwrap();
    history.push(reads(0, &[2_000])).unwrap();
    let error = fitted(&history, BOUNDS).unwrap_err();
    assert!(error.bytes > BOUNDS.bytes_max);
}

#[test]
fn the_first_request_of_a_turn_is_within_the_bound_as_well() {
    let mut history = History::default();
    for turn in 0..3 {
        history.begin(format!("turn {turn}")).unwrap();
        history.push(reads(turn, &[25_000])).unwrap();
        history.close("done");
    }
    history.begin("x".repeat(80_000)).unwrap();
    let turns = fitted(&history, BOUNDS).unwrap();
    assert!(turns.len() == 1 && bytes(&turns) <= BOUNDS.bytes_max);
    // The user's message is not shortened.
    history.close("done");
    history.begin("x".repeat(95_000)).unwrap();
    let error = fitted(&history, BOUNDS).unwrap_err();
    assert!(
        error.bytes > BOUNDS.bytes_max && error.bytes < 106_000,
        "{error:?}"
    );
}

/// A conversation always gives the same request, and its prefix seldom changes. STK-55
#[test]
fn a_request_begins_with_the_one_before_but_where_the_bound_was_met() {
    let mut history = History::default();
    history.begin("now").unwrap();
    let (mut changes, mut before) = (0, Vec::<Step>::new());
    for step in 0..60 {
        history.push(reads(step, &[3_000 + step * 37 % 4_000])).unwrap();
        let turns = fitted(&history, BOUNDS).unwrap();
        assert_eq!(json(&turns), json(&fitted(&history, BOUNDS).unwrap()));
        let steps = turns[0].steps();
        let same = before.iter().zip(steps);
        let is_prefix = before.len() < steps.len()
            && same
                .clone()
                .all(|(a, b)| serde_json::to_string(a).unwrap() == serde_json::to_string(b).unwrap());
        changes += usize::from(!is_prefix);
        before = steps.to_vec();
    }
    assert!((2..=9).contains(&changes), "{changes}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// STK-47, STK-36, STK-54
    #[test]
    fn no_request_is_over_its_bound_and_calls_keep_their_results(
        earlier in proptest::collection::vec(0usize..20_000, 0..6),
        steps in proptest::collection::vec(proptest::collection::vec(0usize..20_000, 1..12), 0..16),
    ) {
        let bounds = WindowBounds { bytes_max: 40_000, ..BOUNDS };
        let mut history = History::default();
        for size in earlier {
            history.begin("before").unwrap();
            history.push(reads(0, &[size])).unwrap();
            history.close("done");
        }
        history.begin("now").unwrap();
        for (number, sizes) in steps.iter().enumerate() {
            history.push(reads(number, sizes)).unwrap();
            let turns = fitted(&history, bounds).expect("fits");
            prop_assert!(bytes(&turns) <= bounds.bytes_max, "{}", bytes(&turns));
            let newest = turns.last().unwrap().steps().last().unwrap();
            prop_assert_eq!(newest.results().len(), sizes.len());
            for step in turns.iter().flat_map(Turn::steps) {
                let results = step.results().to_vec();
                prop_assert!(Step::new(step.assistant().clone(), results).is_ok());
            }
        }
    }
}
