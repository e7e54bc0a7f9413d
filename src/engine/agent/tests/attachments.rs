//! Tests of attachments in a turn: which models get them, and what the others get.

use super::fixture::{MemoryJournal, TurnFixture};
use super::notice;
use crate::base::config::ModelFacts;
use crate::base::model::{Attachment, History, MediaType, Turn, Verdict};
use crate::interfaces::provider::ProviderFailureKind;
use crate::interfaces::provider::scripted::{RecordedRequest, ScriptStep, ScriptedProvider, says};
use std::sync::Arc;

fn image() -> Attachment {
    Attachment::new("alert.png", MediaType::Png, b"\x89PNG\r\n\x1a\n")
}

fn takes(types: &[MediaType]) -> ModelFacts {
    ModelFacts {
        attachments: Some(types.iter().copied().collect()),
        ..ModelFacts::default()
    }
}

/// Returns the users' texts of a request, each with the number of its attachments.
fn said(request: &RecordedRequest) -> Vec<(&str, usize)> {
    let turns = request.turns.iter();
    turns
        .map(|turn: &Turn| (turn.user(), turn.attachments().len()))
        .collect()
}

/// STK-39
#[tokio::test]
async fn a_model_that_does_not_take_an_attachment_is_not_asked() {
    let mut fixture = TurnFixture::new();
    fixture.attachments = vec![image()];
    for (types, why) in [
        (
            None,
            "it is not known which files `scripted/m` takes, so alert.png (image/png, 8 bytes) was not sent; set \
             `attachments` of [models.\"scripted/m\"] to the types that it takes, or use another model.",
        ),
        (
            Some(vec![]),
            "`scripted/m` does not take files of the type image/png, so alert.png (image/png, 8 bytes) was not sent; \
             use another model.",
        ),
        (
            Some(vec![MediaType::Jpeg, MediaType::Pdf]),
            "`scripted/m` does not take files of the type image/png, so alert.png (image/png, 8 bytes) was not sent; \
             it takes jpeg, pdf; convert the file, or use another model.",
        ),
    ] {
        fixture.attachment_types = types.map(|types| types.into_iter().collect());
        let provider = ScriptedProvider::new([says("never")]);
        let ran = fixture.run(&provider).await;
        assert_eq!(ran.outcome().verdict, Verdict::Limit);
        assert_eq!(notice(&ran), format!("I did not ask the model: {why}"));
        assert!(provider.requests().is_empty() && ran.reserved.is_empty());
    }
}

/// STK-39
#[tokio::test]
async fn a_fallback_that_does_not_take_an_attachment_is_skipped() {
    let mut fixture = TurnFixture::new();
    fixture.attachments = vec![image()];
    fixture.attachment_types = Some([MediaType::Png].into_iter().collect());
    let (second, third) = (
        Arc::new(ScriptedProvider::new([says("never")])),
        Arc::new(ScriptedProvider::new([says("I see.")])),
    );
    fixture.fallbacks = vec![
        (Arc::clone(&second), "second", takes(&[MediaType::Pdf])),
        (Arc::clone(&third), "third", takes(&[MediaType::Png])),
    ];
    let first = ScriptedProvider::new([ScriptStep::fails(ProviderFailureKind::Overloaded, "why")]);
    let ran = fixture.run(&first).await;
    assert_eq!(ran.outcome().answer, "I see.");
    assert!(second.requests().is_empty());
    let line = ran.outcome().fallback.clone().expect("a line");
    let skipped =
        "`scripted/second` was not asked: `scripted/second` does not take files of the type image/png";
    assert!(line.contains(skipped), "{line}");
    let asked = third.requests();
    assert_eq!(said(&asked[0]), [("please", 1)]);
}

/// STK-39
#[tokio::test]
async fn a_model_that_takes_no_files_gets_the_names_of_earlier_ones() {
    let mut fixture = TurnFixture::new();
    fixture.attachment_types = Some([MediaType::Png].into_iter().collect());
    let second = Arc::new(ScriptedProvider::new([says("Here.")]));
    fixture.fallbacks = vec![(Arc::clone(&second), "second", takes(&[]))];
    let mut history = History::default();
    history.begin_attached("see", vec![image()]).expect("turn");
    history.close("seen");
    let first = ScriptedProvider::new([ScriptStep::fails(ProviderFailureKind::Overloaded, "why")]);
    let ran = fixture
        .run_on(&first, &mut history, MemoryJournal::default())
        .await;
    assert_eq!(ran.outcome().answer, "Here.");
    assert_eq!(said(&first.requests()[0]), [("see", 1), ("please", 0)]);
    let named = "see\n\n[not sent to this model] alert.png (image/png, 8 bytes)";
    assert_eq!(said(&second.requests()[0]), [(named, 0), ("please", 0)]);
    // The conversation keeps it for the next model that takes it.
    assert_eq!(history.turns()[0].attachments().len(), 1);
}

/// STK-39
#[tokio::test]
async fn attachments_that_do_not_fit_into_the_window_are_refused_before_the_model_is_asked() {
    let mut fixture = TurnFixture::new();
    fixture.attachments = vec![image(); 5];
    fixture.attachment_types = Some([MediaType::Png].into_iter().collect());
    fixture.context_tokens = Some(20_000);
    let provider = ScriptedProvider::new([says("never")]);
    let ran = fixture.run(&provider).await;
    assert_eq!(ran.outcome().verdict, Verdict::Limit);
    assert!(
        notice(&ran).ends_with("Attach fewer or shorter files."),
        "{}",
        notice(&ran)
    );
    assert!(provider.requests().is_empty());
}
