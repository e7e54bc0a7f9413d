//! The mentions and links that Slack would create from a text: the users it would notify, and the addresses it would
//! link. All surfaces of a message are read, as in Slack.

use serde_json::Value;

/// A mention or link that Slack would act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mention {
    /// `<@U…>`: notifies a user.
    User(String),
    /// `<#C…>`: links a channel.
    Channel(String),
    /// `<!subteam^S…>`: notifies a group.
    Group(String),
    /// `<!channel>`, `<!here>`, `<!everyone>`: notifies all users.
    Broadcast(String),
    /// A clickable address.
    Link(String),
}

/// Returns all mentions of a text in Slack's markup.
pub(super) fn mentions_in_markup(text: &str) -> Vec<Mention> {
    let mut mentions = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        rest = after;
        let Some((token, after_token)) = after.split_once('>') else {
            continue;
        };
        if let Some(mention) = mention_in_token(token) {
            mentions.push(mention);
            rest = after_token;
        }
    }
    mentions
}

/// Returns the names and bare addresses that Slack finds in a text that it parses.
pub(super) fn mentions_in_parsed_text(text: &str) -> Vec<Mention> {
    text.split(|character: char| character.is_whitespace() || "<>()\"'".contains(character))
        .filter_map(|word| match word.trim_end_matches(['.', ',', '!', '?', ':']) {
            "@channel" | "@here" | "@everyone" => Some(Mention::Broadcast(word.to_owned())),
            word if word.starts_with("http://") || word.starts_with("https://") => {
                Some(Mention::Link(word.to_owned()))
            }
            _ => None,
        })
        .collect()
}

/// Returns all mentions of the blocks of a message.
pub(super) fn mentions_in_blocks(blocks: &Value) -> Vec<Mention> {
    let mut mentions = Vec::new();
    walk(blocks, &mut |node| mentions.extend(mentions_in_node(node)));
    mentions
}

/// Returns the text that a user reads in one block. The marks of Slack's markup, such as `*`, are kept.
pub(super) fn visible(block: &Value) -> String {
    if let Some(children) = block["child_blocks"].as_array() {
        let title = text(&block["title"]).to_owned();
        let lines = std::iter::once(title).chain(children.iter().map(visible));
        return lines.collect::<Vec<_>>().join("\n");
    }
    if kind(block) == "plan" {
        let title = block["title"].as_str().unwrap_or_default().to_owned();
        let lines = std::iter::once(title).chain(task_lines(block));
        return lines.collect::<Vec<_>>().join("\n");
    }
    let mut shown = String::new();
    walk(block, &mut |node| match kind(node) {
        "text" | "plain_text" | "markdown" => shown.push_str(text(node)),
        "mrkdwn" => shown.push_str(&unescaped(text(node))),
        "link" => shown.push_str(node["text"].as_str().or(node["url"].as_str()).unwrap_or_default()),
        "user" => shown.push_str(&format!("<@{}>", node["user_id"].as_str().unwrap_or_default())),
        _ => {}
    });
    shown
}

/// Returns the tasks of a plan as lines. A sign stands for the icon of a state.
pub fn task_lines(plan: &Value) -> Vec<String> {
    let tasks = plan["tasks"].as_array().into_iter().flatten().map(|task| {
        let sign = match task["status"].as_str() {
            Some("in_progress") => '…',
            Some("complete") => '✓',
            Some("error") => '✗',
            Some(_) | None => '○',
        };
        format!("{sign} {}", task["title"].as_str().unwrap_or_default())
    });
    tasks.collect()
}

