//! The content of the page of an admitted person. Nothing of another person is on it; only administrators see who else is
//! admitted.

use crate::base::model::{
    ChatPlace, Reply, ReplyPart, RequiredGrant, group_thousands, quoted, short_line, totals,
};
use crate::engine::agent::prompt;
use crate::engine::command::{self, Verb};
use crate::engine::gateway::change_view;
use crate::engine::gateway::parts::Parts;
use crate::engine::gateway::people;
use crate::engine::gateway::repositories::age;
use crate::engine::gateway::welcome::grant_scope;
use crate::state::access::{Grant, Identity, User};
use crate::state::store::{PersonChange, PersonChanges};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Maximum number of changes on a page.
const CHANGES_SHOWN_MAX: u32 = 10;
/// Maximum number of other people on the page of an administrator.
const PEOPLE_SHOWN_MAX: usize = 30;
/// Maximum number of grants of one person on a page.
const GRANTS_SHOWN_MAX: usize = 10;
/// Longest value of a row, in characters.
const VALUE_CHARS_MAX: usize = 300;
/// The commands that people use most, in the order of `help`.
const COMMANDS_SHOWN: [Verb; 7] = [
    Verb::Help,
    Verb::Status,
    Verb::Diff,
    Verb::Patch,
    Verb::Envs,
    Verb::Discard,
    Verb::Usage,
];
/// Requests of people who only ask, and of those who may change something.
const QUESTIONS: [&str; 2] = [
    "How do staging and prod differ?",
    "Which environments use lib/web.libsonnet?",
];
const CHANGE_REQUEST: &str = "Set the replicas of web to 4 in dev.";
const THIRD_QUESTION: &str = "What is the memory limit of web in prod?";

type Rows = Vec<(String, String)>;

/// Composes the page for a person. `place` is where it is shown.
pub(super) async fn compose(
    parts: &Parts,
    identity: &Identity,
    place: &ChatPlace,
    at: Timestamp,
) -> anyhow::Result<Reply> {
    let changes = parts.store.changes_of(identity.user(), CHANGES_SHOWN_MAX).await?;
    let users = parts.access.users().await?;
    let usage = parts.usage_today(identity, at).await?;
    let mut page = vec![text(
        "I prepare changes for review: a summary, the diff, checks and a patch. I never apply, commit or push.",
    )];
    page.extend(open_changes(parts, identity, place, &changes, at));
    page.push(heading("What you may do"));
    let own = users.iter().filter(|user| user.id == identity.user());
    page.push(facts(own.flat_map(|user| grants(&user.grants)).collect()));
    page.push(heading("Your usage"));
    page.push(facts(usage));
    if identity.is_admin() {
        page.extend(others(identity, &users));
    }
    page.extend(help(identity, place));
    let clock = at.to_zoned(TimeZone::UTC);
    page.push(ReplyPart::Footer {
        text: format!(
            "As of {}. Open this page again to see the newest state.",
            clock.strftime("%Y-%m-%d %H:%M UTC")
        ),
    });
    Ok(Reply { parts: page })
}

fn text(text: impl Into<String>) -> ReplyPart {
    ReplyPart::Text { text: text.into() }
}

fn heading(text: impl Into<String>) -> ReplyPart {
    ReplyPart::Heading { text: text.into() }
}

fn facts(rows: Rows) -> ReplyPart {
    ReplyPart::Facts { rows }
}

fn open_changes(
    parts: &Parts,
    identity: &Identity,
    place: &ChatPlace,
    changes: &PersonChanges,
    at: Timestamp,
) -> Vec<ReplyPart> {
    let PersonChanges { newest, all } = changes;
    if newest.is_empty() {
        let hint = match identity.may_edit() {
            true => "Nothing is prepared. Write to me what should change.",
            false => "Nothing is prepared.",
        };
        return vec![heading("Your open changes"), text(hint)];
    }
    let mut shown = vec![heading(format!("Your open changes: {}", group_thousands(*all)))];
    for change in newest {
        shown.push(facts(rows(parts, identity, change, at)));
        shown.extend(link(change, place));
    }
    let more = all.saturating_sub(newest.len() as u64);
    if more > 0 {
        shown.push(text(format!(
            "And {} more, which are older; `status` in its conversation shows each.",
            group_thousands(more)
        )));
    }
    shown
}

