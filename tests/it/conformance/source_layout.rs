//! The layout of generated sources: whitespace and comments between the tokens.

use super::random::SourceRandom;

/// Returns the tokens with whitespace or comments between them.
pub(super) fn lay_out(tokens: Vec<String>, gap: usize, mut random: SourceRandom) -> String {
    let mut text = String::new();
    if random.one_in(12) {
        text.push_str("#!/usr/bin/env jsonnet\n");
    }
    for token in tokens {
        let word = |char: char| char.is_alphanumeric() || char == '_' || char == '.';
        let symbol = |char: char| "!$:~+-&|^=<>*/%".contains(char);
        let last = text.chars().next_back().unwrap_or(' ');
        let first = token.chars().next().unwrap_or(' ');
        let apart = (word(last) && word(first)) || (symbol(last) && symbol(first));
        match random.one_in(gap) {
            true => put_between(&mut random, &mut text),
            false if apart || random.one_in(2) => text.push(' '),
            false => {}
        }
        let last = text.chars().next_back().unwrap_or(' ');
        if (word(last) && word(first)) || (symbol(last) && symbol(first)) {
            text.push(' ');
        }
        text.push_str(&token);
    }
    put_between(&mut random, &mut text);
    text
}

fn put_between(random: &mut SourceRandom, text: &mut String) {
    for _ in 0..1 + random.below(5) / 3 {
        text.push_str(random.pick(&[
            "\n",
            "\n",
            "\n  ",
            "\n\n",
            "\n\n\n\n\n\t",
            " // line\n",
            " # hash  \n\n\n\n",
            "\n// above\n",
            "\n  # above\n\n",
            "\n#! not first\n",
            " /* inside */ ",
            "/* tight */",
            "\n/* several\n * lines\n */\n",
            "\n   /* several\n      lines\n\n      more */ ",
            " /* ends */\r\n",
        ]));
    }
}
