//! `[hooks.<name>]`: signed webhooks that prepare a change.

use crate::base::config::reader::SettingsReader;
use crate::base::config::secret_pair::previous_secret;
use crate::base::model::{RepoPath, Role};
use crate::base::webhook::{GithubCommentSettings, Grants, HookChange, HookScheme, HookSettings, PostTo};
use std::collections::BTreeMap;

/// The maximum number of fields that one hook may read from a payload.
const FIELDS_MAX: usize = 32;
/// The address of GitHub's API.
const GITHUB_API: &str = "https://api.github.com";
/// The maximum number of characters of a JSON pointer.
const POINTER_CHARS_MAX: usize = 256;

/// Reads all hooks.
pub(super) fn hooks(reader: &mut SettingsReader<'_>) -> BTreeMap<String, HookSettings> {
    refuse_shared_names(reader);
    let mut hooks = BTreeMap::new();
    for name in reader.names("hooks") {
        let section = format!("hooks.{name}");
        hooks.extend(hook(reader, &section).map(|hook| (name, hook)));
    }
    refuse_shared_secrets(reader, &hooks);
    hooks
}

/// Refuses a secret of hooks with different schemes. A delivery that is signed for one of them could be sent to the other, with
/// its signature in another header.
fn refuse_shared_secrets(reader: &mut SettingsReader<'_>, hooks: &BTreeMap<String, HookSettings>) {
    let mut first: BTreeMap<&str, (&str, HookScheme)> = BTreeMap::new();
    for (name, hook) in hooks {
        let secrets = [
            ("secret", Some(&hook.secret)),
            ("previous_secret", hook.previous_secret.as_ref()),
        ];
        for (key, secret) in secrets {
            let Some(secret) = secret else { continue };
            let known = first
                .entry(secret.expose())
                .or_insert((name.as_str(), hook.scheme));
            let (other, scheme) = *known;
            if scheme != hook.scheme {
                let why = format!(
                    "hooks.{other} has the same secret and another scheme; give each a secret of its own"
                );
                reader.problem(&format!("hooks.{name}.{key}"), why);
            }
        }
    }
}

/// Checks what the hooks require of the channels, and fetches no secret.
pub(super) fn check_channels(reader: &mut SettingsReader<'_>) {
    refuse_shared_names(reader);
    for name in reader.names("hooks") {
        post_channel(reader, &format!("hooks.{name}"));
    }
}

fn refuse_shared_names(reader: &mut SettingsReader<'_>) {
    let channels = reader.names("channels");
    for name in reader.names("hooks").intersection(&channels) {
        let why = "a channel has this name, and both would use the address /in/<name>; rename one of them";
        reader.problem(&format!("hooks.{name}"), why);
    }
}

/// Returns the channel in which the results of a hook are posted.
fn post_channel(reader: &mut SettingsReader<'_>, section: &str) -> Option<String> {
    reader.reference(&format!("{section}.post_to.channel"), "channels")
}

fn hook(reader: &mut SettingsReader<'_>, section: &str) -> Option<HookSettings> {
    let scheme = scheme(reader, section);
    let events_key = format!("{section}.events");
    let refusal = scheme.and_then(|scheme| scheme.definition().event_refusal);
    if reader.is_set(&events_key) && scheme.is_some() && refusal.is_none() {
        let schemes = words(|scheme| scheme.definition().event_refusal.is_some());
        let why = format!("is only for scheme = {schemes}; others do not name their events");
        reader.problem(&events_key, why);
    }
    let secret_key = format!("{section}.secret");
    let secret = reader.secret(&secret_key);
    let previous_secret = previous_secret(reader, &secret_key, secret.as_ref());
    let events = refusal.map_or_else(Vec::new, |refusal| events(reader, &events_key, refusal));
    let sources = reader.list(&format!("{section}.sources"));
    let repository = reader.reference(&format!("{section}.repository"), "repositories");
    let prompt_key = format!("{section}.prompt");
    let prompt = reader.text(&prompt_key);
    if prompt
        .as_deref()
        .is_some_and(|prompt| RepoPath::parse(prompt).is_err())
    {
        reader.problem(
            &prompt_key,
            "expected a path inside the repository, such as .drydock/release.md",
        );
    }
    let fields = fields(reader, section);
    let starts_pipelines = reader.boolean(&format!("{section}.pipelines"));
    let comments = comments(reader, section, scheme);
    let changes = [("new", HookChange::New), ("continue", HookChange::Continue)];
    let change = reader.choice(&format!("{section}.change"), &changes);
    let channel = post_channel(reader, section);
    let chat = reader.text(&format!("{section}.post_to.chat"));
    let grants = grants(reader, section);
    Some(HookSettings {
        scheme: scheme?,
        secret: secret?,
        previous_secret,
        events,
        sources,
        repository: repository?,
        prompt: prompt?,
        fields,
        starts_pipelines,
        // A refused value makes loading fail, so this default is never used.
        change: change.unwrap_or(HookChange::New),
        comments,
        post_to: PostTo {
            channel: channel?,
            chat: chat?,
        },
        grants,
    })
}

