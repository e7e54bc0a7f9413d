//! `drydock audit`: verifies the audit log and lists its entries.

use super::admin_client::answer_to_show;
use super::output::Output;
use super::{CliError, Global, serve};
use crate::base::model::edit_distance;
use crate::engine::admin::{AUDIT_LINES_MAX, AdminReply, AdminRequest};
use crate::state::store::{AUDIT_KINDS, AuditLine};
use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, civil};

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock audit list                                    the newest lines
  drydock audit list --kind ingress.rejected            requests that were not signed with the right secret
  drydock audit list --person alice --since 2d          the actions of Alice, and those that changed her access
  drydock audit list --since 2026-11-24 --limit 500 --json
  drydock audit verify                                  check that no line was changed

Kinds begin with access, audit, auth, budget, change, ingress, invite, login, message, outbox,
question, run, schedule, secret, session, thread, token, turn or user; --kind ingress means all
of ingress. An `ingress` line has the name of the channel or hook, the reason, and the count of that
reason since the start: `hook.forged` and `wrong secret token` mean that the secrets of the two
sides differ. At most ten lines a minute are written for one name and reason.";

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// Lists lines, the newest first
    List(AuditListArguments),
    /// Checks that no row was changed, removed or reordered
    Verify,
}

#[derive(Debug, Args)]
pub(super) struct AuditListArguments {
    /// Only this kind, such as `ingress.rejected`, or all kinds with this prefix, such as `ingress`
    #[arg(long, value_parser = kind)]
    kind: Option<String>,
    /// Only about this person: id, name or `slack:T0ACME:U0ALICE`
    #[arg(long, value_name = "WHO")]
    person: Option<String>,
    /// Only from this time on: `2h`, `3d`, `2026-11-24` or `2026-11-24T10:00:00Z`
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Timestamp>,
    /// The maximum number of lines
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=i64::from(AUDIT_LINES_MAX)))]
    limit: u32,
}

pub(super) async fn run(command: AuditCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    let request = match command {
        AuditCommand::Verify => AdminRequest::Audit,
        AuditCommand::List(arguments) => AdminRequest::AuditList {
            kind: arguments.kind,
            person: arguments.person,
            since: arguments.since,
            limit: arguments.limit,
        },
    };
    let Some(answer) = answer_to_show(request, global, output).await? else {
        return Ok(());
    };
    match answer {
        AdminReply::Audit {
            rows,
            cut,
            since: Some(since),
        } => output.line(&format!(
            "the audit log is intact: rows {} to {rows}, since {since:.0}; {cut} older rows were cut, as recorded",
            cut + 1
        )),
        AdminReply::Audit { rows, .. } => output.line(&format!("the audit log is intact: {rows} rows")),
        AdminReply::AuditLines { lines, .. } if lines.is_empty() => output.message("No line matches."),
        AdminReply::AuditLines { lines, has_more } => {
            let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
            output.table(&["ROW", "AT", "KIND", "WHO", "WHAT"], &rows);
            if has_more {
                output.message("There may be older ones; --limit shows more of them.");
            }
        }
        _ => {}
    }
    Ok(())
}

fn row(line: &AuditLine) -> Vec<String> {
    let says = line.data.as_object().into_iter().flatten();
    let says = says.filter(|(key, value)| key.as_str() != "sender" && !value.is_null());
    let says = says.map(|(key, value)| match value.as_str() {
        Some(text) => format!("{key}={text}"),
        None => format!("{key}={value}"),
    });
    vec![
        line.row.to_string(),
        format!("{:.0}", line.at),
        line.kind.clone(),
        line.sender.clone().unwrap_or_default(),
        says.collect::<Vec<_>>().join(" "),
    ]
}

/// Parses a kind, or the common prefix of several kinds before the dot.
fn kind(text: &str) -> Result<String, String> {
    let groups = AUDIT_KINDS.iter().filter_map(|kind| kind.split('.').next());
    let known: Vec<&str> = AUDIT_KINDS.iter().copied().chain(groups).collect();
    if known.contains(&text) {
        return Ok(text.to_owned());
    }
    let near = known.iter().min_by_key(|known| edit_distance(known, text));
    Err(format!(
        "there is no such kind; did you mean '{}'?",
        near.unwrap_or(&"ingress")
    ))
}

/// Parses a time: a duration before now, a day in UTC, or a full timestamp.
fn since(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let day = text.parse::<civil::Date>();
    let day = day.and_then(|day| day.to_zoned(TimeZone::UTC));
    let ago = || {
        serve::now()
            .to_zoned(TimeZone::UTC)
            .checked_sub(text.parse::<Span>()?.abs())
    };
    let at = day.or_else(|_| ago());
    at.map(|at| at.timestamp())
        .map_err(|_| "write 2h, 3d, 2026-11-24 or 2026-11-24T10:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{AUDIT_KINDS, EXAMPLES};

    #[test]
    fn the_help_lists_the_beginning_of_every_kind() {
        let (_, listed) = EXAMPLES.split_once("Kinds begin with ").unwrap_or_default();
        let (listed, _) = listed.split_once(';').unwrap_or_default();
        let listed: Vec<&str> = listed
            .split(|char: char| char == ',' || char.is_whitespace())
            .filter(|word| !matches!(*word, "" | "or"))
            .collect();
        let mut begins: Vec<&str> = AUDIT_KINDS
            .iter()
            .filter_map(|kind| kind.split('.').next())
            .collect();
        begins.dedup();
        assert_eq!(listed, begins);
    }
}
