//! A test of generated turns: no ending of a turn leaves a conversation that a provider refuses.

use super::fixture::{MemoryJournal, TurnFixture};
use super::{offences, steering};
use crate::base::model::{Assistant, ContentBlock, History, StopReason, ToolCall, Usage};
use crate::interfaces::provider::scripted::{ScriptStep, ScriptedProvider, says};
use crate::interfaces::provider::{Completion, ProviderFailureKind, SideCosts};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use std::time::Duration;

#[derive(Clone, Debug)]
enum ModelAction {
    Says(String),
    Calls(Vec<(u8, u8)>, StopReason),
    Fails(u8),
    Stalls,
}

fn any_model_action() -> impl Strategy<Value = ModelAction> {
    let stop = prop_oneof![
        Just(StopReason::ToolUse),
        Just(StopReason::EndTurn),
        Just(StopReason::MaxTokens),
        Just(StopReason::Refusal)
    ];
    prop_oneof![
        2 => "[ a-z]{0,3}".prop_map(ModelAction::Says),
        6 => (proptest::collection::vec((0_u8..4, any::<u8>()), 1..5), stop).prop_map(|(calls, stop)| ModelAction::Calls(calls, stop)),
        1 => (0_u8..4).prop_map(ModelAction::Fails),
        1 => Just(ModelAction::Stalls),
    ]
}

fn line(does: &ModelAction) -> ScriptStep {
    match does {
        ModelAction::Says(text) => says(text),
        ModelAction::Calls(wanted, stop) => {
            let call = |(id, what): &(u8, u8)| {
                let (name, arguments) = match what % 8 {
                    0 | 1 => ("file_read", format!("{{\"path\":\"{}.txt\"}}", what / 8)),
                    2 => (
                        "file_write",
                        format!("{{\"path\":\"n{what}\",\"content\":\"{what}\"}}"),
                    ),
                    3 => ("no_such_tool", "{}".to_owned()),
                    4 => ("file_read", "{".to_owned()),
                    5 => ("slow_read", String::new()),
                    6 => ("slow_write", String::new()),
                    _ => ("hang", String::new()),
                };
                ContentBlock::Call(ToolCall {
                    id: ["", "a", "b", "call_0"][usize::from(*id)].to_owned(),
                    name: name.to_owned(),
                    arguments: arguments.into(),
                })
            };
            ScriptStep::Answer(Completion {
                assistant: Assistant {
                    blocks: wanted.iter().map(call).collect(),
                    raw: None,
                    stop: *stop,
                    usage: Usage::default(),
                },
                model: "scripted-1".to_owned(),
                side: SideCosts::default(),
            })
        }
        ModelAction::Fails(0) => ScriptStep::fails(ProviderFailureKind::RateLimiting, ""),
        ModelAction::Fails(1) => ScriptStep::fails(ProviderFailureKind::Broken, "reset"),
        ModelAction::Fails(_) => ScriptStep::fails(ProviderFailureKind::Rejected, "no"),
        ModelAction::Stalls => ScriptStep::Stall,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// R13, STK-32, STK-64, STK-44
    #[test]
    fn no_ending_of_a_turn_ever_poisons_the_conversation(
        turns in proptest::collection::vec(
            (
                proptest::collection::vec(any_model_action(), 0..6),
                0_u64..2_000,
                proptest::collection::vec(0_usize..3, 0..6),
                any::<bool>(),
            ),
            1..4,
        ),
    ) {
        thread_local! {
            static BENCH: std::cell::RefCell<TurnFixture> = std::cell::RefCell::new(TurnFixture::new());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        BENCH.with_borrow_mut(|fixture| runtime.block_on(async {
            let mut history = History::default();
            for (script, stop_after_ms, waiting, leaves_messages) in &turns {
                fixture.reset();
                fixture.limits.turn_time_max = Duration::from_millis(1_000);
                let model = ScriptedProvider::new(script.iter().map(line));
                let cancel = fixture.cancel.clone();
                let stop = async {
                    tokio::time::sleep(Duration::from_millis(*stop_after_ms)).await;
                    cancel.cancel();
                };
                let texts = waiting.iter().map(|count| (0..*count).map(|number| steering::message(1, &number.to_string())));
                let journal = MemoryJournal {
                    waiting: texts.map(Iterator::collect).collect(),
                    leaves_messages: *leaves_messages,
                    ..MemoryJournal::default()
                };
                let (ran, ()) = tokio::join!(fixture.run_on(&model, &mut history, journal), stop);
                assert!(ran.outcome.is_ok());
                for asked in model.requests() {
                    assert_eq!(offences(&asked.turns), [""; 0]);
                }
                assert!(history.begin("probe").is_ok(), "the turn is left open");
                history.close("probed");
                assert_eq!(offences(history.turns()), [""; 0]);
            }
        }));
    }
}
