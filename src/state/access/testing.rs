//! Identities for tests of other modules, which cannot create any themselves.

use super::identity::CurrentGrants;
use super::{Grant, Identity, Role};
use crate::base::model::{Platform, Sender, UserId};

/// Returns Ada, with one grant for all repositories.
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