/// Returns the rows of a change, beginning with its name. Of one in a repository without a grant, only the name is shown.
fn rows(parts: &Parts, identity: &Identity, change: &PersonChange, at: Timestamp) -> Rows {
    let clean = |text: &str| short_line(&parts.redactor.redact(text), VALUE_CHARS_MAX);
    let name = change.name();
    if identity.role(&change.repository).is_none() {
        let why = format!(
            "you have no grant for {} any more; the change is kept",
            quoted(&change.repository)
        );
        return vec![(name, why)];
    }
    let request = change.request.as_deref().map(prompt::own_words);
    let request = request
        .as_deref()
        .map(str::trim)
        .filter(|words| !words.is_empty());
    let mut rows = vec![
        (name, request.map_or_else(|| "prepared".to_owned(), clean)),
        ("State".to_owned(), clean(&state(identity, change))),
        ("Repository".to_owned(), clean(&change.repository)),
    ];
    let overview = &change.overview;
    for (label, value) in [("Environments", &overview.scope), ("Effect", &overview.headline)] {
        if !value.is_empty() {
            rows.push((label.to_owned(), clean(value)));
        }
    }
    rows.push(("Files".to_owned(), totals(&change.stats)));
    rows.push(("Prepared".to_owned(), age::since(change.prepared_at, at)));
    rows
}

fn state(identity: &Identity, change: &PersonChange) -> String {
    let needs: &[RequiredGrant] = &change.needs;
    let missing = identity.may_prepare(&change.repository, needs).err();
    if let Some(why) = change.withheld.clone().or(missing) {
        return format!("withheld: {why}");
    }
    match change_view::failing_of(&change.checks) {
        Some(failing) => format!("not ready: {failing}"),
        None => "ready for review".to_owned(),
    }
}

/// Returns the link to the thread of a change, if it opens in the client that shows the page. Its label is no text of a
/// person.
fn link(change: &PersonChange, place: &ChatPlace) -> Option<ReplyPart> {
    let chat = change.place.account.platform.chat()?;
    if change.place.account != place.account {
        return Some(text("The conversation is on another platform or account."));
    }
    let address = (chat.thread_link)(&change.place)?;
    Some(ReplyPart::Markdown {
        text: format!("[Open the conversation]({address})"),
    })
}

/// Returns one row for each grant.
fn grants(grants: &[Grant]) -> Rows {
    let shown = grants.iter().take(GRANTS_SHOWN_MAX).map(|grant| {
        let scope = grant_scope(grant.role, &grant.repositories, &grant.environments);
        (grant.role.to_string(), short_line(&scope, VALUE_CHARS_MAX))
    });
    shown.collect()
}

/// Returns the other people who are admitted, for an administrator.
fn others(identity: &Identity, users: &[User]) -> Vec<ReplyPart> {
    let own = identity.user();
    let others = || {
        let people = users.iter().filter(|user| people::is_person(user));
        people.filter(move |user| user.id != own)
    };
    let more = others().count().saturating_sub(PEOPLE_SHOWN_MAX);
    let rows = others().take(PEOPLE_SHOWN_MAX).map(|user| {
        let grants: Vec<String> = grants(&user.grants)
            .into_iter()
            .map(|(role, scope)| format!("{role} for {scope}"))
            .collect();
        let name = short_line(&user.name, VALUE_CHARS_MAX);
        (name, short_line(&grants.join("; "), VALUE_CHARS_MAX))
    });
    let rows: Rows = rows.collect();
    let mut shown = vec![heading("Who else is admitted")];
    shown.push(match rows.is_empty() {
        true => text("Nobody. `help` says how you admit people."),
        false => facts(rows),
    });
    if more > 0 {
        shown.push(text(format!(
            "And {more} more; `drydock user list` on the server shows all."
        )));
    }
    shown
}

fn help(identity: &Identity, place: &ChatPlace) -> Vec<ReplyPart> {
    let known = command::ALL
        .iter()
        .filter(|known| COMMANDS_SHOWN.contains(&known.verb));
    let rows = known.map(|known| (known.usage(), known.what.to_owned()));
    let third = match identity.may_edit() {
        true => CHANGE_REQUEST,
        false => THIRD_QUESTION,
    };
    let examples: Vec<&str> = [third].into_iter().chain(QUESTIONS).collect();
    let form = place.account.platform.chat().map_or("", |chat| chat.command_form);
    vec![
        heading("Help"),
        text("Write to me in a direct message, or mention me in a channel. For instance:"),
        ReplyPart::Code {
            language: String::new(),
            text: examples.join("\n"),
        },
        text(format!(
            "These are answered without a model, as {form}, and `!word` in threads:"
        )),
        facts(rows.collect()),
    ]
}
