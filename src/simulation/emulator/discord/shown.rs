//! The text that a reader sees of a message's content, its mentions and its links: the part of Discord's Markdown that
//! decides what untrusted text can do. See <https://docs.discord.com/developers/reference#message-formatting>.

/// The visible form of a content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownContent {
    /// The visible text.
    pub text: String,
    /// The people whom the content names.
    pub people: Vec<u64>,
    /// The other mentions: roles, channels, everybody, commands, times and emoji.
    pub other_mentions: Vec<String>,
    /// The addresses that can be opened.
    pub links: Vec<String>,
}

/// Returns the visible form of a content.
pub(super) fn shown(content: &str) -> ShownContent {
    let mut out = ShownContent::default();
    let mut rest = content;
    let mut at_line_start = true;
    while let Some(character) = rest.chars().next() {
        if at_line_start && let Some(after) = line_mark(rest) {
            rest = after;
            at_line_start = false;
            continue;
        }
        if let Some(after) = construct(rest, &mut out) {
            rest = after;
            at_line_start = false;
            continue;
        }
        at_line_start = character == '\n' || at_line_start && character == ' ';
        out.text.push(character);
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
    }
    out
}

/// Removes a mark of a line: small text, a quote or a heading.
fn line_mark(rest: &str) -> Option<&str> {
    ["-# ", "> ", ">>> ", "# ", "## ", "### "]
        .iter()
        .find_map(|mark| rest.strip_prefix(mark))
}

/// Reads what begins here, if it is more than a character. Returns the rest.
fn construct<'a>(rest: &'a str, out: &mut ShownContent) -> Option<&'a str> {
    if let Some(escaped) = rest.strip_prefix('\\') {
        let character = escaped.chars().next().filter(char::is_ascii_punctuation)?;
        out.text.push(character);
        return escaped.get(character.len_utf8()..);
    }
    if let Some(block) = rest.strip_prefix("```")
        && let Some((code, after)) = block.split_once("```")
    {
        let is_language = |line: &str| {
            line.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_+-.#".contains(&b))
        };
        let code = match code.split_once('\n') {
            Some((language, code)) if is_language(language) => code,
            _ => code,
        };
        out.text.push_str(code.trim_matches('\n'));
        return Some(after);
    }
    if let Some(code) = rest.strip_prefix('`')
        && let Some((code, after)) = code.split_once('`')
        && !code.is_empty()
    {
        out.text.push_str(code);
        return Some(after);
    }
    if let Some(marked) = rest.strip_prefix('<')
        && let Some((inside, after)) = marked.split_once('>')
    {
        return angle(inside, out).then_some(after);
    }
    if let Some(labelled) = rest.strip_prefix('[') {
        return link(labelled, out);
    }
    for scheme in ["https://", "http://"] {
        if let Some(address) = rest.strip_prefix(scheme) {
            let end = address
                .find(|c: char| c.is_whitespace() || c == '<')
                .unwrap_or(address.len());
            let (address, after) = address.split_at_checked(end)?;
            out.links.push(format!("{scheme}{address}"));
            out.text.push_str(scheme);
            out.text.push_str(address);
            return Some(after);
        }
    }
    for invite in ["discord.gg/", "discord.com/invite/"] {
        if let Some(after) = rest.strip_prefix(invite) {
            out.links.push(invite.to_owned());
            out.text.push_str(invite);
            return Some(after);
        }
    }
    for everybody in ["@everyone", "@here"] {
        if let Some(after) = rest.strip_prefix(everybody) {
            out.other_mentions.push(everybody.to_owned());
            out.text.push_str(everybody);
            return Some(after);
        }
    }
    ["**", "~~", "||", "__", "*", "_"].iter().find_map(|mark| {
        let after = rest.strip_prefix(mark)?;
        // A mark without a second one is shown. Marks that were opened before are closed here.
        Some(after)
    })
}

/// Reads what stands between angle brackets. Returns false if it is plain text.
fn angle(inside: &str, out: &mut ShownContent) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    if let Some(id) = inside
        .strip_prefix('@')
        .map(|id| id.trim_start_matches('!'))
        .and_then(number)
    {
        out.people.push(id);
        out.text.push_str(&format!("@{id}"));
        return true;
    }
    let is_other = ["@&", "#", ":", "a:", "t:", "/", "id:"]
        .iter()
        .any(|start| inside.starts_with(start));
    if is_other {
        out.other_mentions.push(inside.to_owned());
        out.text.push_str(inside);
        return true;
    }
    let is_link = inside.starts_with("https://") || inside.starts_with("http://");
    if is_link {
        out.links.push(inside.to_owned());
        out.text.push_str(inside);
    }
    is_link
}

/// Reads a link with a label, of which the bracket is already read.
fn link<'a>(labelled: &'a str, out: &mut ShownContent) -> Option<&'a str> {
    let mut end = None;
    let mut is_escaped = false;
    for (index, character) in labelled.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ']' => {
                end = Some(index);
                break;
            }
            _ => {}
        }
    }
    let (label, after) = labelled.split_at_checked(end?)?;
    let (address, after) = after.strip_prefix("](")?.split_once(')')?;
    let address = address.trim_start_matches('<').trim_end_matches('>');
    if !address.starts_with("https://") && !address.starts_with("http://") {
        return None;
    }
    out.links.push(address.to_owned());
    let label = shown(label);
    out.text.push_str(&label.text);
    out.people.extend(label.people);
    out.other_mentions.extend(label.other_mentions);
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::{ShownContent, shown};

    #[test]
    fn marks_are_not_shown_and_escaped_ones_are() {
        let content =
            "<@7> **bold** \\*not\\* `a*b` [docs](<https://docs.example.com/>)\n-# small\n```diff\n+ x\n```";
        let seen = shown(content);
        assert_eq!(seen.text, "@7 bold *not* a*b docs\nsmall\n+ x");
        assert_eq!(
            (seen.people, seen.links),
            (vec![7], vec!["https://docs.example.com/".to_owned()])
        );
        let hostile = shown("@everyone <@&5> https://a.b/c discord.gg/x <#4>");
        assert_eq!(hostile.other_mentions, ["@everyone", "@&5", "#4"]);
        assert_eq!(hostile.links, ["https://a.b/c", "discord.gg/"]);
        assert_eq!(shown("").text, ShownContent::default().text);
    }
}
