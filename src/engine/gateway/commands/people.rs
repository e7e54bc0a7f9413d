//! `user add`: an administrator admits an account in a chat, by the id from the denial notice.

use super::{AcceptedCommand, CommandRunner};
use crate::base::model::{Reply, quoted};
use crate::engine::gateway::welcome::grant_scope;
use crate::state::access::{AccessError, Admitter, Grant, Identity, NewPerson, Role, User, account_of};

const USAGE: &str = "Write `!user add ID NAME --role ROLE`, and `--env GLOB` or `--repo GLOB` for a part of them. For \
                     instance `!user add slack:T0ACME:U0EVE Eve --role editor --env dev`.";

impl CommandRunner {
    pub(super) async fn user_command(
        &self,
        arguments: &str,
        asked: &AcceptedCommand,
        identity: &Identity,
    ) -> anyhow::Result<Reply> {
        // The usage is shown only to administrators. The permission itself is checked when the person is admitted. If
        // the admission was stored before a crash, the answer reports it, even if the person is not an administrator
        // any more.
        let refuse = |why: String| match identity.is_admin() {
            true => Reply::text(why),
            false => Reply::text("Only an administrator admits people."),
        };
        let new = match parse(arguments) {
            Ok(new) => new,
            Err(why) => return Ok(refuse(why)),
        };
        let by = Admitter::Administrator {
            user: identity.user(),
            name: identity.name().to_owned(),
            message: asked.inbox,
        };
        let (access, now) = (&self.parts.access, (self.parts.now)());
        match access.add(new, self.outgoing.connected_accounts(), by, now).await {
            Ok(user) => Ok(Reply::text(admission_text(&user))),
            Err(AccessError::Store(error)) => Err(error.into()),
            Err(error) => Ok(refuse(refusal_text(&error))),
        }
    }
}

pub(super) fn admission_text(user: &User) -> String {
    let grants = user.grants.iter().map(|grant| {
        let reach = grant_scope(grant.role, &grant.repositories, &grant.environments);
        format!("{} for {reach}", grant.role)
    });
    let grants: Vec<String> = grants.collect();
    format!(
        "{} is admitted: {}. They can write to me now.",
        quoted(&user.name),
        grants.join("; ")
    )
}

pub(super) fn refusal_text(why: &AccessError) -> String {
    format!("No person was admitted: {why}.")
}

/// Parses `add ID NAME --role ROLE [--env GLOB]... [--repo GLOB]`.
fn parse(arguments: &str) -> Result<NewPerson, String> {
    let mut words = arguments.split_whitespace().peekable();
    let (Some("add"), Some(id)) = (words.next(), words.next()) else {
        return Err(USAGE.to_owned());
    };
    let sender = account_of(id.trim_matches('`')).map_err(|error| refusal_text(&error))?;
    let mut name = Vec::new();
    while let Some(word) = words.next_if(|word| option(word).is_none()) {
        name.push(word);
    }
    if name.is_empty() {
        return Err(USAGE.to_owned());
    }
    let (mut role, mut repositories, mut environments) = (None, None, Vec::new());
    while let Some(word) = words.next() {
        let Some(option) = option(word) else {
            return Err(USAGE.to_owned());
        };
        let (option, value) = match option.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (option, words.next()),
        };
        let Some(value) = value.map(|value| value.trim_matches('`')) else {
            return Err(format!("{} needs a value. {USAGE}", quoted(word)));
        };
        let is_new = match option {
            "role" => role.replace(role_of(value)?).is_none(),
            "repo" => repositories.replace(value.to_owned()).is_none(),
            "env" => {
                environments.push(value.to_owned());
                true
            }
            _ => return Err(format!("I don't know {}. {USAGE}", quoted(word))),
        };
        if !is_new {
            return Err(format!("{} is given twice. {USAGE}", quoted(word)));
        }
    }
    if environments.is_empty() {
        environments.push("**".to_owned());
    }
    Ok(NewPerson {
        sender,
        name: name.join(" "),
        grant: Grant {
            role: role.ok_or_else(|| format!("Which role: viewer, editor or admin? {USAGE}"))?,
            repositories: repositories.unwrap_or_else(|| "*".to_owned()),
            environments,
        },
    })
}

/// Returns the option name of a word. Phones turn two hyphens into a dash.
fn option(word: &str) -> Option<&str> {
    ["--", "—", "–"]
        .into_iter()
        .find_map(|dashes| word.strip_prefix(dashes))
}

fn role_of(word: &str) -> Result<Role, String> {
    [Role::Viewer, Role::Editor, Role::Admin]
        .into_iter()
        .find(|role| role.as_str().eq_ignore_ascii_case(word))
        .ok_or_else(|| {
            format!(
                "There is no role {}: it is viewer, editor or admin.",
                quoted(word)
            )
        })
}

#[cfg(test)]
mod tests {
    use super::{USAGE, parse};
    use crate::state::access::{Grant, Role};

    #[test]
    fn user_commands_have_the_same_syntax_as_on_the_command_line() {
        let all = "add telegram:42:666 Eve of Ops --role viewer --env dev --env=prod-* --repo infra-*";
        let phone = "add  `telegram:42:666` Eve of Ops —role Viewer —env dev –env prod-* —repo `infra-*`";
        for text in [all, phone] {
            let new = parse(text).map(|new| (new.sender.to_string(), new.name, new.grant));
            let grant = Grant {
                role: Role::Viewer,
                repositories: "infra-*".to_owned(),
                environments: vec!["dev".to_owned(), "prod-*".to_owned()],
            };
            let eve = ("telegram:42:666".to_owned(), "Eve of Ops".to_owned(), grant);
            assert_eq!(new, Ok(eve), "{text}");
        }
        let all = parse("add slack:T0ACME:U0EVE eve --role admin").map(|new| new.grant);
        let everything = Grant {
            role: Role::Admin,
            repositories: "*".to_owned(),
            environments: vec!["**".to_owned()],
        };
        assert_eq!(all, Ok(everything));
    }

    #[test]
    fn a_malformed_user_command_is_answered_with_the_usage() {
        let id = "slack:T0ACME:U0EVE";
        for (text, why) in [
            (String::new(), USAGE.to_owned()),
            ("list".to_owned(), USAGE.to_owned()),
            ("add".to_owned(), USAGE.to_owned()),
            (format!("add {id} --role editor"), USAGE.to_owned()),
            (format!("add {id} eve --role editor dev"), USAGE.to_owned()),
            (
                format!("add {id} eve"),
                format!("Which role: viewer, editor or admin? {USAGE}"),
            ),
            (
                format!("add {id} eve --role"),
                format!("`--role` needs a value. {USAGE}"),
            ),
            (
                format!("add {id} eve --role editor --role admin"),
                format!("`--role` is given twice. {USAGE}"),
            ),
            (
                format!("add {id} eve --rolle editor"),
                format!("I don't know `--rolle`. {USAGE}"),
            ),
            (
                format!("add {id} eve --role `owner"),
                "There is no role `owner`: it is viewer, editor or admin.".to_owned(),
            ),
        ] {
            assert_eq!(parse(&text), Err(why), "{text}");
        }
        let why = parse("add @eve eve --role editor").err().unwrap_or_default();
        assert!(
            why.starts_with("No person was admitted: `@eve` is not the ID of an account; "),
            "{why}"
        );
    }
}
