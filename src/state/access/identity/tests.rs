//! Tests of identities and their grants.

use super::{CurrentGrants, Grant, Identity, Role};
use crate::base::model::{Platform, RepoPath, RequiredGrant, Sender, UserId};

fn holds(role: Role, repositories: &str, environments: &[&str]) -> Identity {
    let sender = Sender {
        platform: Platform::Slack,
        account: "T1".into(),
        id: "U1".into(),
    };
    let grant = Grant {
        role,
        repositories: repositories.into(),
        environments: environments.iter().map(|glob| (*glob).to_owned()).collect(),
    };
    Identity::new(UserId(1), "alice".into(), sender, CurrentGrants::new(&[grant]))
}

#[test]
fn a_grant_covers_its_environments_and_says_so_otherwise() {
    let alice = holds(Role::Editor, "infra", &["dev", "staging-*"]);
    let path = RepoPath::parse("environments/dev/main.jsonnet").unwrap();
    let writes = |environment| alice.may_write("infra", &path, environment);
    assert_eq!(writes(Some("environments/dev")), Ok(()));
    assert_eq!(writes(Some("environments/staging-eu")), Ok(()));
    assert_eq!(
        writes(Some("environments/prod")),
        Err("`environments/prod` is not in your grant (dev, staging-*)".into())
    );
    assert_eq!(
        writes(None),
        Err("`environments/dev/main.jsonnet` is shared by all environments; your grant covers only dev, staging-*".into())
    );
    assert_eq!(
        alice.may_write("apps", &path, Some("environments/dev")),
        Err("alice has role viewer: cannot write".into())
    );
}

#[test]
fn limits_of_the_work_narrow_every_grant() {
    let path = RepoPath::parse("environments/dev/main.jsonnet").unwrap();
    let lists = |lists: &[&[&str]]| -> Vec<Vec<String>> {
        let owned = |globs: &&[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        lists.iter().map(owned).collect()
    };
    let need = |environment: Option<&str>| RequiredGrant {
        environment: environment.map(str::to_owned),
        because: "a file is changed".into(),
    };
    for (role, grant) in [(Role::Admin, "**"), (Role::Editor, "**")] {
        let anna = holds(role, "infra", &[grant]);
        let limited = anna.within_environments(&lists(&[&["dev", "staging-*"], &["**"], &["*-eu", "dev"]]));
        let writes = |environment| limited.may_write("infra", &path, environment);
        assert_eq!(writes(Some("environments/dev")), Ok(()));
        assert_eq!(writes(Some("environments/staging-eu")), Ok(()));
        assert_eq!(
            writes(Some("environments/staging-us")),
            Err("`environments/staging-us` is outside of this work, which may change only *-eu, dev".into())
        );
        assert_eq!(
            writes(None),
            Err(
                "`environments/dev/main.jsonnet` is outside of this work, which may change only dev, staging-*"
                    .into()
            )
        );
        assert_eq!(
            limited.may_prepare("infra", &[need(Some("environments/dev"))]),
            Ok(())
        );
        assert_eq!(
            limited.may_prepare("infra", &[need(None)]),
            Err(
                "a file is changed, which requires a grant for all environments; this work may change only dev, \
                 staging-*"
                    .into()
            )
        );
        for broken in [&["["][..], &[]] {
            let nothing = anna.within_environments(&lists(&[broken]));
            assert!(
                nothing
                    .may_write("infra", &path, Some("environments/dev"))
                    .is_err()
            );
        }
    }
    // A limit is no grant.
    let alice = holds(Role::Editor, "infra", &["dev"]).within_environments(&lists(&[&["**"]]));
    assert_eq!(
        alice.may_write("infra", &path, Some("environments/prod")),
        Err("`environments/prod` is not in your grant (dev)".into())
    );
}

/// I12
#[test]
fn viewers_write_nothing_and_broken_globs_grant_nothing() {
    let path = RepoPath::parse("a").unwrap();
    assert!(
        holds(Role::Viewer, "*", &["**"])
            .may_write("infra", &path, None)
            .is_err()
    );
    assert!(
        holds(Role::Editor, "*", &["**"])
            .may_write("infra", &path, None)
            .is_ok()
    );
    assert!(
        holds(Role::Admin, "*", &[])
            .may_write("infra", &path, None)
            .is_ok()
    );
    let asking = holds(Role::Admin, "infra", &["**"]).reading_only();
    assert!(asking.may_write("infra", &path, None).is_err());
    assert_eq!(
        (asking.role("infra"), asking.role("apps")),
        (Some(Role::Viewer), None)
    );
    assert!(!asking.is_admin() && !asking.may_edit());
    for broken in [holds(Role::Admin, "[", &["**"]), holds(Role::Admin, "*", &["["])] {
        assert_eq!((broken.role("infra"), broken.is_admin()), (None, false));
    }
}
