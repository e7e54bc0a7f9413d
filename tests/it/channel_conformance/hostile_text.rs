//! Text that tries to notify people, to become a link, or to look like something else.

use super::chat::{Chat, Person};
use super::on_each_platform;
use crate::support::app::step_number;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use serde_json::json;

/// The words that notify or link on at least one of the platforms.
const WORDS: &str = "@everyone @here <!channel> <!here> <!subteam^S1> <@U0BOB> <@7002> <@&5> <#4> <#C1|x> \
    </drydock:1> https://evil.example/x <https://evil.example|safe> [a](https://evil.example) discord.gg/abc t.me/evil \
    @drydock_bot /start@drydock_bot #tag $CASH evil.example bob@evil.example tg://user?id=4202 ||hidden|| <t:1:R> \
    # big\n> quoted\n```\n@here </b>\n```\n*bold* _it_ ~no~ &lt;@U0BOB&gt;";
/// Right-to-left marks, invisible characters, joined emoji and letters of many scripts.
const UNICODE: &str = "\u{202e}txt.exe\u{202c} zero\u{200b}width \u{2066}isolated\u{2069} 👩‍👩‍👧‍👦 🇩🇪 e\u{301} ﷽ 漢字 𝔘𝔫𝔦 \u{feff}end";

fn hostile(asked: &ModelRequest) -> ScriptedAnswer {
    match (step_number(asked), asked.last_user_text().contains("file")) {
        (0, true) => calls(
            "file_write",
            json!({"path": "environments/dev/@everyone <!here> \u{202e}x.txt", "content": format!("{WORDS}\n{UNICODE}\n")}),
        ),
        _ => says(format!("{WORDS}\n\n{UNICODE}")),
    }
}

async fn a_model_says_hostile_words<C: Chat>() {
    let chat = C::begin(hostile).await;
    chat.admit_editor(Person::Alice).await;
    let (thread, _) = chat.ask(Person::Alice, "hello").await;
    chat.ask_in(Person::Alice, &thread, "write a file").await;
    chat.app().wait_until_idle().await;
    let name = C::NAME;
    let messages = chat.messages(&thread);
    assert!(!messages.is_empty());
    for message in &messages {
        let found = C::side_effects(message, Person::Alice);
        assert_eq!(found, Vec::<String>::new(), "{name}: {message:?}");
        let text = C::text(message);
        let hidden = ['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}'];
        assert!(!text.contains(hidden), "{name}: {text:?}");
    }
    let first = chat.wait_for_result(&thread, 1).await;
    for shown in ["漢字", "𝔘𝔫𝔦", "👩‍👩‍👧‍👦", "@everyone"] {
        assert!(C::text(&first).contains(shown), "{name}: {}", C::text(&first));
    }
}

/// T43
#[test]
fn hostile_words_notify_nobody_link_nowhere_and_hide_nothing() {
    on_each_platform!(a_model_says_hostile_words);
}
