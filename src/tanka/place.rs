//! Where environments live: the cluster and the namespace their settings name, and which others a change of them
//! reaches. Made of settings as they are written, never of text that was redacted.

use super::environment::Environment;
use regex::RegexBuilder;

/// What a regular expression for a cluster may take when it is compiled.
const PATTERN_BYTES_MAX: usize = 1 << 18;

/// A cluster, and the namespace of objects that name none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    servers: Vec<String>,
    contexts: Vec<String>,
    namespace: String,
}

/// An environment that is there before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    /// The directory that a grant for it names; `None` for the root, which all share.
    pub owner: Option<String>,
    /// Where it lives; `None` where that could not be found out.
    pub place: Option<Place>,
}

/// Whether two places are in one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cluster {
    Same,
    /// One of them names none: whoever applies it chooses.
    Open,
    Other,
}

impl Place {
    /// Where the settings of an environment say that it lives.
    pub fn of(environment: &Environment) -> Self {
        let spec = &environment.spec;
        let server = Some(spec.api_server.clone()).filter(|server| !server.is_empty());
        let namespace = match spec.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        };
        Self {
            servers: server.into_iter().collect(),
            contexts: spec.context_names.clone(),
            namespace: namespace.to_owned(),
        }
    }

    fn cluster(&self, other: &Self) -> Cluster {
        if self.names_none() || other.names_none() {
            return Cluster::Open;
        }
        let meet = |one: &[String], other: &[String]| {
            one.iter()
                .any(|one| other.iter().any(|other| may_name_the_same(one, other)))
        };
        // A server and a context may be the same cluster: only who has the contexts can tell.
        let named_differently =
            |one: &Self, other: &Self| !one.servers.is_empty() && !other.contexts.is_empty();
        match meet(&self.servers, &other.servers)
            || meet(&self.contexts, &other.contexts)
            || named_differently(self, other)
            || named_differently(other, self)
        {
            true => Cluster::Same,
            false => Cluster::Other,
        }
    }

    /// Whether something at one place may write what lives at the other.
    fn meets(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.cluster(other) != Cluster::Other
    }

    /// Whether both name a cluster, and name it in the same words: only that is surely one cluster. Other words, also
    /// those that may mean the same, prove nothing.
    fn shares_cluster(&self, other: &Self) -> bool {
        !self.names_none() && self.names_alike(other)
    }

    /// Whether the settings for the cluster are the same, or neither has any.
    fn names_alike(&self, other: &Self) -> bool {
        self.servers == other.servers && self.contexts == other.contexts
    }

    fn names_none(&self) -> bool {
        self.servers.is_empty() && self.contexts.is_empty()
    }
}

/// Those whose objects an environment may write once it lives at `to`, and for whom it is not certain that it could
/// while it lived at `from`: who may be in the same namespace of that cluster, and everybody in a cluster that may be
/// new to it. Whoever cannot be placed counts.
pub fn reached<'a>(from: &[Place], to: &Place, residents: &'a [Resident]) -> Vec<&'a Resident> {
    if from.contains(to) {
        return Vec::new();
    }
    let stays_in_cluster = from.iter().any(|from| from.names_alike(to));
    let is_reached = |resident: &&Resident| {
        let Some(place) = &resident.place else { return true };
        let mut shared = from.iter().filter(|from| from.shares_cluster(place)).peekable();
        let is_new_there = !stays_in_cluster && shared.peek().is_none();
        if shared.any(|from| from.namespace == place.namespace) {
            return false;
        }
        to.meets(place) || (is_new_there && to.cluster(place) == Cluster::Same)
    };
    residents.iter().filter(is_reached).collect()
}

