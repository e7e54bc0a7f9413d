//! Tests of trimming over many turns.

#![allow(clippy::unwrap_used)]

use super::{ContextBudget, ContextParts, FixedParts, check_room, measured};
use crate::base::config::{Config, ConfigSources, SourceFile};
use crate::base::model::{
    Assistant, ContentBlock, History, Limits, Step, StopReason, ToolCall, ToolResult, Turn, Usage,
};
use crate::engine::agent::prompt::{self, PromptFacts, RepositoryKind};
use crate::interfaces::provider::{Patience, ToolChoice, TurnRequest, encode_in_each_format, fixed_bytes};
use crate::interfaces::tool::{
    Tool, Toolbox, ask_user, conclude, keep_note, send_user_message, testing::all_tools, workspace_tools,
};
use crate::state::access::{Role, testing::identity};
use std::sync::Arc;

/// Returns a step that reads a file of so many bytes.
fn reads(id: String, bytes: usize) -> Step {
    let call = ToolCall {
        id: id.clone(),
        name: "file_read".to_owned(),
        arguments: format!("{{\"path\":\"{id}\"}}").into(),
    };
    let assistant = Assistant {
        blocks: vec![ContentBlock::Call(call)],
        raw: None,
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    let result = ToolResult {
        call: id,
        content: "a line of a file\n".repeat(bytes / 17),
        is_error: false,
    };
    Step::new(assistant, vec![result]).unwrap()
}

fn budget(history_bytes_max: usize, fixed: usize) -> ContextBudget {
    let limits = Limits {
        history_bytes_max,
        ..Limits::default()
    };
    ContextBudget::new(&limits, Some(10_000_000), fixed)
}

/// STK-53
#[test]
fn nothing_is_trimmed_below_four_fifths_and_then_so_much_that_many_turns_fit() {
    let (budget, mut history) = (budget(100_000, 10_000), History::default());
    let (mut trims, mut most) = (Vec::new(), 0);
    for turn in 0..200 {
        history.begin(format!("turn {turn}")).unwrap();
        history.push(reads(format!("{turn}"), 1_700)).unwrap();
        let before = (history.boundary(), history.trimmed_turns(), history.turns().len());
        let used = 10_000 + history.bytes();
        budget.trim(&mut history, None);
        if before == (history.boundary(), history.trimmed_turns(), history.turns().len()) {
            assert!(used <= 80_000, "{used}");
            most = most.max(used);
        } else {
            assert!(used > 80_000 && 10_000 + history.bytes() <= 60_000, "{used}");
            trims.push(turn);
        }
        history.close("done");
    }
    assert!(most > 78_000, "{most}");
    // A trim is followed by seven turns without one.
    assert!(
        trims.len() > 3 && trims.windows(2).all(|pair| pair[1] - pair[0] >= 8),
        "{trims:?}"
    );
}

/// A window in tokens is as good as one in bytes, and what the provider counts corrects it.
#[test]
fn the_budget_follows_the_tokens_that_the_provider_counts() {
    let budget = ContextBudget::new(&Limits::default(), Some(58_192), 0);
    assert_eq!(budget.bytes_max(None), 150_000);
    assert_eq!(budget.bytes_max(Some(1_000)), 50_000);
    assert_eq!(budget.bytes_max(Some(8_000)), 400_000);
    let usage = |input, cache_read| Usage {
        input,
        cache_read,
        output: 1_000_000,
        ..Usage::default()
    };
    assert_eq!(measured(35_000, usage(4_000, 6_000)), Some(3_500));
    assert_eq!(measured(35_000, usage(999, 0)), None);
    assert_eq!(measured(1_000_000, usage(1_000, 0)), Some(8_000));
    assert_eq!(measured(10, usage(1_000, 0)), Some(1_000));
    assert!(budget.bound_text(None).contains("`context_tokens`"));
    assert_eq!(
        budget.bound_text(Some(8_000)),
        "`limits.history_bytes_max` is 400000"
    );
}

/// SDK-16
#[test]
fn too_many_turns_are_left_out_together_and_not_one_by_one() {
    let limits = Limits {
        history_turns_max: 40,
        ..Limits::default()
    };
    let (budget, mut history) = (ContextBudget::new(&limits, None, 0), History::default());
    let mut counts = Vec::new();
    for turn in 0..120 {
        history.begin(format!("{turn}")).unwrap();
        budget.trim(&mut history, None);
        counts.push(history.turns().len());
        history.close("done");
    }
    assert_eq!(counts.iter().max(), Some(&40));
    let drops = counts.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert_eq!((drops, counts.last()), (5, Some(&35)));
    assert_eq!(history.turns().last().map(Turn::user), Some("119"));
}

/// Requests of 200 turns with two calls each are nearly always the same bytes as the request before, in each format,
/// although older turns are trimmed.
///
/// STK-55
#[test]
fn of_two_hundred_turns_nineteen_of_twenty_bytes_were_sent_before() {
    let identity = identity(Role::Editor, &["**"]);
    let toolbox = Toolbox::new(all_tools()).unwrap();
    let system = "You are careful.";
    let budget = budget(400_000, fixed_bytes(system, toolbox.specs()));
    let mut history = History::default();
    let mut before: Vec<Vec<u8>> = Vec::new();
    let mut counts = vec![(0_usize, 0_usize); 8];
    let (mut trims, mut boundary) = (0, 0);
    for turn in 0..200 {
        history.begin(format!("the request of turn {turn}")).unwrap();
        for step in 0..3 {
            budget.trim(&mut history, None);
            let trimmed = history.trimmed_turns() + 1_000 * (turn + 1 - history.turns().len());
            trims += usize::from(trimmed != boundary);
            boundary = trimmed;
            let request = TurnRequest {
                identity: &identity,
                model: "m",
                system,
                tools: toolbox.specs(),
                tool_choice: ToolChoice::Free,
                turns: history.turns(),
                answer_tokens_max: 8_192,
                patience: Patience::Full,
            };
            let requests = encode_in_each_format(&request);
            for ((before, request), (same, all)) in before.iter().zip(&requests).zip(&mut counts) {
                assert!(request.len() <= 400_000);
                *same += common_start(before, request);
                *all += request.len();
            }
            before = requests;
            match step {
                2 => history.close("It is done."),
                _ => history
                    .push(reads(format!("{turn}-{step}"), 1_000 + turn * 37 % 3_000))
                    .unwrap(),
            }
        }
    }
    assert!(trims >= 3, "{trims} trims");
    for (same, all) in counts.into_iter().take(before.len()) {
        let percent = 100.0 * same as f64 / all as f64;
        assert!(percent >= 95.0, "{percent:.1} %, {trims} trims");
    }
}

/// Returns the number of bytes with which both begin. Whole blocks are compared first, because each byte alone takes long.
fn common_start(one: &[u8], other: &[u8]) -> usize {
    const BLOCK_BYTES: usize = 4_096;
    let blocks = one.chunks_exact(BLOCK_BYTES).zip(other.chunks_exact(BLOCK_BYTES));
    let equal = blocks.take_while(|(a, b)| a == b).count() * BLOCK_BYTES;
    let rest = one[equal..].iter().zip(&other[equal..]);
    equal + rest.take_while(|(a, b)| a == b).count()
}

#[test]
fn the_parts_of_a_context_add_up() {
    let mut history = History::default();
    for turn in 0..3 {
        history.begin(format!("turn {turn}")).unwrap();
        history.push(reads(format!("{turn}"), 1_700)).unwrap();
        history.close("done");
    }
    history.trim(history.bytes() - 1_000);
    let fixed = FixedParts {
        instructions: 1_000,
        tools: 2_000,
    };
    let parts = ContextParts::measure(&history, fixed, (&Limits::default(), None), Some(4_000));
    assert_eq!(parts.trimmed + parts.turns + parts.results, history.bytes());
    assert!(
        parts.trimmed > 0 && parts.results > 3_400 && parts.turns > 0,
        "{parts:?}"
    );
    let rows = parts.rows();
    assert_eq!(
        rows[0],
        (
            "Instructions".to_owned(),
            "1,000 bytes, about 250 tokens, 0 %".to_owned()
        )
    );
    let all = 3_000 + history.bytes();
    assert!(
        rows[5].0 == "In all"
            && rows[5]
                .1
                .starts_with(&crate::base::model::group_thousands(all as u64))
    );
    assert_eq!(
        rows[6],
        (
            "Room for".to_owned(),
            "400,000 bytes, about 100,000 tokens, 100 %".to_owned()
        )
    );
}

/// Returns the fewest tokens of a context window that has room at the start, with these settings.
fn smallest_window(toolbox: &Toolbox, settings: &[(&str, &str)]) -> usize {
    let has_room = |tokens: &usize| {
        let settings = settings.iter();
        let settings = settings.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let model = ("model.default".to_owned(), "ollama/small".to_owned());
        let config = Config::for_terminal(ConfigSources {
            file: Some(SourceFile {
                path: "drydock.toml".into(),
                text: format!("[models.\"ollama/small\"]\ncontext_tokens = {tokens}\n"),
            }),
            environment: [("OLLAMA_HOST".to_owned(), "http://127.0.0.1:9".to_owned())].into(),
            flags: settings.chain([model]).collect(),
            ..ConfigSources::default()
        });
        check_room(&config.unwrap(), toolbox).is_ok()
    };
    let (mut without, mut with) = (8_000, 64_000);
    assert!(!has_room(&without) && has_room(&with));
    while with - without > 1 {
        let between = without.midpoint(with);
        match has_room(&between) {
            true => with = between,
            false => without = between,
        }
    }
    with
}

/// The tools that only some turns offer count as well, if the configuration enables them.
#[test]
fn the_start_counts_every_tool_that_a_turn_may_offer() {
    let toolbox = Toolbox::new(workspace_tools()).unwrap();
    let tools = |tools: &[Arc<dyn Tool>]| {
        let offered = tools
            .iter()
            .fold(Toolbox::new(workspace_tools()).unwrap(), |offered, tool| {
                offered.with(Arc::clone(tool)).unwrap()
            });
        fixed_bytes("", offered.specs())
    };
    let usual = smallest_window(&toolbox, &[]);
    let people = smallest_window(&toolbox, &[("messages.between_people", "true")]);
    let notes = smallest_window(&toolbox, &[("limits.context_strategy", "notes")]);
    let counted = tools(&[conclude(), ask_user()]);
    // Half of a window may be used, and three bytes count as a token.
    let more = |tool: Arc<dyn Tool>| (tools(&[conclude(), ask_user(), tool]) - counted) * 2 / 3;
    assert!(
        (people - usual).abs_diff(more(send_user_message())) <= 3,
        "{people} {usual}"
    );
    assert!(
        (notes - usual).abs_diff(more(keep_note())) <= 3,
        "{notes} {usual}"
    );
    let instructions = usual - counted * 2 / 3;
    let verdicts_and_questions = (counted - tools(&[])) * 2 / 3;
    assert!(verdicts_and_questions > 500, "{verdicts_and_questions}");
    let facts = PromptFacts {
        repository: "",
        branch: "",
        role: Some(Role::Editor),
        environments: &["*".to_owned()],
    };
    let system = prompt::system(RepositoryKind::Tanka, &facts);
    assert!(
        instructions.abs_diff(system.len() * 2 / 3) <= 200,
        "{instructions}"
    );
}
