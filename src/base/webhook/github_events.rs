//! The events and actions of GitHub, used to refuse an entry of `events` that can never match. Names and actions are
//! those of <https://docs.github.com/en/webhooks/webhook-events-and-payloads>.

use crate::base::model::edit_distance;

/// The event whose action its sender can choose.
const ANY_ACTION: &str = "repository_dispatch";
/// An event that is acknowledged and starts no turn.
const PING: &str = "ping";
/// The maximum edit distance between an entry and a suggested name.
const NEAR_EDITS_MAX: usize = 5;

/// Every event with its actions; an event without any is sent without `action`.
#[rustfmt::skip]
const EVENTS: &[(&str, &[&str])] = &[
    ("branch_protection_configuration", &["disabled", "enabled"]),
    ("branch_protection_rule", &["created", "deleted", "edited"]),
    ("check_run", &["completed", "created", "requested_action", "rerequested"]),
    ("check_suite", &["completed", "requested", "rerequested"]),
    ("code_scanning_alert", &["appeared_in_branch", "closed_by_user", "created", "fixed", "reopened", "reopened_by_user"]),
    ("commit_comment", &["created"]),
    ("create", &[]),
    ("custom_property", &["created", "deleted", "promote_to_enterprise", "updated"]),
    ("custom_property_values", &["updated"]),
    ("delete", &[]),
    ("dependabot_alert", &["auto_dismissed", "auto_reopened", "created", "dismissed", "fixed", "reintroduced", "reopened"]),
    ("deploy_key", &["created", "deleted"]),
    ("deployment", &["created"]),
    ("deployment_protection_rule", &["requested"]),
    ("deployment_review", &["approved", "rejected", "requested"]),
    ("deployment_status", &["created"]),
    ("discussion", &["answered", "category_changed", "closed", "created", "deleted", "edited", "labeled", "locked", "pinned", "reopened", "transferred", "unanswered", "unlabeled", "unlocked", "unpinned"]),
    ("discussion_comment", &["created", "deleted", "edited"]),
    ("fork", &[]),
    ("github_app_authorization", &["revoked"]),
    ("gollum", &[]),
    ("installation", &["created", "deleted", "new_permissions_accepted", "suspend", "unsuspend"]),
    ("installation_repositories", &["added", "removed"]),
    ("installation_target", &["renamed"]),
    ("issue_comment", &["created", "deleted", "edited"]),
    ("issue_dependencies", &["blocked_by_added", "blocked_by_removed", "blocking_added", "blocking_removed"]),
    ("issues", &["assigned", "closed", "deleted", "demilestoned", "edited", "labeled", "locked", "milestoned", "opened", "pinned", "reopened", "transferred", "typed", "unassigned", "unlabeled", "unlocked", "unpinned", "untyped"]),
    ("label", &["created", "deleted", "edited"]),
    ("marketplace_purchase", &["cancelled", "changed", "pending_change", "pending_change_cancelled", "purchased"]),
    ("member", &["added", "edited", "removed"]),
    ("membership", &["added", "removed"]),
    ("merge_group", &["checks_requested", "destroyed"]),
    ("meta", &["deleted"]),
    ("milestone", &["closed", "created", "deleted", "edited", "opened"]),
    ("org_block", &["blocked", "unblocked"]),
    ("organization", &["deleted", "member_added", "member_invited", "member_removed", "renamed"]),
    ("package", &["published", "updated"]),
    ("page_build", &[]),
    ("personal_access_token_request", &["approved", "cancelled", "created", "denied"]),
    ("project", &["closed", "created", "deleted", "edited", "reopened"]),
    ("project_card", &["converted", "created", "deleted", "edited", "moved"]),
    ("project_column", &["created", "deleted", "edited", "moved"]),
    ("projects_v2", &["closed", "created", "deleted", "edited", "reopened"]),
    ("projects_v2_item", &["archived", "converted", "created", "deleted", "edited", "reordered", "restored"]),
    ("projects_v2_status_update", &["created", "deleted", "edited"]),
    ("public", &[]),
    ("pull_request", &["assigned", "auto_merge_disabled", "auto_merge_enabled", "closed", "converted_to_draft", "demilestoned", "dequeued", "edited", "enqueued", "labeled", "locked", "milestoned", "opened", "ready_for_review", "reopened", "review_request_removed", "review_requested", "synchronize", "unassigned", "unlabeled", "unlocked"]),
    ("pull_request_review", &["dismissed", "edited", "submitted"]),
    ("pull_request_review_comment", &["created", "deleted", "edited"]),
    ("pull_request_review_thread", &["resolved", "unresolved"]),
    ("push", &[]),
    ("registry_package", &["published", "updated"]),
    ("release", &["created", "deleted", "edited", "prereleased", "published", "released", "unpublished"]),
    ("repository", &["archived", "created", "deleted", "edited", "privatized", "publicized", "renamed", "transferred", "unarchived"]),
    ("repository_advisory", &["published", "reported"]),
    ("repository_import", &[]),
    ("repository_ruleset", &["created", "deleted", "edited"]),
    ("repository_vulnerability_alert", &["create", "dismiss", "reopen", "resolve"]),
    ("secret_scanning_alert", &["assigned", "created", "publicly_leaked", "reopened", "resolved", "unassigned", "validated"]),
    ("secret_scanning_alert_location", &["created"]),
    ("secret_scanning_scan", &["completed"]),
    ("security_advisory", &["published", "updated", "withdrawn"]),
    ("security_and_analysis", &[]),
    ("sponsorship", &["cancelled", "created", "edited", "pending_cancellation", "pending_tier_change", "tier_changed"]),
    ("star", &["created", "deleted"]),
    ("status", &[]),
    ("sub_issues", &["parent_issue_added", "parent_issue_removed", "sub_issue_added", "sub_issue_removed"]),
    ("team", &["added_to_repository", "created", "deleted", "edited", "removed_from_repository"]),
    ("team_add", &[]),
    ("watch", &["started"]),
    ("workflow_dispatch", &[]),
    ("workflow_job", &["completed", "in_progress", "queued", "waiting"]),
    ("workflow_run", &["completed", "in_progress", "requested"]),
];

