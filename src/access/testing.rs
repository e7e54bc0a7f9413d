//! Identities for the tests of other modules, which cannot make any.

use super::identity::CurrentGrants;
use super::{Grant, Identity, Role};
use crate::model::{Platform, Sender, UserId};

/// Ada, with one grant in all repositories.
pub(crate) fn identity(role: Role, environments: &[&str]) -> Identity {
    let sender = Sender {
        platform: Platform::Slack,
        account: "T0ACME".to_owned(),
        id: "U0ADA".to_owned(),
    };
    let grant = Grant {
        role,
        repositories: "*".to_owned(),
        environments: environments.iter().map(|glob| (*glob).to_owned()).collect(),
    };
    Identity::new(UserId(1), "ada".to_owned(), sender, CurrentGrants::new(&[grant]))
}
