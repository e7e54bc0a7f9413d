//! Pieces of words that the model is still writing: whole lines and sentences, so that a piece can stand alone.

/// The ends of sentences.
const SENTENCE_ENDS: [char; 5] = ['.', '!', '?', ':', ';'];
/// The beginnings of lines with a form of their own, which is not cut: items, headings, quotations and tables.
const FORMS: [char; 6] = ['-', '*', '+', '#', '>', '|'];

/// Returns the end of the words after `start` that can be shown: the last end of a line or of a sentence that is in no
/// block of code. It is `start` if there is none.
pub(super) fn next_piece(words: &str, start: usize) -> usize {
    let mut end = start;
    let mut is_code = false;
    let mut at = 0;
    for line in words.split_inclusive('\n') {
        let line_start = at;
        at += line.len();
        let is_fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        is_code ^= is_fence;
        if is_code || at <= start {
            continue;
        }
        let cut = match line.ends_with('\n') || is_fence {
            true => Some(line.len()),
            false => sentence_end(line),
        };
        end = end.max(line_start + cut.unwrap_or(0));
    }
    end
}

/// Returns the end of the last sentence of a line in which no span is cut.
fn sentence_end(line: &str) -> Option<usize> {
    let first = line.trim_start().chars().next()?;
    if FORMS.contains(&first) || first.is_ascii_digit() {
        return None;
    }
    let ends = line
        .char_indices()
        .rev()
        .filter(|(_, character)| SENTENCE_ENDS.contains(character));
    let mut ends = ends.map(|(at, character)| at + character.len_utf8());
    ends.find(|end| {
        let (sentence, rest) = line.split_at(*end);
        let is_open = |mark: &str| sentence.matches(mark).count() % 2 == 1;
        (rest.is_empty() || rest.starts_with(char::is_whitespace)) && !is_open("`") && !is_open("**")
    })
}

#[cfg(test)]
mod tests {
    use super::next_piece;

    #[test]
    fn pieces_are_whole_lines_and_sentences_and_never_a_part_of_a_span_or_of_code() {
        for (words, start, expected) in [
            ("I read main", 0, ""),
            ("I read main.jsonnet", 0, ""),
            ("I read it. Then", 0, "I read it."),
            ("I read it. Then", 10, ""),
            ("I read it. Then I go.", 10, " Then I go."),
            ("One. Two `a. b", 0, "One."),
            ("One. **Two. b", 0, "One."),
            ("One. `a. b` is two. c", 0, "One. `a. b` is two."),
            ("A list:\n- one. t", 0, "A list:\n"),
            ("A list:\n- one. two\n- thr", 8, "- one. two\n"),
            ("So:\n```\na. b\n", 0, "So:\n"),
            ("So:\n```\na. b\n```", 4, "```\na. b\n```"),
            ("So:\n```\na. b\n```\nDone. x", 4, "```\na. b\n```\nDone."),
            ("Größe: ä", 0, "Größe:"),
            ("", 0, ""),
        ] {
            let end = next_piece(words, start);
            assert_eq!(words.get(start..end), Some(expected), "{words}");
        }
    }
}
