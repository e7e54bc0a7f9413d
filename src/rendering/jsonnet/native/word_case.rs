//! The case conversion of the template functions `snakecase` and `kebabcase`: lowercase words with one separator
//! between them. The word boundaries equal those of the library that helm and Tanka use.

/// The class of a run of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CharClass {
    /// Lowercase letters and characters without case.
    Small,
    /// Capital letters, or one and the lowercase letters after it.
    Capital,
    Number,
    /// Separators between words. Each of them becomes the new separator.
    Separator,
    Punctuation,
    Other,
}

/// Returns the text in lowercase, with `sign` between its words.
pub(super) fn lowercase_words(text: &str, sign: char) -> String {
    let words = words(text);
    let kind = |at: usize| words.get(at).map(|(kind, _)| *kind);
    let mut out = String::with_capacity(text.len() + 8);
    let mut at = 0;
    while let Some((this, word)) = words.get(at) {
        write(&mut out, *this, word, sign);
        at += 1;
        match this {
            CharClass::Separator | CharClass::Punctuation => continue,
            // A number and the lowercase letters around it are one word.
            CharClass::Number => {
                while let Some((next @ (CharClass::Small | CharClass::Number), word)) = words.get(at) {
                    write(&mut out, *next, word, sign);
                    at += 1;
                }
            }
            CharClass::Small | CharClass::Capital | CharClass::Other => match (kind(at), kind(at + 1)) {
                // At the end of the text, a number belongs to the word before it.
                (Some(CharClass::Number), None) => continue,
                // Before lowercase letters, a number begins a word.
                (Some(CharClass::Number), Some(CharClass::Small)) => {}
                (Some(CharClass::Number), Some(_)) => {
                    write(
                        &mut out,
                        CharClass::Number,
                        words.get(at).map_or("", |(_, word)| word),
                        sign,
                    );
                    at += 1;
                }
                (_, _) => {}
            },
        }
        let next = kind(at);
        if next.is_some_and(|next| !matches!(next, CharClass::Separator | CharClass::Punctuation)) {
            out.push(sign);
        }
    }
    out
}

fn write(out: &mut String, kind: CharClass, word: &str, sign: char) {
    match kind {
        CharClass::Separator => out.extend(word.chars().map(|_| sign)),
        CharClass::Capital => out.extend(word.chars().flat_map(char::to_lowercase)),
        CharClass::Small | CharClass::Number | CharClass::Punctuation | CharClass::Other => {
            out.push_str(word)
        }
    }
}

fn words(text: &str) -> Vec<(CharClass, &str)> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let kind = char_class(first);
        let end = match kind {
            CharClass::Capital => capital_end(rest),
            // After other punctuation, separators count as punctuation as well.
            CharClass::Punctuation => end_of(rest, |character| {
                matches!(character, '-' | '_') || char_class(character) == CharClass::Punctuation
            }),
            kind => end_of(rest, |character| char_class(character) == kind),
        };
        let (word, after) = rest.split_at(end);
        words.push((kind, word));
        rest = after;
    }
    words
}

/// Returns the end of a capitalised word. `Http` ends before the next capital; in `HTTPServer` the last capital belongs
/// to the next word.
fn capital_end(text: &str) -> usize {
    let capitals = end_of(text, |character| char_class(character) == CharClass::Capital);
    let small = text.get(capitals..).map_or(0, |rest| {
        end_of(rest, |character| char_class(character) == CharClass::Small)
    });
    let last = text
        .get(..capitals)
        .and_then(|run| run.char_indices().next_back());
    match (small, last) {
        (1.., Some((0, _))) => capitals + small,
        (1.., Some((before_last, _))) => before_last,
        (_, _) => capitals,
    }
}

fn end_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|character| !belongs(character)).unwrap_or(text.len())
}

fn char_class(character: char) -> CharClass {
    match character {
        '-' | '_' => CharClass::Separator,
        space if space.is_whitespace() => CharClass::Separator,
        // Currency and arithmetic symbols do not count as punctuation.
        '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~' => CharClass::Other,
        sign if sign.is_ascii_punctuation() => CharClass::Punctuation,
        letter if letter.is_uppercase() => CharClass::Capital,
        letter if letter.is_alphabetic() => CharClass::Small,
        digit if digit.is_numeric() => CharClass::Number,
        _ => CharClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::lowercase_words;

    const RECORDED: &str = include_str!("testdata/snakecase.txt");

    #[test]
    fn words_end_where_the_library_of_helm_ends_them() {
        let mut count = 0;
        for line in RECORDED.lines() {
            let Some((text, expected)) = line.split_once('\t') else {
                continue;
            };
            assert_eq!(lowercase_words(text, '_'), expected, "{text:?}");
            count += 1;
        }
        assert!(count >= 400, "{count}");
    }
}
