//! Tests of images and documents in requests: every service accepts them, and refuses what it documents as invalid.

use super::{ModelFixture, failure_kind_of, ways};
use crate::base::model::{Attachment, History, MediaType, Step};
use crate::interfaces::provider::ProviderFailureKind;
use crate::simulation::emulator::model::{queue, says};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
const PDF: &[u8] = b"%PDF-1.7\n";

fn attached(attachments: Vec<Attachment>) -> History {
    let mut history = History::default();
    history.begin_attached("see", attachments).expect("turn");
    history
}

/// STK-39
#[tokio::test]
async fn attached_files_go_through_every_provider() {
    for way in ways() {
        let mut fixture = ModelFixture::new(way, queue([says("I see."), says("Still.")]));
        let mut history = attached(vec![
            Attachment::new("alert.png", MediaType::Png, PNG),
            Attachment::new("run.pdf", MediaType::Pdf, PDF),
        ]);
        let answer = fixture.ask(&history).await.expect("answer").assistant;
        history
            .push(Step::new(answer, Vec::new()).expect("step"))
            .expect("open");
        history.begin("again").expect("turn");
        fixture.ask(&history).await.expect("answer");
        for asked in fixture.emulator.requests() {
            let message = &asked.messages[0];
            let files: Vec<(&str, &[u8])> = message
                .files
                .iter()
                .map(|file| (file.media_type.as_str(), &*file.content))
                .collect();
            assert_eq!(files, [("image/png", PNG), ("application/pdf", PDF)], "{way:?}");
            assert_eq!(message.text, "see");
        }
        fixture.assert_in_order();
    }
}

#[tokio::test]
async fn a_file_that_is_not_what_the_request_says_is_refused_by_every_provider() {
    for way in ways() {
        let mut fixture = ModelFixture::new(way, queue([]));
        let history = attached(vec![Attachment::new("a.png", MediaType::Png, PDF)]);
        let refused = failure_kind_of(&fixture.ask(&history).await);
        assert_eq!(refused, Some(ProviderFailureKind::Rejected), "{way:?}");
        let problems = fixture.emulator.problems();
        assert!(problems[0].contains("the file is no image/png"), "{problems:?}");
    }
}

#[tokio::test]
async fn an_image_that_is_too_large_is_refused_by_anthropic() {
    let anthropic = ways().find(|(known, _)| known.name == "anthropic");
    let mut fixture = ModelFixture::new(anthropic.expect("anthropic"), queue([]));
    let image = [PNG, &[0; 4 << 20]].concat();
    let history = attached(vec![Attachment::new("a.png", MediaType::Png, &image)]);
    let refused = failure_kind_of(&fixture.ask(&history).await);
    assert_eq!(refused, Some(ProviderFailureKind::Rejected));
}
