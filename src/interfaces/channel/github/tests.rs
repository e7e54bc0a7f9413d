//! Tests of comments as GitHub reads them: the source is parsed by the rules of its Markdown.

use super::render::render;
use super::{BODY_CHARS_MAX, CUT, MARK, comment, comment_channel, is_for_comments, is_own_comment, mark};
use crate::base::config::ServerSettings;
use crate::base::model::{Reply, ReplyPart, Secret};
use crate::base::webhook::{GithubCommentSettings, GithubIssue};
use proptest::prelude::{ProptestConfig, any, proptest};
use pulldown_cmark::{Event, Options, Parser, Tag};

fn markdown(text: &str) -> Reply {
    Reply {
        parts: vec![ReplyPart::Markdown {
            text: text.to_owned(),
        }],
    }
}

/// Returns what would have an effect beyond the text: markup of HTML, images and links.
fn effects(source: &str) -> Vec<String> {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    let events = Parser::new_ext(source, options);
    let effects = events.filter_map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(text.to_string()),
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        Event::Start(Tag::Table(_)) | Event::FootnoteReference(_) => Some("table or note".to_owned()),
        _ => None,
    });
    effects.collect()
}

#[test]
fn the_markdown_of_a_model_is_shown_without_its_effects() {
    let source = "# Review\n\nAsk @team about **#12**, see [this](https://evil.example/x) ![i](https://evil.example/y).\n\n\
                  - first `web:1.9.0`\n- second\n\n  ```yaml\n  a: 1\n  /lgtm\n  ```\n\n> Fixes #3\n\n<img src=x> <!-- drydock:run-1-2 -->";
    let shown = render(&markdown(source), &[]);
    assert_eq!(effects(&shown), Vec::<String>::new(), "{shown}");
    for words in [
        "# Review",
        "@\u{200b}team",
        "**\\#\u{200b}12**",
        "`hxxps://evil.example/x`",
        "- first `web:1.9.0`",
        "   ```yaml\n   a: 1\n   /lgtm\n   ```",
        "> Fixes #\u{200b}3",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(!shown.contains("<!--") && !shown.contains("@team"), "{shown}");
    let linked = render(
        &markdown("[this](https://grafana.example.com/d)"),
        &["grafana.example.com".to_owned()],
    );
    assert_eq!(effects(&linked), ["https://grafana.example.com/d"]);
}

#[test]
fn a_long_text_is_cut_with_a_line_and_never_inside_a_fence() {
    let server = ServerSettings::default();
    let code = format!(
        "Before.\n\n```yaml\n{}```\n\nAfter.",
        "key: value\n".repeat(9_000)
    );
    for text in [
        "word ".repeat(20_000),
        "ä".repeat(90_000),
        code,
        "@team #1 ".repeat(9_000),
    ] {
        let shown = render(&comment(&server, &text), &[]);
        let count = shown.chars().count();
        assert!(count < BODY_CHARS_MAX - 200, "{count}");
        assert!(
            shown.ends_with(CUT),
            "{}",
            shown.chars().rev().take(80).collect::<String>()
        );
        let fences = shown
            .lines()
            .filter(|line| line.trim_start().starts_with("```"))
            .count();
        assert_eq!(fences % 2, 0);
    }
    let short = comment(&server, "Done.");
    assert_eq!(short, markdown("Done."));
    assert_eq!(render(&comment(&server, " "), &[]), "(nothing to show)");
}

#[test]
fn the_channel_of_a_hook_has_a_name_that_no_configured_channel_has() {
    assert_eq!(comment_channel("ci"), "hook:ci");
    assert!(is_for_comments(&comment_channel("ci")));
    assert!(!is_for_comments("ci") && !is_for_comments("hook"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_has_an_effect(text in "[a-z@#<>!\\[\\]()`*_~|&$:/.\\\\ \n-]{0,80}", plain in any::<bool>()) {
        let part = match plain {
            true => ReplyPart::Text { text: text.clone() },
            false => ReplyPart::Markdown { text: text.clone() },
        };
        let shown = render(&Reply { parts: vec![part] }, &[]);
        assert_eq!(effects(&shown), Vec::<String>::new(), "{text:?}: {shown:?}");
    }
}

#[test]
fn a_comment_is_an_own_one_only_with_the_mark_of_its_token_and_its_place_at_the_end() {
    let settings = |token: &str| GithubCommentSettings {
        token: Secret::new(token.to_owned()),
        api_base_url: String::new(),
    };
    let is_own = |token: &str, issue: &str, body: &str| {
        let issue = GithubIssue::parse(issue).unwrap();
        is_own_comment(&settings(token), &issue, body)
    };
    let signed = mark(&settings("a token").token, "acme/web#7", "run-1-2/reply-1");
    let own = format!("Done.\n\n{signed}");
    assert!(is_own("a token", "acme/web#7", &own));
    assert!(is_own("a token", "acme/web#7", &format!("{own}\r\n")));
    assert!(!is_own("another token", "acme/web#7", &own));
    assert!(!is_own("a token", "acme/web#8", &own));
    for body in [
        String::new(),
        "Done.".to_owned(),
        MARK.to_owned(),
        format!("{MARK}run-1-2 -->"),
        format!("{MARK}run-1-2 00112233445566778899aabbccddeeff -->"),
        own.replace("run-1-2", "run-1-3"),
        format!("{own}\n\nThat is wrong."),
        format!("{own} {MARK}"),
    ] {
        assert!(!is_own("a token", "acme/web#7", &body), "{body}");
    }
}
