//! Replies to people who use an invite.

use crate::base::model::{Reply, ReplyPart};
use crate::state::access::{JoinOutcome, Role};

/// Returns the answer to an invite; `None` if there is no reply.
pub(super) fn greeting(redeemed: &JoinOutcome) -> Option<Reply> {
    match redeemed {
        JoinOutcome::Welcome {
            name,
            role,
            repositories,
            environments,
            ..
        } => Some(Reply {
            parts: vec![
                ReplyPart::Heading {
                    text: format!("You're in, {name}."),
                },
                ReplyPart::Text {
                    text: format!(
                        "You are {role} for {}. {} I never apply, commit or push.",
                        grant_scope(*role, repositories, environments),
                        offer(*role)
                    ),
                },
                ReplyPart::Footer {
                    text: "`help` lists what I answer without a model.".to_owned(),
                },
            ],
        }),
        JoinOutcome::AlreadyAdmitted => Some(Reply::text(
            "You are in already. `help` says what you can do here.",
        )),
        JoinOutcome::Invalid => Some(Reply::text("This invite is not valid. Ask for a new one.")),
        JoinOutcome::NoReply => None,
    }
}

/// Returns what a person with this role can do here.
fn offer(role: Role) -> &'static str {
    match role {
        Role::Viewer => {
            "Ask about the files, and look at environments, what they render to and how they differ; \
             you change nothing."
        }
        Role::Editor | Role::Admin => "Say what should change; I answer with the diff and its checks.",
    }
}

/// Describes the scope of a grant in words, without `*` and `**`. An administrator has all environments.
pub(super) fn grant_scope(role: Role, repositories: &str, environments: &[String]) -> String {
    let repositories = match repositories {
        "*" | "**" => "all repositories".to_owned(),
        glob => format!("`{glob}`"),
    };
    match role == Role::Admin || environments.iter().any(|glob| glob == "**") {
        true => format!("{repositories} and all environments"),
        false => format!("{repositories}, environments `{}`", environments.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::greeting;
    use crate::state::access::{JoinOutcome, Role};

    #[test]
    fn a_welcome_says_what_its_person_can_do() {
        let welcome = |role| {
            let redeemed = JoinOutcome::Welcome {
                name: "vera".to_owned(),
                role,
                repositories: "*".to_owned(),
                environments: vec!["dev".to_owned()],
                invited_by: "operator".to_owned(),
            };
            greeting(&redeemed).map(|reply| reply.plain()).unwrap_or_default()
        };
        let viewer = welcome(Role::Viewer);
        assert_eq!(
            viewer.lines().nth(1),
            Some(
                "You are viewer for all repositories, environments `dev`. Ask about the files, and look at environments, \
                 what they render to and how they differ; you change nothing. I never apply, commit or push."
            )
        );
        for role in [Role::Editor, Role::Admin] {
            let welcome = welcome(role);
            assert!(
                welcome.contains("Say what should change; I answer with the diff"),
                "{welcome}"
            );
        }
    }
}