/// Visits each object, parents first, in the order of arrays. Recursion is bounded because serde_json, which parsed
/// the value, limits the depth.
pub(super) fn walk<'a>(value: &'a Value, visit: &mut impl FnMut(&'a Value)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
        Value::Object(fields) => {
            visit(value);
            for name in [
                "text",
                "title",
                "fields",
                "elements",
                "rows",
                "child_blocks",
                "tasks",
                "details",
                "output",
            ] {
                if let Some(field) = fields.get(name) {
                    walk(field, visit);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn mentions_in_node(node: &Value) -> Vec<Mention> {
    let named = |field: &str| node[field].as_str().unwrap_or_default().to_owned();
    match kind(node) {
        "mrkdwn" if node["verbatim"] == true => mentions_in_markup(text(node)),
        "mrkdwn" => [
            mentions_in_markup(text(node)),
            mentions_in_parsed_text(text(node)),
        ]
        .concat(),
        // Slack documents no option of streamed Markdown against names and links.
        "markdown" => [
            mentions_in_markup(text(node)),
            mentions_in_parsed_text(text(node)),
        ]
        .concat(),
        "user" => vec![Mention::User(named("user_id"))],
        "channel" => vec![Mention::Channel(named("channel_id"))],
        "usergroup" => vec![Mention::Group(named("usergroup_id"))],
        "broadcast" => vec![Mention::Broadcast(named("range"))],
        "link" => vec![Mention::Link(named("url"))],
        _ => Vec::new(),
    }
}

fn mention_in_token(token: &str) -> Option<Mention> {
    let target = token.split('|').next().unwrap_or_default();
    if let Some(id) = target.strip_prefix('@') {
        return is_id(id).then(|| Mention::User(id.to_owned()));
    }
    if let Some(id) = target.strip_prefix('#') {
        return is_id(id).then(|| Mention::Channel(id.to_owned()));
    }
    if let Some(special) = target.strip_prefix('!') {
        return match special.split_once('^') {
            Some(("subteam", id)) => Some(Mention::Group(id.to_owned())),
            Some(_) => None,
            None => ["channel", "here", "everyone"]
                .contains(&special)
                .then(|| Mention::Broadcast(special.to_owned())),
        };
    }
    (target.contains("://") || target.starts_with("mailto:")).then(|| Mention::Link(target.to_owned()))
}

fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn kind(node: &Value) -> &str {
    node["type"].as_str().unwrap_or_default()
}

fn text(node: &Value) -> &str {
    node["text"].as_str().unwrap_or_default()
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::{Mention, mentions_in_blocks, mentions_in_markup};
    use serde_json::json;

    #[test]
    fn every_form_of_mention_is_seen() {
        let text =
            "<!channel> <!here> <!everyone> <@U1> <@U2|bob> <#C1|ops> <!subteam^S1> <https://a.example|x>";
        assert_eq!(
            mentions_in_markup(text),
            vec![
                Mention::Broadcast("channel".to_owned()),
                Mention::Broadcast("here".to_owned()),
                Mention::Broadcast("everyone".to_owned()),
                Mention::User("U1".to_owned()),
                Mention::User("U2".to_owned()),
                Mention::Channel("C1".to_owned()),
                Mention::Group("S1".to_owned()),
                Mention::Link("https://a.example".to_owned()),
            ]
        );
        assert_eq!(mentions_in_markup("&lt;!channel&gt; < @U1> <b> <"), vec![]);
        assert_eq!(
            mentions_in_markup("< <@U1>"),
            vec![Mention::User("U1".to_owned())]
        );
    }

    #[test]
    fn rich_text_is_literal_but_its_own_elements_are_not() {
        let blocks = json!([
            {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
                {"type": "text", "text": "<!channel>"}, {"type": "user", "user_id": "U1"},
                {"type": "broadcast", "range": "here"}]}]},
            {"type": "section", "text": {"type": "mrkdwn", "text": "<@U2> at https://a.example"}},
        ]);
        assert_eq!(
            mentions_in_blocks(&blocks),
            vec![
                Mention::User("U1".to_owned()),
                Mention::Broadcast("here".to_owned()),
                Mention::User("U2".to_owned()),
                Mention::Link("https://a.example".to_owned()),
            ]
        );
    }
}
