//! A chapter of docs/connect.md as steps: words and blocks, in their order.

use crate::support::source::root;

/// A part of a step.
#[derive(Debug)]
pub(crate) enum StepPart {
    /// A paragraph, its lines joined.
    Words(String),
    /// A block with its language.
    Block(String, Vec<String>),
}

/// Returns the steps of the chapter with this heading.
pub(crate) fn steps(heading: &str) -> Vec<Vec<StepPart>> {
    let document = std::fs::read_to_string(root().join("docs/connect.md")).unwrap();
    let chapter = document.lines().skip_while(|line| *line != heading).skip(1);
    let mut steps: Vec<Vec<StepPart>> = Vec::new();
    let mut block: Option<(String, Vec<String>)> = None;
    let mut is_in_step = false;
    for line in chapter.take_while(|line| !line.starts_with('#')) {
        if let Some(words) = numbered(line) {
            steps.push(vec![StepPart::Words(words.to_owned())]);
            is_in_step = true;
            continue;
        }
        is_in_step &= line.is_empty() || line.starts_with("   ");
        let Some(step) = steps.last_mut().filter(|_| is_in_step) else {
            continue;
        };
        let text = line.strip_prefix("   ").unwrap_or_default();
        match (&mut block, text.strip_prefix("```")) {
            (None, Some(language)) => block = Some((language.to_owned(), Vec::new())),
            (Some(_), Some(_)) => {
                let (language, lines) = block.take().unwrap();
                step.push(StepPart::Block(language, lines));
            }
            (Some((_, lines)), None) => lines.push(text.to_owned()),
            (None, None) => add_words(step, text),
        }
    }
    assert!(block.is_none(), "a block of `{heading}` does not end");
    assert!(steps.len() > 3, "the steps of `{heading}` were read: {steps:?}");
    steps
}

/// Returns the words of the first line of a step.
fn numbered(line: &str) -> Option<&str> {
    let (number, words) = line.split_once(". ")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(words)
}

fn add_words(step: &mut Vec<StepPart>, text: &str) {
    match step.last_mut() {
        Some(StepPart::Words(words)) => {
            words.push(' ');
            words.push_str(text);
        }
        Some(StepPart::Block(..)) | None if text.is_empty() => {}
        Some(StepPart::Block(..)) | None => step.push(StepPart::Words(text.to_owned())),
    }
}
