//! Characters nobody sees.

/// Can this character be in a text without anybody seeing it? Tab and line ends are not meant, nor
/// the one variation selector that emoji carry.
pub fn is_invisible(character: char) -> bool {
    match character {
        '\t' | '\n' | '\u{fe0f}' => false,
        // Soft hyphen, joiners, fillers and directional marks.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' => true,
        // Line and paragraph separators, embeddings, overrides and isolates.
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => true,
        // Variation selectors and tags can spell whole sentences.
        '\u{fe00}'..='\u{fe0e}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => character.is_control(),
    }
}
