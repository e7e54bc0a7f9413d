//! The link policy for Markdown. Chat clients fetch or open anything that looks like an address, so an address chosen
//! by the model could leak data. Therefore only links to hosts that the operator lists are clickable.

use super::{Inline, SpanStyle};
use regex::Regex;
use std::sync::LazyLock;

static ADDRESS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"[A-Za-z][A-Za-z0-9+.\-]{0,30}://[^\s<>"`]*"#).ok());

/// Returns the address if a link to it is allowed.
fn allowed(address: &str, link_hosts: &[String]) -> Option<String> {
    let url = reqwest::Url::parse(address).ok()?;
    let host = url.host_str()?;
    let listed = link_hosts.iter().any(|listed| listed.eq_ignore_ascii_case(host));
    let plain = url.scheme() == "https"
        && url.username().is_empty()
        && url.password().is_none()
        && url.port().is_none()
        && !address.contains(['\\', '|', '<', '>']);
    (listed && plain).then(|| url.to_string())
}

/// Returns an address that no client opens: `https` becomes `hxxps`.
pub(super) fn defanged(address: &str) -> String {
    match address.split_once("://") {
        Some((scheme, rest)) if scheme.to_ascii_lowercase().starts_with("http") => {
            let secure: String = scheme.chars().skip(4).collect();
            format!("hxxp{secure}://{rest}")
        }
        Some(_) | None => address.to_owned(),
    }
}

/// Renders a link of the Markdown source. If the policy does not allow it, the result is its label followed by its
/// address as code. A label that looks like an address must be the address.
pub(super) fn link(label: &str, address: &str, style: SpanStyle, link_hosts: &[String]) -> Vec<Inline> {
    match allowed(address, link_hosts) {
        Some(url) if !looks_like_address(label) || is_same_address(label, &url) => vec![Inline::Link {
            label: if label.is_empty() {
                url.clone()
            } else {
                label.to_owned()
            },
            url,
            style,
        }],
        Some(_) | None => refused(label, address, style),
    }
}

/// Returns the text that replaces an image or a link that is not allowed.
pub(super) fn refused(label: &str, address: &str, style: SpanStyle) -> Vec<Inline> {
    let code = Inline::of_code(defanged(address), style);
    if label.is_empty() || label == address {
        return vec![code];
    }
    let text = |text| Inline::of_text(text, style);
    let mut inlines = inlines_of(label, style, &[]);
    inlines.extend([text(" ("), code, text(")")]);
    inlines
}

/// Returns plain text as inlines, with the same policy for the addresses in it.
pub(super) fn inlines_of(text: &str, style: SpanStyle, link_hosts: &[String]) -> Vec<Inline> {
    let mut inlines = Vec::new();
    let push_text = |inlines: &mut Vec<Inline>, text: &str| {
        if !text.is_empty() {
            inlines.push(Inline::of_text(text, style));
        }
    };
    let mut end = 0;
    for found in ADDRESS.iter().flat_map(|address| address.find_iter(text)) {
        let address = found
            .as_str()
            .trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'', '*', '_']);
        // After the trimming, `https://` alone still has its slashes.
        push_text(&mut inlines, text.get(end..found.start()).unwrap_or_default());
        inlines.push(match allowed(address, link_hosts) {
            Some(url) => Inline::Link {
                label: address.to_owned(),
                url,
                style,
            },
            None => Inline::of_code(defanged(address), style),
        });
        end = found.start() + address.len();
    }
    push_text(&mut inlines, text.get(end..).unwrap_or_default());
    inlines
}

fn looks_like_address(label: &str) -> bool {
    let label = label.trim();
    let domain_like = label
        .split(['/', '?', '#', ':'])
        .next()
        .is_some_and(|host| host.contains('.') && !host.contains(char::is_whitespace) && is_domain(host));
    label.contains("://") || label.starts_with("www.") || label.starts_with("//") || domain_like
}

fn is_domain(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    // `main.jsonnet` is a file name, but it could also be a domain, so it counts as one.
    last.chars().count() >= 2 && last.chars().all(char::is_alphabetic)
}

fn is_same_address(label: &str, url: &str) -> bool {
    let bare = |address: &str| {
        let address = address.trim().trim_end_matches('/');
        address.strip_prefix("https://").unwrap_or(address).to_owned()
    };
    bare(label) == bare(url)
}
