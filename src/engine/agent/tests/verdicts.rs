//! Tests of verdicts of the model, and of the end of a turn that has used its steps.

use super::fixture::{MemoryJournal, ScriptedPostconditions, TurnFixture, TurnRun};
use super::{notice, write};
use crate::base::model::{
    Assistant, ContentBlock, History, Step, StopReason, ToolCall, ToolResult, Usage, Verdict, VerdictSource,
};
use crate::engine::agent::{EarlierAttempts, VerdictRule};
use crate::interfaces::provider::scripted::{RecordedToolChoice, ScriptStep, ScriptedProvider, calls, says};
use crate::rendering::change_checks::CheckOutcome;

const READ_A: (&str, &str, &str) = ("1", "file_read", "{\"path\":\"a.txt\"}");
const PASS: &str = r#"{"verdict":"pass","summary":"It holds."}"#;
const FAIL: &str = r#"{"verdict":"fail","summary":"It breaks."}"#;

fn concludes(arguments: &str) -> ScriptStep {
    calls(&[("9", "conclude", arguments)])
}

/// Returns a fixture whose turns are asked for a verdict.
fn asked() -> TurnFixture {
    let mut fixture = TurnFixture::new();
    fixture.verdict = VerdictRule::Asked;
    fixture.postconditions = ScriptedPostconditions::finding([CheckOutcome::Unchanged]);
    fixture
}

fn end(ran: &TurnRun) -> (Verdict, VerdictSource, &str) {
    let outcome = ran.outcome();
    (outcome.verdict, outcome.source, outcome.answer.as_str())
}

/// CI-6
#[tokio::test]
async fn a_conclusion_ends_the_turn_with_the_verdict_of_the_model() {
    for (arguments, verdict, summary) in [
        (PASS, Verdict::Pass, "It holds."),
        (FAIL, Verdict::Fail, "It breaks."),
    ] {
        let fixture = asked();
        let model = ScriptedProvider::new([calls(&[READ_A]), concludes(arguments), says("never")]);
        let ran = fixture.run(&model).await;
        assert_eq!(end(&ran), (verdict, VerdictSource::Concluded, summary));
        assert_eq!((model.unused_steps(), notice(&ran)), (1, ""));
        // The history ends with an answer, so the next turn can begin.
        let last = ran.steps.last().unwrap();
        assert!(last.is_final() && last.assistant().text() == summary);
        assert!(model.requests()[0].tools.contains(&"conclude"));
    }
    // A turn whose verdict is computed does not offer it.
    let fixture = TurnFixture::new();
    let model = ScriptedProvider::new([concludes(PASS), says("Done.")]);
    let ran = fixture.run(&model).await;
    assert_eq!(end(&ran), (Verdict::Pass, VerdictSource::Verified, "Done."));
    assert!(!model.requests()[0].tools.contains(&"conclude"));
    assert!(
        ran.results()[0].0.starts_with("no tool `conclude`"),
        "{:?}",
        ran.results()
    );
}

