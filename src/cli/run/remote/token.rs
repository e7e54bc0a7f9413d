//! The token of the requests: that of a file or of a variable, or the login of this machine. It is never an argument, because
//! other people can read those.

use crate::base::config::{checked_key, key_of_file};
use crate::base::model::Secret;
use crate::cli::CliError;
use crate::cli::login::LoginFile;
use std::path::Path;

/// The variable with the token.
const VARIABLE: &str = "DRYDOCK_TOKEN";
/// The advice to a person without a token that can start runs.
pub(super) const MAKE_A_TOKEN: &str = "the operator of the server makes a token for you with `drydock token create NAME --for \
                                       YOU --scope runs:read --scope runs:write`; put it into a private file for \
                                       --token-file, or into DRYDOCK_TOKEN";

/// The place of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestTokenPlace {
    /// The file of `--token-file`.
    File,
    /// The variable.
    Variable,
    /// The login of this machine, which changes are pulled with.
    Login,
}

impl RequestTokenPlace {
    /// Returns the words for the token.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::File => "the token of --token-file",
            Self::Variable => "the token of DRYDOCK_TOKEN",
            Self::Login => "the login of this machine",
        }
    }
}

/// The token of the requests to one server.
pub(super) struct RequestToken {
    pub(super) secret: Secret,
    pub(super) place: RequestTokenPlace,
}

impl RequestToken {
    /// Returns the token of a file, or else that of the variable, or else the login at a server.
    pub(super) fn find(file: Option<&Path>, url: &str) -> Result<Self, CliError> {
        if let Some(file) = file {
            let secret = key_of_file(file).map_err(|why| CliError::usage(format!("--token-file: {why}")))?;
            let place = RequestTokenPlace::File;
            return Ok(Self { secret, place });
        }
        if let Some(text) = variable() {
            let secret = checked_key(&text).map_err(|why| CliError::usage(format!("{VARIABLE}: {why}")))?;
            let place = RequestTokenPlace::Variable;
            return Ok(Self { secret, place });
        }
        // Without a home there is no login.
        let login = match LoginFile::of_this_user() {
            Ok(file) => file.read()?.find(url),
            Err(_) => None,
        };
        match login {
            Some(login) => Ok(Self {
                secret: login.token,
                place: RequestTokenPlace::Login,
            }),
            None => Err(CliError::usage(format!(
                "there is no token for {url}: {MAKE_A_TOKEN}"
            ))),
        }
    }
}

/// Returns the value of the variable. An empty one counts as not set.
fn variable() -> Option<String> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the shell is where the environment is read"
    )]
    let value = std::env::var_os(VARIABLE)?;
    let text = value.to_string_lossy().into_owned();
    (!text.is_empty()).then_some(text)
}
