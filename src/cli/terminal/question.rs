//! The text of a question of the model at a terminal.

use crate::base::model::AskedQuestion;

/// Returns the question, its choices with their numbers, and how to answer.
pub(super) fn question_menu(question: &AskedQuestion) -> String {
    let default = question.default_choice();
    let mut lines = vec![format!("The model asks: {}", question.text())];
    for (choice, number) in question.choices().iter().zip(1..) {
        let mark = match default == Some(choice) {
            true => " (default)",
            false => "",
        };
        lines.push(format!("  {number}. {choice}{mark}"));
    }
    lines.push(
        match (question.choices().is_empty(), default.is_some()) {
            (true, _) => "Type your answer. Ctrl-C stops the work.",
            (false, false) => "Type a number, or your own words. Ctrl-C stops the work.",
            (false, true) => {
                "Type a number, or your own words; Enter takes the default. Ctrl-C stops the work."
            }
        }
        .to_owned(),
    );
    lines.join("\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::question_menu;
    use crate::base::model::AskedQuestion;

    #[test]
    fn a_menu_numbers_the_choices_and_marks_the_default() {
        let choices = ["three".to_owned(), "five".to_owned()];
        let asked = AskedQuestion::new("How many?", &choices, Some("five"), 60).unwrap();
        assert_eq!(
            question_menu(&asked),
            "The model asks: How many?\n  1. three\n  2. five (default)\n\
             Type a number, or your own words; Enter takes the default. Ctrl-C stops the work."
        );
        let open = AskedQuestion::new("Who?", &[], None, 60).unwrap();
        assert_eq!(
            question_menu(&open),
            "The model asks: Who?\nType your answer. Ctrl-C stops the work."
        );
    }
}
