//! `drydock token`: makes, lists and revokes tokens for people and services, for requests of scripts and pipelines to the server.

use super::admin_client::answer_to_show;
use super::output::Output;
use super::{CliError, Global};
use crate::engine::admin::{AdminReply, AdminRequest};
use crate::state::access::{
    NewToken, PersonalToken, TokenError, TokenScope, TokenState, check_token_name, token_hours,
};
use clap::Subcommand;
use jiff::Timestamp;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock token create ci --for alice                 prints the token, once
  drydock token create ci --for alice --expires 30d --json
  drydock token create bot --for alice --scope runs:read --scope runs:write
  drydock token create deploy --for service:deploy --scope runs:write
  drydock token list
  drydock token revoke ci

A request to the server has the header `Authorization: Bearer TOKEN`. A token never permits more
than its person or service may do at that time, and ends with their access.
`GET /api/openapi.json` of the server describes the requests.";

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Makes a token for a person or a service and prints it; it cannot be shown again
    Create {
        /// The name of the token, unique for its person or service
        #[arg(value_parser = name)]
        name: String,
        /// The person: id, name or `slack:T0ACME:U0ALICE`; or `service:NAME`
        #[arg(long = "for", value_name = "PERSON")]
        person: String,
        /// The time for which it is valid, such as `90d` or `12h`; at most `366d`
        #[arg(long = "expires", value_name = "TIME", default_value = "90d", value_parser = token_hours)]
        hours: u32,
        /// The requests that it permits: `changes:read`, `runs:read` or `runs:write`; can be repeated
        #[arg(long = "scope", value_name = "SCOPE", default_value = TokenScope::ChangesRead.word())]
        scopes: Vec<TokenScope>,
    },
    /// Lists the tokens of all people and services; never the tokens themselves
    List,
    /// Ends a token at once
    Revoke {
        /// The name of the token
        name: String,
        /// The person, if several people have a token of this name
        #[arg(long = "for", value_name = "PERSON")]
        person: Option<String>,
    },
}

fn name(text: &str) -> Result<String, TokenError> {
    check_token_name(text).map(|()| text.to_owned())
}

pub(super) async fn run(command: TokenCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    let request = match command {
        TokenCommand::Create {
            name,
            person,
            hours,
            scopes,
        } => AdminRequest::CreateToken {
            person,
            token: NewToken { name, scopes, hours },
        },
        TokenCommand::List => AdminRequest::Tokens,
        TokenCommand::Revoke { name, person } => AdminRequest::RevokeToken { name, person },
    };
    let Some(answer) = answer_to_show(request, global, output).await? else {
        return Ok(());
    };
    match answer {
        AdminReply::TokenCreated { secret, token } => {
            output.line(&secret);
            output.message(&format!(
                "Token `{}` of {} for {}, valid until {}. It cannot be shown again.",
                token.name,
                token.person,
                token.scopes.join(", "),
                token.expires_at
            ));
        }
        AdminReply::Tokens { tokens } if tokens.is_empty() => {
            output.message("There is no token; `drydock token create` makes one.");
        }
        AdminReply::Tokens { tokens } => {
            let rows: Vec<Vec<String>> = tokens.iter().map(cells).collect();
            let header = [
                "NAME", "PERSON", "SCOPES", "CREATED", "LAST USE", "EXPIRES", "STATE",
            ];
            output.table(&header, &rows);
        }
        AdminReply::TokenRevoked { token } => {
            output.line(&format!("token `{}` of {} has ended", token.name, token.person));
        }
        _ => {}
    }
    Ok(())
}

fn cells(token: &PersonalToken) -> Vec<String> {
    let state = match token.state {
        TokenState::Active => "active",
        TokenState::Expired => "expired",
    };
    vec![
        token.name.clone(),
        token.person.clone(),
        token.scopes.join(","),
        hour(token.created_at),
        token.used_at.map_or_else(|| "-".to_owned(), hour),
        hour(token.expires_at),
        state.to_owned(),
    ]
}

/// Returns a time as precise as the last use is known.
fn hour(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}