/// Clusters are named by texts that Tanka reads as regular expressions: it is enough that one may mean the other.
fn may_name_the_same(one: &str, other: &str) -> bool {
    if normal(one) == normal(other) {
        return true;
    }
    let is_pattern =
        |text: &str| text.contains(['*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '^', '$', '\\']);
    let matches = |pattern: &str, text: &str| {
        let compiled = RegexBuilder::new(pattern)
            .case_insensitive(true)
            .size_limit(PATTERN_BYTES_MAX)
            .build();
        match compiled {
            Ok(compiled) => compiled.is_match(text) || compiled.is_match(&normal(text)),
            Err(_) => true,
        }
    };
    matches(one, other) || matches(other, one) || (is_pattern(one) && is_pattern(other))
}

fn normal(cluster: &str) -> String {
    let cluster = cluster.to_lowercase();
    let cluster = cluster.trim_end_matches('/');
    let usual = cluster
        .strip_prefix("https://")
        .and_then(|host| host.strip_suffix(":443").map(|host| format!("https://{host}")))
        .or_else(|| {
            let host = cluster.strip_prefix("http://")?;
            host.strip_suffix(":80").map(|host| format!("http://{host}"))
        });
    usual.unwrap_or_else(|| cluster.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{Place, Resident, reached};

    fn at(server: &str, namespace: &str) -> Place {
        Place {
            servers: vec![server.to_owned()],
            contexts: Vec::new(),
            namespace: namespace.to_owned(),
        }
    }

    fn in_context(context: &str, namespace: &str) -> Place {
        Place {
            servers: Vec::new(),
            contexts: vec![context.to_owned()],
            namespace: namespace.to_owned(),
        }
    }

    fn anywhere(namespace: &str) -> Place {
        Place {
            servers: Vec::new(),
            contexts: Vec::new(),
            namespace: namespace.to_owned(),
        }
    }

    fn reaches(from: &[Place], to: &Place, resident: Place) -> bool {
        let residents = [Resident {
            owner: Some("environments/prod".to_owned()),
            place: Some(resident),
        }];
        !reached(from, to, &residents).is_empty()
    }

    #[test]
    fn who_lives_where_an_environment_goes_is_reached() {
        let (prod, dev) = (at("https://prod", "shop"), at("https://dev", "shop"));
        assert!(reaches(std::slice::from_ref(&dev), &prod, prod.clone()));
        // A namespace of the same cluster is a place of its own, and a cluster that is new is one place.
        let one = |namespace: &str| at("https://one", namespace);
        assert!(reaches(&[one("dev")], &one("prod"), one("prod")));
        assert!(!reaches(&[one("dev")], &one("qa"), one("prod")));
        assert!(reaches(
            std::slice::from_ref(&dev),
            &at("https://prod", "free"),
            prod.clone()
        ));
        // Who was met before is not reached by the change.
        assert!(!reaches(&[one("dev")], &one("prod"), one("dev")));
        assert!(!reaches(&[dev], &at("https://nobody", "shop"), prod));
        let unknown = [Resident {
            owner: None,
            place: None,
        }];
        assert_eq!(reached(&[], &one("x"), &unknown).len(), 1);
    }

    #[test]
    fn a_cluster_is_the_same_however_it_is_named() {
        let from = [at("https://dev", "dev")];
        let prod = at("https://prod.example.com", "prod");
        for other in [
            at("https://PROD.example.com/", "prod"),
            at("https://prod.example.com:443", "prod"),
            at("https://prod", "prod"),
            at("https://.*", "prod"),
            at("https://(", "prod"),
            in_context("prod", "prod"),
            anywhere("prod"),
        ] {
            assert!(reaches(&from, &other, prod.clone()), "{other:?}");
            assert!(reaches(&from, &prod, other.clone()), "{other:?}");
        }
        for other in [at("https://qa.example.com", "prod"), anywhere("qa")] {
            assert!(!reaches(&from, &other, prod.clone()), "{other:?}");
        }
        assert!(reaches(
            &[in_context("dev", "x")],
            &in_context("prod", "x"),
            in_context("prod", "x")
        ));
    }

    #[test]
    fn nobody_was_surely_where_their_settings_only_may_have_led() {
        let (server, free) = (at("https://prod", "shop"), at("https://prod", "free"));
        let context = in_context("prod-eu", "shop");
        for (from, to, lives) in [
            // A server and a context: which cluster the context is, only who has it can tell.
            (in_context("kind-dev", "shop"), &server, &server),
            (in_context("kind-dev", "shop"), &free, &server),
            (at("https://dev", "shop"), &context, &context),
            (at("https://dev", "shop"), &server, &context),
            (in_context("kind-dev", "shop"), &context, &server),
            // None is named: whoever applies it chose.
            (anywhere("shop"), &server, &server),
            (anywhere("shop"), &free, &server),
            (anywhere("shop"), &context, &context),
            (at("https://dev", "shop"), &anywhere("shop"), &server),
            (anywhere("shop"), &server, &anywhere("shop")),
            // A name within another, and a pattern.
            (in_context("eu", "shop"), &context, &context),
            (in_context("eu", "shop"), &in_context("prod-eu", "free"), &context),
            (
                at("https://10.0.0.1", "shop"),
                &at("https://10.0.0.10", "shop"),
                &at("https://10.0.0.10", "shop"),
            ),
            (
                at("https://10.0.0.10", "shop"),
                &at("https://10.0.0.1", "shop"),
                &at("https://10.0.0.1", "shop"),
            ),
            (in_context(".*", "shop"), &context, &context),
            (at("https://.*", "shop"), &server, &server),
        ] {
            assert!(
                reaches(std::slice::from_ref(&from), to, lives.clone()),
                "{from:?} {to:?}"
            );
        }
        // Whoever keeps the cluster, however it is named, is new in no cluster.
        for cluster in ["kind-dev", ".*"] {
            let (dev, more) = (in_context(cluster, "dev"), in_context(cluster, "more"));
            assert!(
                !reaches(std::slice::from_ref(&dev), &more, server.clone()),
                "{cluster}"
            );
            assert!(
                reaches(&[dev], &in_context(cluster, "shop"), server.clone()),
                "{cluster}"
            );
        }
        assert!(!reaches(&[anywhere("dev")], &anywhere("more"), server.clone()));
        assert!(reaches(&[anywhere("dev")], &anywhere("shop"), server.clone()));
        // Who was in the very place, or is in the cluster all the same, reaches nobody new.
        assert!(!reaches(std::slice::from_ref(&server), &context, server.clone()));
        assert!(!reaches(&[free], &in_context("kind", "more"), server));
    }
}
