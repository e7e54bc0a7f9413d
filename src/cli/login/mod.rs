//! `drydock login` and `drydock logout`: the login of this machine at a server, for `drydock pull`.

mod personal_server;
mod stored_logins;

pub(super) use personal_server::PersonalServer;
pub(super) use stored_logins::{LoginFile, MachineLogin};

use super::CliError;
use super::input::{InputLine, InputReader};
use super::output::Output;
use super::secret_input::HiddenEcho;
use crate::base::config::checked_url;
use crate::base::model::Secret;
use clap::Args;
use std::io::IsTerminal;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock login https://drydock.example.com 2RJW-K7Q3-...   with the code of `login` in a chat
  drydock login https://drydock.example.com                 asks for the code without showing it
  drydock logout                                            ends the only login
  drydock logout https://drydock.example.com

A login lasts for 90 days. It is kept in `drydock/logins.json` below $XDG_CONFIG_HOME or ~/.config, readable by you only.";

/// The maximum number of bytes of a typed code.
const CODE_BYTES_MAX: usize = 200;

#[derive(Debug, Args)]
pub(super) struct LoginArguments {
    /// The address of the server, as the chat shows it
    url: String,
    /// The code; without it, it is read from the terminal or from standard input
    code: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct LogoutArguments {
    /// The address of the server; not needed if there is one login only
    url: Option<String>,
}

/// Exchanges a code for a login, and stores it.
pub(super) async fn log_in(arguments: LoginArguments, output: &Output) -> Result<(), CliError> {
    let url = server_url(&arguments.url)?;
    let file = LoginFile::of_this_user()?;
    let code = match arguments.code {
        Some(code) => Secret::new(code),
        None => typed_code(output).await?,
    };
    if code.expose().trim().is_empty() {
        return Err(CliError::usage(
            "the code is empty; say `login` to Drydock in a chat for one",
        ));
    }
    let login = exchange(&file, &url, &code).await?;
    match output.json() {
        true => {
            output.value(&serde_json::json!({ "server": url, "name": login.name, "expires": login.expires }))
        }
        false => output.line(&logged_in(&url, &login)),
    }
    Ok(())
}

/// Exchanges a code for a login at a server, and stores it in place of an earlier one.
pub(super) async fn exchange(file: &LoginFile, url: &str, code: &Secret) -> Result<MachineLogin, CliError> {
    // A file that cannot be used is reported before the code is used.
    let replaced = file.read()?.find(url);
    let server = PersonalServer::new(url)?;
    let login = server.log_in(code).await?;
    if let Err(error) = file.put(url, Some(&login)) {
        // Nobody can use it, so it ends. If the server cannot be reached, it expires.
        let _expires = server.log_out(&login).await;
        return Err(error);
    }
    if let Some(replaced) = replaced {
        // It may have ended before.
        let _expires = server.log_out(&replaced).await;
    }
    Ok(login)
}

/// Returns the line about a new login.
pub(super) fn logged_in(url: &str, login: &MachineLogin) -> String {
    let until = login.expires.strftime("%Y-%m-%d");
    format!("Logged in to {url} as {}, until {until}.", login.name)
}

/// Ends a login on the server, and removes it from the file.
pub(super) async fn log_out(arguments: LogoutArguments, output: &Output) -> Result<(), CliError> {
    let url = arguments.url.as_deref().map(server_url).transpose()?;
    let file = LoginFile::of_this_user()?;
    let (url, login) = file.read()?.choose(url.as_deref())?;
    let was_known = PersonalServer::new(&url)?.log_out(&login).await?;
    file.put(&url, None)?;
    match (output.json(), was_known) {
        (true, _) => output.value(&serde_json::json!({ "server": url, "ended": was_known })),
        (false, true) => output.line(&format!("Logged out of {url}.")),
        (false, false) => output.line(&format!(
            "Logged out of {url}, where this login had ended before."
        )),
    }
    Ok(())
}

/// Checks the address of a server.
pub(super) fn server_url(text: &str) -> Result<String, CliError> {
    checked_url(text).ok_or_else(|| {
        CliError::usage(
            "the address of a server begins with https://, such as https://drydock.example.com (http:// only on this \
             machine)",
        )
    })
}

/// Reads the code. At a terminal it is asked for, and not shown.
async fn typed_code(output: &Output) -> Result<Secret, CliError> {
    let is_terminal = std::io::stdin().is_terminal();
    if is_terminal {
        output.prompt("Code: ");
    }
    let mut input = InputReader::standard(CODE_BYTES_MAX);
    let line = {
        let _hidden = is_terminal.then(HiddenEcho::begin);
        tokio::select! {
            line = input.next() => line.map_err(CliError::failed)?,
            _ = tokio::signal::ctrl_c() => InputLine::End,
        }
    };
    if is_terminal {
        output.message("");
    }
    match line {
        InputLine::Text(code) => Ok(Secret::new(code)),
        InputLine::NotText | InputLine::TooLong => {
            Err(CliError::usage("that is no code; nothing was changed"))
        }
        InputLine::End => Err(CliError::usage(
            "there is no code; give it after the address, or on standard input",
        )),
    }
}