/// CI-6
#[tokio::test]
async fn a_conclusion_stands_alone_and_says_pass_or_fail() {
    let fixture = asked();
    let model = ScriptedProvider::new([
        calls(&[READ_A, ("2", "conclude", PASS)]),
        concludes(r#"{"verdict":"maybe","summary":"x"}"#),
        concludes(PASS),
    ]);
    let ran = fixture.run(&model).await;
    assert_eq!(end(&ran), (Verdict::Pass, VerdictSource::Concluded, "It holds."));
    let results = ran.results();
    assert_eq!(results[0], ("alpha\n", false));
    assert!(results[1].0.starts_with("not concluded: call `conclude` alone") && results[1].1);
    assert!(
        results[2]
            .0
            .starts_with("not concluded: `verdict` is `pass` or `fail`")
            && results[2].1
    );
}

/// CI-6: a failing check decides, whatever the model concludes, and goes back to it while it may repair.
#[tokio::test]
async fn checks_run_after_a_conclusion_and_their_failures_go_back() {
    let fails = || CheckOutcome::Failed(vec!["`a.txt` is broken".to_owned()]);
    let turn = || {
        [
            write("1", "a.txt", "1\n"),
            concludes(PASS),
            write("2", "a.txt", "2\n"),
            concludes(PASS),
        ]
    };
    let mut fixture = asked();
    fixture.postconditions = ScriptedPostconditions::finding([fails(), CheckOutcome::Passed]);
    let ran = fixture.run(&ScriptedProvider::new(turn())).await;
    assert_eq!(end(&ran), (Verdict::Pass, VerdictSource::Concluded, "It holds."));
    assert!(ran.steps[1].remark().unwrap().contains("`a.txt` is broken"));
    fixture.reset();
    fixture.limits.repairs_max = 1;
    fixture.postconditions = ScriptedPostconditions::finding([fails(), fails()]);
    let ran = fixture.run(&ScriptedProvider::new(turn())).await;
    assert_eq!(end(&ran), (Verdict::Fail, VerdictSource::Verified, "It holds."));
    // After `fail` nothing is sent back.
    fixture.reset();
    fixture.postconditions = ScriptedPostconditions::finding([fails()]);
    let model = ScriptedProvider::new([write("1", "a.txt", "1\n"), concludes(FAIL), says("never")]);
    let ran = fixture.run(&model).await;
    assert_eq!((ran.outcome().verdict, model.unused_steps()), (Verdict::Fail, 1));
}

/// CI-6
#[tokio::test]
async fn a_model_that_edited_nothing_reads_failing_checks_and_changes_its_verdict() {
    let fails = || CheckOutcome::Failed(vec!["`a.txt` is broken".to_owned()]);
    let mut fixture = asked();
    fixture.limits.repairs_max = 2;
    fixture.postconditions = ScriptedPostconditions::finding([fails(), fails()]);
    let model = ScriptedProvider::new([concludes(PASS), concludes(FAIL), says("never")]);
    let ran = fixture.run(&model).await;
    assert_eq!(end(&ran), (Verdict::Fail, VerdictSource::Concluded, "It breaks."));
    let remark = ran.steps[0].remark().unwrap();
    assert!(
        remark.contains("`a.txt` is broken") && remark.contains("cannot be `pass`"),
        "{remark}"
    );
    // A model that insists is asked so many times only.
    fixture.reset();
    fixture.postconditions = ScriptedPostconditions::finding([fails(), fails(), fails()]);
    let model = ScriptedProvider::new([
        concludes(PASS),
        says("All is well."),
        concludes(PASS),
        says("never"),
    ]);
    let ran = fixture.run(&model).await;
    assert_eq!(end(&ran), (Verdict::Fail, VerdictSource::Verified, "It holds."));
    assert_eq!(
        (model.unused_steps(), notice(&ran)),
        (1, "A check of mine fails.")
    );
}

/// CI-7
#[tokio::test]
async fn a_verdict_that_is_not_concluded_is_inferred_and_says_so() {
    for (words, verdict) in [
        ("0 errors found.", Verdict::Pass),
        ("The build failed.", Verdict::Fail),
    ] {
        let ran = asked().run(&ScriptedProvider::new([says(words)])).await;
        assert_eq!(end(&ran), (verdict, VerdictSource::Inferred, words));
    }
    let ran = asked().run(&ScriptedProvider::new([says(""), says("")])).await;
    assert_eq!(end(&ran), (Verdict::Fail, VerdictSource::Inferred, ""));
    // Words never change a computed verdict.
    let ran = TurnFixture::new()
        .run(&ScriptedProvider::new([says("The build failed.")]))
        .await;
    assert_eq!(
        (ran.outcome().verdict, ran.outcome().source),
        (Verdict::Pass, VerdictSource::Verified)
    );
}

#[tokio::test]
async fn the_last_step_ends_the_turn_and_the_model_is_told_before() {
    for rule in [VerdictRule::Computed, VerdictRule::Asked] {
        let mut fixture = asked();
        fixture.verdict = rule;
        fixture.limits.steps_max = 4;
        let reads = |id| calls(&[(id, "file_read", "{\"path\":\"a.txt\"}")]);
        let writes = |id| write(id, "a.txt", id);
        let last = match rule {
            VerdictRule::Computed => says("It holds."),
            VerdictRule::Asked => concludes(PASS),
        };
        let model = ScriptedProvider::new([reads("1"), writes("2"), reads("3"), last]);
        let ran = fixture.run(&model).await;
        assert_eq!(
            (ran.outcome().answer.as_str(), notice(&ran)),
            ("It holds.", ""),
            "{rule:?}"
        );
        let expected = match rule {
            VerdictRule::Computed => (Verdict::NoChange, VerdictSource::Verified),
            VerdictRule::Asked => (Verdict::Pass, VerdictSource::Concluded),
        };
        assert_eq!((ran.outcome().verdict, ran.outcome().source), expected);
        let notes: Vec<&str> = ran
            .results()
            .iter()
            .map(|(content, _)| content.split_once("[Drydock: ").map_or("", |(_, note)| note))
            .collect();
        assert_eq!(notes[0], "");
        assert_eq!(notes[1], "Two steps are left. Finish what you have begun.]");
        let (calls, last) = match rule {
            VerdictRule::Computed => ("it cannot call tools", RecordedToolChoice::Text),
            VerdictRule::Asked => (
                "its only tool is `conclude`",
                RecordedToolChoice::Forced("conclude".to_owned()),
            ),
        };
        assert!(
            notes[2].starts_with(&format!("The next step is the last one, and {calls}.")),
            "{}",
            notes[2]
        );
        let requests = model.requests();
        // The tools are the beginning of the prompt, which a cache keeps.
        assert!(requests[0].tools.len() > 10);
        assert!(requests.iter().all(|asked| asked.tools == requests[0].tools));
        let choices: Vec<&RecordedToolChoice> = requests.iter().map(|asked| &asked.tool_choice).collect();
        let free = &RecordedToolChoice::Free;
        assert_eq!(choices, [free, free, free, &last], "{rule:?}");
    }
}

/// CI-6: the only step of a turn is its last one.
#[tokio::test]
async fn a_turn_of_one_step_has_to_conclude() {
    let mut fixture = asked();
    fixture.limits.steps_max = 1;
    let model = ScriptedProvider::new([concludes(FAIL)]);
    let ran = fixture.run(&model).await;
    assert_eq!(end(&ran), (Verdict::Fail, VerdictSource::Concluded, "It breaks."));
    let forced = RecordedToolChoice::Forced("conclude".to_owned());
    assert_eq!(model.requests()[0].tool_choice, forced);
}

#[tokio::test]
async fn nothing_but_a_conclusion_runs_in_the_last_step() {
    let mut fixture = TurnFixture::new();
    fixture.limits.steps_max = 2;
    let model = ScriptedProvider::new([calls(&[READ_A]), write("2", "a.txt", "x\n")]);
    let ran = fixture.run(&model).await;
    assert_eq!(notice(&ran), "I stopped after 2 steps without an answer.");
    assert_eq!(ran.results()[1], ("no tool `file_write`; available: none", true));
    assert_eq!(ran.outcome().writes.done, 0);
}

#[tokio::test]
async fn the_model_is_told_once_when_its_tokens_are_nearly_used() {
    let mut fixture = TurnFixture::new();
    fixture.limits.turn_tokens_max = 500;
    let reads = |id| calls(&[(id, "file_read", "{\"path\":\"a.txt\"}")]);
    let lines = [
        reads("1"),
        write("2", "a.txt", "x"),
        reads("3"),
        write("4", "a.txt", "y"),
        says("Done."),
    ];
    let ran = fixture.run(&ScriptedProvider::new(lines)).await;
    let told = ran
        .results()
        .iter()
        .filter(|(content, _)| content.contains("tokens of this work are used"))
        .count();
    assert_eq!(told, 1, "{:?}", ran.results());
    assert!(
        ran.results()[3]
            .0
            .ends_with("[Drydock: 440 of the 500 tokens of this work are used. Come to an end.]")
    );
}

/// A turn that goes on after a question, or begins again after a restart, is told once as well.
#[tokio::test]
async fn a_turn_that_goes_on_is_not_told_again_of_its_tokens_and_its_time() {
    let note = "[Drydock: 1700 of the 2000 tokens of this work are used. Come to an end. 9 seconds are left. Come to an end.]";
    let step = |content: String| {
        let usage = Usage {
            input: 1_700,
            ..Usage::default()
        };
        let call = ToolCall {
            id: "0".to_owned(),
            name: "file_read".to_owned(),
            arguments: "{}".into(),
        };
        let assistant = Assistant {
            blocks: vec![ContentBlock::Call(call)],
            raw: None,
            stop: StopReason::ToolUse,
            usage,
        };
        let result = ToolResult {
            call: "0".to_owned(),
            content,
            is_error: false,
        };
        Step::new(assistant, vec![result]).unwrap()
    };
    let mut fixture = TurnFixture::new();
    fixture.limits.turn_tokens_max = 2_000;
    for (content, is_restarted, told) in [
        (format!("text\n\n{note}"), false, 0),
        (format!("text\n\n{note}"), true, 0),
        ("text".to_owned(), false, 1),
        ("text".to_owned(), true, 1),
    ] {
        let mut history = History::default();
        history.begin("please").unwrap();
        history.push(step(content)).unwrap();
        fixture.earlier_attempts = EarlierAttempts::default();
        fixture.resumed_steps = 1;
        if is_restarted {
            history.close("(interrupted)");
            fixture.earlier_attempts.turns = 1;
            fixture.earlier_attempts.usage.input = 1_700;
            fixture.resumed_steps = 0;
        }
        let model = ScriptedProvider::new([calls(&[READ_A]), says("Done.")]);
        let journal = MemoryJournal::default();
        let ran = fixture.run_on(&model, &mut history, journal).await;
        let results = ran.results();
        let tells = |content: &str| content.contains("tokens of this work are used");
        let count = results.iter().filter(|(content, _)| tells(content)).count();
        assert_eq!(count, told, "{is_restarted}: {results:?}");
    }
}
