//! Posts that the platform limits, refuses or loses.

use super::chat::{Chat, Person, PostFault};
use super::on_each_platform;
use drydock::simulation::emulator::model::{ModelRequest, says};

async fn the_post_of_a_result_fails<C: Chat>() {
    for fault in [
        PostFault::Limited,
        PostFault::Failed,
        PostFault::Lost,
        PostFault::AnswerLost,
    ] {
        let chat = C::begin(|_: &ModelRequest| says("Nothing to change.")).await;
        chat.admit_editor(Person::Alice).await;
        chat.app().wait_until_idle().await;
        chat.fail_next_post(fault);
        let (thread, result) = chat.ask(Person::Alice, "hello").await;
        chat.app().wait_until_idle().await;
        let name = format!("{}, {fault:?}", C::NAME);
        assert!(C::text(&result).contains("Nothing to change."), "{name}");
        assert_eq!(chat.results(&thread).len(), 1, "{name}");
        // Where a bot reads what it wrote, a lost post leaves nothing behind. A turn that lasted had a card as well.
        if C::BEGINS_THREADS {
            let texts: Vec<String> = chat.messages(&thread).iter().map(C::text).collect();
            // Discord begins a thread with an empty message.
            let is_said = |text: &&String| !text.is_empty() && !text.contains("the result is below");
            assert_eq!(texts.iter().filter(is_said).count(), 1, "{name}: {texts:?}");
            assert_eq!(C::edits(&result), 0, "{name}");
        }
        assert_eq!(chat.app().model_requests().len(), 1, "{name}");
        let waiting = "SELECT count(*) FROM outbox WHERE done_at IS NULL";
        assert_eq!(chat.app().count(waiting), 0, "{name}");
    }
}

/// R1, R17
#[test]
fn a_result_shows_once_whatever_became_of_its_post() {
    on_each_platform!(the_post_of_a_result_fails);
}
