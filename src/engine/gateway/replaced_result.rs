//! The message of a result after another revision has replaced it: without its buttons, and with a line that says so.

use super::compose::{Address, result_name};
use crate::base::config::Config;
use crate::base::model::{Action, Op, Reply, ReplyPart, cut_after};
use crate::state::store::{REPLACED, RESULT_LINE_CHARS_MAX, with_line};

/// Maximum number of cuts for the room of one line. A message has less text than so many of them.
const CUTS_MAX: usize = 64;

impl Address {
    /// Returns the operation that takes the buttons off a result; `None` if it has none. Its message has room for the line
    /// that says why.
    pub(super) fn replaced_result(&self, config: &Config, messages: &[Reply]) -> Option<Op> {
        let is_row = |part: &ReplyPart| matches!(part, ReplyPart::Buttons { .. });
        let with_buttons = messages
            .iter()
            .rposition(|message| message.parts.iter().any(is_row))?;
        let mut reply = messages.get(with_buttons)?.clone();
        reply.parts.retain(|part| !is_row(part));
        let post = self.id(&result_name(with_buttons));
        let line = "x".repeat(RESULT_LINE_CHARS_MAX);
        for _ in 0..CUTS_MAX {
            let has_room = self.fits(config, &with_line(reply.clone(), &line), 1);
            if has_room || !shorten(&mut reply) {
                break;
            }
        }
        Some(self.op(REPLACED, Action::Fill { post, reply }))
    }
}

/// Cuts the end of the longest text of a reply. Returns false if no text is long.
fn shorten(reply: &mut Reply) -> bool {
    let Some(text) = longest_text(&mut reply.parts) else {
        return false;
    };
    let Some(kept) = text.chars().count().checked_sub(RESULT_LINE_CHARS_MAX) else {
        return false;
    };
    let cut = cut_after(text, kept).into_owned();
    *text = cut;
    true
}

fn longest_text(parts: &mut [ReplyPart]) -> Option<&mut String> {
    let texts = parts.iter_mut().filter_map(|part| match part {
        ReplyPart::Text { text } | ReplyPart::Markdown { text } | ReplyPart::Code { text, .. } => Some(text),
        ReplyPart::Fold { parts, .. } => longest_text(parts),
        ReplyPart::Heading { .. }
        | ReplyPart::Mention { .. }
        | ReplyPart::Facts { .. }
        | ReplyPart::Tasks { .. }
        | ReplyPart::Footer { .. }
        | ReplyPart::Buttons { .. } => None,
    });
    texts.max_by_key(|text| text.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::{REPLACED, RESULT_LINE_CHARS_MAX};
    use crate::base::model::{Action, Button, ButtonStyle, FoldState, Reply, ReplyPart};
    use crate::engine::gateway::fixture::{address, config};
    use crate::state::store::with_line;

    /// Returns a result whose code has this number of characters.
    fn result(chars: usize) -> Reply {
        let code = ReplyPart::Code {
            language: "diff".to_owned(),
            text: "+ äöü\n".repeat(chars / 6),
        };
        let parts = vec![
            ReplyPart::Heading {
                text: "CHG-1 is ready: dev, 1 file, +1 −1".to_owned(),
            },
            ReplyPart::Fold {
                title: "Source diff".to_owned(),
                state: FoldState::Closed,
                parts: vec![code],
            },
            ReplyPart::Footer {
                text: "Nothing was applied, committed or pushed.".to_owned(),
            },
            ReplyPart::Buttons {
                buttons: vec![Button::new("Get patch", "token", ButtonStyle::Primary)],
            },
        ];
        Reply { parts }
    }

    #[test]
    fn a_replaced_result_is_one_message_with_its_line_however_full_it_was() {
        let (config, address) = (config(), address());
        let line = format!("{} goes on with CHG-1 in this thread.", "n".repeat(200));
        assert!(line.chars().count() <= RESULT_LINE_CHARS_MAX);
        let (mut whole, mut cut) = (0, 0);
        for chars in (600..6_000).step_by(60) {
            let shown = result(chars);
            if !address.fits(&config, &shown, 1) {
                break;
            }
            let op = address
                .replaced_result(&config, std::slice::from_ref(&shown))
                .unwrap();
            assert_eq!(op.id, format!("inbox-7/{REPLACED}"));
            let Action::Fill { post, reply } = op.action else {
                panic!("{:?}", op.action)
            };
            assert_eq!(post, "inbox-7/result");
            let replaced = with_line(reply, &line);
            assert!(address.fits(&config, &replaced, 1), "{chars}");
            let plain = replaced.plain();
            assert!(
                plain.contains(&line) && plain.contains("CHG-1 is ready"),
                "{plain}"
            );
            assert!(plain.chars().count() + 2 * RESULT_LINE_CHARS_MAX > shown.plain().chars().count());
            match plain.contains('…') {
                true => cut += 1,
                false => whole += 1,
            }
        }
        assert!(whole > 10 && cut > 0, "{whole} {cut}");
    }
}