/// Returns the reason why an entry, `release` or `release.published`, can never match. The text does not repeat the
/// entry.
pub(super) fn refusal(entry: &str) -> Option<String> {
    let (event, action) = match entry.split_once('.') {
        Some((event, action)) => (event, Some(action)),
        None => (entry, None),
    };
    match (event, action) {
        (ANY_ACTION, None) => return None,
        (ANY_ACTION, Some(action)) if !action.is_empty() => return None,
        (PING, _) => return Some("starts no turn; a ping is only answered".to_owned()),
        _ => {}
    }
    let Some((event, actions)) = EVENTS.iter().find(|(known, _)| *known == event) else {
        return Some(format!("is not an event of GitHub{}", suggestion(entry)));
    };
    match action {
        None => None,
        Some(action) if actions.contains(&action) => None,
        Some(_) if actions.is_empty() => {
            Some(format!("names an action, and `{event}` has none; write {event}"))
        }
        Some(_) => Some(format!("is not an action of `{event}`{}", suggestion(entry))),
    }
}

/// Returns the nearest name of GitHub, or the address of their list.
fn suggestion(entry: &str) -> String {
    let actions = EVENTS
        .iter()
        .flat_map(|(event, actions)| actions.iter().map(move |action| format!("{event}.{action}")));
    let events = EVENTS.iter().map(|(event, _)| (*event).to_owned());
    let near = events
        .chain(actions)
        .map(|name| (edit_distance(&name, entry), name))
        .min()
        .filter(|(distance, name)| *distance <= NEAR_EDITS_MAX.min(name.len() / 2));
    match near {
        Some((_, name)) => format!("; did you mean {name}?"),
        None => "; docs.github.com/en/webhooks/webhook-events-and-payloads lists them".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{EVENTS, refusal};

    /// CI-23
    #[test]
    fn an_entry_that_can_never_match_names_the_nearest_one() {
        for good in [
            "release",
            "release.published",
            "push",
            "repository_dispatch.deploy",
            "pull_request.closed",
        ] {
            assert_eq!(refusal(good), None, "{good}");
        }
        for (entry, why) in [
            ("relase", "is not an event of GitHub; did you mean release?"),
            (
                "Release.published",
                "is not an event of GitHub; did you mean release.published?",
            ),
            (
                "release.publish",
                "is not an action of `release`; did you mean release.published?",
            ),
            ("release.", "is not an action of `release`; did you mean release?"),
            ("push.created", "names an action, and `push` has none; write push"),
            ("ping", "starts no turn; a ping is only answered"),
            (
                "a-secret-that-was-pasted",
                "is not an event of GitHub; docs.github.com/en/webhooks/webhook-events-and-payloads lists them",
            ),
        ] {
            assert_eq!(refusal(entry).as_deref(), Some(why), "{entry}");
        }
    }

    #[test]
    fn no_event_is_listed_twice() {
        assert!(EVENTS.is_sorted_by(|(before, _), (after, _)| before < after));
    }
}
