//! The question whether to create a schedule. It is one message, because its buttons belong to all of it.

use crate::base::config::Config;
use crate::base::model::{Button, Reply, ReplyPart, ScheduleDefinition, cut_after, cut_to};
use crate::engine::gateway::compose::Address;
use serde::{Deserialize, Serialize};

/// The most characters of the times as they were written.
const WHEN_SHOWN_MAX: usize = 200;

/// The schedule that a person is asked about.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ScheduleOffer {
    pub(super) name: String,
    pub(super) definition: ScheduleDefinition,
}

impl ScheduleOffer {
    /// Returns the question with its next times and its buttons. Of words that are too long for one message, it shows the beginning.
    pub(super) fn question(
        &self,
        times: &str,
        buttons: &[Button],
        address: &Address,
        config: &Config,
    ) -> Reply {
        let with_words = |words: &str| {
            Reply::text(self.text(words, times)).with(ReplyPart::Buttons {
                buttons: buttons.to_vec(),
            })
        };
        let words = &self.definition.words;
        let whole = with_words(words);
        if address.fits(config, &whole, 1) {
            return whole;
        }
        let (mut kept, mut too_many) = (0, words.chars().count());
        while kept + 1 < too_many {
            let middle = usize::midpoint(kept, too_many);
            match address.fits(config, &with_words(&cut_after(words, middle)), 1) {
                true => kept = middle,
                false => too_many = middle,
            }
        }
        with_words(&cut_after(words, kept))
    }

    fn text(&self, words: &str, times: &str) -> String {
        let ScheduleDefinition {
            when,
            zone,
            repository,
            quiet,
            ..
        } = &self.definition;
        let result = match quiet {
            true => "The result comes to this chat, if something changes or fails.",
            false => "The result comes to this chat.",
        };
        format!(
            "Schedule `{}`: {}, in the time zone {zone}. The next times are {times}. Then I am asked for you, with your \
             grants at that time, in `{repository}`: {words}\n{result} Nothing is created yet.",
            self.name,
            cut_to(when, WHEN_SHOWN_MAX)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::ScheduleOffer;
    use crate::base::model::{Button, ButtonStyle, MissedRule, ReplyPart, ScheduleDefinition};
    use crate::engine::gateway::compose::Address;
    use crate::engine::gateway::fixture::{address, config};

    /// Returns the offer of a schedule whose words are so many times a letter that nothing else in the question has.
    fn offer(letters: usize) -> ScheduleOffer {
        ScheduleOffer {
            name: "images".to_owned(),
            definition: ScheduleDefinition {
                when: "daily 09:00".to_owned(),
                zone: "UTC".to_owned(),
                words: "q".repeat(letters),
                repository: "infra".to_owned(),
                channel: "team".to_owned(),
                place: address().place,
                missed: MissedRule::Once,
                quiet: false,
                pipeline: None,
            },
        }
    }

    #[test]
    fn the_question_about_a_schedule_is_one_message_however_long_its_words_are() {
        let config = config();
        let times = "Sat 21 Nov 2026 09:00, Sun 22 Nov 2026 09:00, Mon 23 Nov 2026 09:00 (Europe/Berlin)";
        let buttons = [
            Button::new("Create", "one", ButtonStyle::Primary),
            Button::new("Cancel", "other", ButtonStyle::Plain),
        ];
        assert_eq!(config.channels.len(), 3);
        for (channel, settings) in &config.channels {
            let to = Address {
                channel: channel.clone(),
                ..address()
            };
            let limit = settings.common().platform().message_chars_max();
            let lengths = (limit / 2..=limit).step_by(limit / 20).chain([4 * limit]);
            let (mut whole, mut cut) = (0, 0);
            for letters in lengths {
                let offer = offer(letters);
                let question = offer.question(times, &buttons, &to, &config);
                assert!(to.fits(&config, &question, 1), "{channel}: {letters}");
                assert!(
                    matches!(question.parts.last(), Some(ReplyPart::Buttons { buttons }) if buttons.len() == 2)
                );
                let text = question.plain();
                assert!(text.ends_with("Nothing is created yet.\n"), "{text}");
                let kept = text.matches('q').count();
                assert!(kept >= limit / 2, "{channel}: {kept} of {letters}");
                match text.contains("q…\n") {
                    true => cut += 1,
                    false => whole += 1,
                }
                assert_eq!(
                    kept < letters,
                    text.contains("q…\n"),
                    "{channel}: {kept} of {letters}"
                );
            }
            assert!(whole > 0 && cut > 1, "{channel}: {whole} {cut}");
        }
    }
}
