//! Messages of a person that arrived while their turn ran. They follow the results of a step, so calls and results stay
//! paired, and each request begins with the bytes of the previous one.

use super::Step;

impl Step {
    /// Adds messages of the person after the results, or after an answer without calls. Such an answer is then not
    /// final: the model reads the messages and answers again.
    #[must_use]
    pub fn with_messages(mut self, messages: Vec<String>) -> Self {
        self.bytes = self.bytes.with_messages(&messages);
        self.messages.extend(messages);
        self
    }

    /// Returns the person's messages after the step, in order.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::model::{Assistant, History, Step};

    fn answer(text: &str) -> Step {
        Step::new(Assistant::synthetic(text), Vec::new()).unwrap()
    }

    #[test]
    fn an_answer_with_a_message_behind_it_does_not_end_the_turn() {
        let mut history = History::default();
        history.begin("one").unwrap();
        let step = answer("done").with_messages(vec!["and two".to_owned()]);
        assert!(!step.is_final());
        history.push(step).unwrap();
        history.push(answer("both done")).unwrap();
        assert_eq!(history.turns()[0].steps().len(), 2);
        assert!(history.push(answer("late")).is_err());
    }

    #[test]
    fn messages_are_stored_with_their_step_and_count_in_its_size() {
        let plain = answer("done");
        let step = plain.clone().with_messages(vec!["and \"two\"".to_owned()]);
        let text = serde_json::to_string(&step).unwrap();
        let again: Step = serde_json::from_str(&text).unwrap();
        assert_eq!(again.messages(), ["and \"two\""]);
        assert_eq!(again.bytes(), step.bytes());
        assert_eq!(step.bytes(), plain.bytes() + step.words_bytes());
        // A step without messages is stored as before.
        assert!(!serde_json::to_string(&plain).unwrap().contains("messages"));
        assert_eq!(step.clone().trimmed().messages(), step.messages());
    }

    #[test]
    fn no_message_of_the_person_is_left_out_with_the_step_before_it() {
        let mut history = History::default();
        history.begin("one").unwrap();
        history
            .push(answer("a").with_messages(vec!["two".to_owned()]))
            .unwrap();
        history
            .push(answer("b").with_messages(vec!["three".to_owned()]))
            .unwrap();
        let turn = history.turns()[0].shortened(1, " [note]", |_, _, _| None);
        assert_eq!(turn.user(), "one [note]\n\ntwo");
        assert_eq!(turn.steps()[0].messages(), ["three"]);
    }
}