/// Returns the access to GitHub's API, if the hook has a token for it.
fn comments(
    reader: &mut SettingsReader<'_>,
    section: &str,
    scheme: Option<HookScheme>,
) -> Option<GithubCommentSettings> {
    let (token_key, url_key) = (format!("{section}.github_token"), format!("{section}.github_url"));
    for key in [&token_key, &url_key] {
        if reader.is_set(key) && scheme.is_some_and(|scheme| scheme != HookScheme::Github) {
            reader.problem(key, "is only for scheme = \"github\"");
        }
    }
    if reader.is_set(&url_key) && !reader.is_set(&token_key) {
        reader.problem(&url_key, "is only used with github_token");
    }
    let url = reader.url(&url_key);
    Some(GithubCommentSettings {
        token: reader.secret(&token_key)?,
        api_base_url: url.map_or(GITHUB_API.to_owned(), |url| url.as_str().to_owned()),
    })
}

/// Returns the entries of `events`. An entry that can never match is refused, because it would silently drop every
/// delivery.
fn events(
    reader: &mut SettingsReader<'_>,
    key: &str,
    refusal: fn(entry: &str) -> Option<String>,
) -> Vec<String> {
    let events = reader.list(key);
    for (index, entry) in events.iter().enumerate() {
        if let Some(why) = refusal(entry) {
            reader.problem(key, format!("entry {} {why}", index + 1));
        }
    }
    events
}

fn scheme(reader: &mut SettingsReader<'_>, section: &str) -> Option<HookScheme> {
    let key = format!("{section}.scheme");
    let replayable_key = format!("{section}.allow_replayable");
    let allow_replayable = reader.boolean(&replayable_key);
    let schemes: Vec<(&str, HookScheme)> = HookScheme::ALL
        .iter()
        .map(|scheme| (scheme.definition().word, *scheme))
        .collect();
    let scheme = reader.choice(&key, &schemes)?;
    let definition = scheme.definition();
    if definition.is_replayable && !allow_replayable && !reader.refused(&replayable_key) {
        let why = format!(
            "{} deliveries carry no time, so old ones can be sent again; use generic, or set allow_replayable = true",
            definition.word
        );
        reader.problem(&key, why);
    }
    if !definition.is_replayable && allow_replayable {
        let schemes = words(|scheme| scheme.definition().is_replayable);
        reader.problem(&replayable_key, format!("is only for scheme = {schemes}"));
    }
    Some(scheme)
}

/// Returns the words of some schemes, quoted.
fn words(is_meant: fn(HookScheme) -> bool) -> String {
    let schemes = HookScheme::ALL.iter().filter(|scheme| is_meant(**scheme));
    let words = schemes.map(|scheme| format!("\"{}\"", scheme.definition().word));
    words.collect::<Vec<_>>().join(" or ")
}

fn fields(reader: &mut SettingsReader<'_>, section: &str) -> BTreeMap<String, String> {
    let section = format!("{section}.fields");
    let names = reader.keys_in(&section);
    if names.len() > FIELDS_MAX {
        reader.problem(&section, format!("a hook has at most {FIELDS_MAX} fields"));
    }
    let mut fields = BTreeMap::new();
    for name in names.into_iter().take(FIELDS_MAX) {
        let key = format!("{section}.{name}");
        let Some(pointer) = reader.text(&key) else {
            continue;
        };
        if !is_pointer(&pointer) {
            reader.problem(&key, "expected a JSON pointer, such as /release/tag_name");
        }
        fields.insert(name, pointer);
    }
    fields
}

/// Returns true if a text is a JSON pointer of RFC 6901, with `~` only as `~0` and `~1`.
fn is_pointer(text: &str) -> bool {
    let mut escapes = text.split('~').skip(1);
    text.starts_with('/')
        && text.chars().count() <= POINTER_CHARS_MAX
        && escapes.all(|rest| rest.starts_with(['0', '1']))
}

/// Reads the grants of a service identity.
pub(super) fn grants(reader: &mut SettingsReader<'_>, section: &str) -> Grants {
    let roles = [("viewer", Role::Viewer), ("editor", Role::Editor)];
    let role = reader.choice(&format!("{section}.grants.role"), &roles);
    let key = format!("{section}.grants.environments");
    let environments = reader.list(&key);
    if environments.is_empty() && !reader.refused(&key) {
        reader.problem(
            &key,
            "an empty list allows nothing; name environments, or use role = \"viewer\"",
        );
    }
    let is_glob = |glob: &String| globset::Glob::new(glob).is_ok();
    // Thousands of sections may have the default, whose globs are known.
    if reader.is_set(&key) && !environments.iter().all(is_glob) {
        reader.problem(&key, "expected globs, such as environments/dev*");
    }
    Grants {
        // A refused value makes loading fail, so this default is never used.
        role: role.unwrap_or(Role::Viewer),
        environments,
    }
}
