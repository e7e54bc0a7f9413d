//! Existing environments indexed by destination, so that the environments that many moved environments reach can be
//! found cheaply.

use super::cluster::{ClusterNames, ClusterRelation, NotCompared};
use super::destination::{Cluster, Destination, ExistingEnvironment};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Maximum number of reached environments. With more, an environment counts as reaching all of them.
const REACHED_MAX: usize = 200;

/// The directory that a grant for an environment names; `None` for the root, which all environments share.
type Owner = Option<String>;

/// All existing environments, indexed by destination.
#[derive(Debug)]
pub struct DestinationIndex<'a> {
    /// `None` if there are too many clusters to compare.
    names: Option<ClusterNames>,
    /// The owners of the environments in a cluster, by namespace.
    clusters: HashMap<&'a Cluster, BTreeMap<&'a str, BTreeSet<&'a Owner>>>,
    /// The owners of environments with an unknown destination.
    unknown_destination: BTreeSet<&'a Owner>,
    /// The destinations of each owner.
    by_owner: HashMap<&'a Owner, HashMap<&'a Cluster, HashSet<&'a str>>>,
}

/// The environments that one environment reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReachedOwners<'a> {
    /// The owners that are reached.
    Owners(BTreeSet<&'a Owner>),
    /// Too many owners, or an unknown set.
    All,
}

impl<'a> DestinationIndex<'a> {
    /// Builds the index of the existing environments for environments that move to the destinations in `going`.
    /// Returns `None` if `stopped` returned true.
    pub fn new<'p>(
        residents: &'a [ExistingEnvironment],
        going: impl IntoIterator<Item = &'p Destination>,
        stopped: &dyn Fn() -> bool,
    ) -> Option<Self>
    where
        'a: 'p,
    {
        let mut found = Self {
            names: None,
            clusters: HashMap::new(),
            unknown_destination: BTreeSet::new(),
            by_owner: HashMap::new(),
        };
        for ExistingEnvironment {
            owner,
            destination: place,
        } in residents
        {
            let Some(Destination { cluster, namespace }) = place else {
                found.unknown_destination.insert(owner);
                continue;
            };
            let clusters = found.clusters.entry(cluster).or_default();
            clusters.entry(namespace).or_default().insert(owner);
            let own = found.by_owner.entry(owner).or_default();
            own.entry(cluster).or_default().insert(namespace);
        }
        let mut clusters: HashSet<&Cluster> = going.into_iter().map(|place| &place.cluster).collect();
        clusters.extend(found.clusters.keys().copied());
        found.names = match ClusterNames::compare(clusters.into_iter(), stopped) {
            Ok(names) => Some(names),
            Err(NotCompared::TooMany) => None,
            Err(NotCompared::Stopped) => return None,
        };
        Some(found)
    }

    /// Returns the owners whose objects an environment of `owner` may newly write once its destination is `to`.
    /// These are the owners that may be in the same namespace of that cluster, and all owners in the cluster if it
    /// may be new to the environment. Owners with an unknown destination always count.
    pub fn owners_reached(&self, owner: &Owner, to: &Destination) -> ReachedOwners<'a> {
        let was_in = |cluster: &Cluster| self.by_owner.get(owner)?.get(cluster);
        let namespace = to.namespace.as_str();
        let stays = was_in(&to.cluster);
        if stays.is_some_and(|namespaces| namespaces.contains(namespace)) {
            return ReachedOwners::Owners(BTreeSet::new());
        }
        let Some(names) = &self.names else {
            return ReachedOwners::All;
        };
        let mut reached = OwnerSet::default();
        reached.add(&self.unknown_destination, owner);
        for (cluster, namespaces) in &self.clusters {
            // Only an identical name proves that the environment was in this cluster before. A different name that
            // may mean the same cluster proves nothing.
            let shared = was_in(cluster).filter(|_| !cluster.is_unset());
            match names.relation(&to.cluster, cluster) {
                ClusterRelation::Same if stays.is_none() && shared.is_none() => {
                    namespaces.values().for_each(|owners| reached.add(owners, owner));
                }
                ClusterRelation::Same | ClusterRelation::Unset
                    if shared.is_none_or(|shared| !shared.contains(namespace)) =>
                {
                    let owners = namespaces.get(namespace);
                    owners.into_iter().for_each(|owners| reached.add(owners, owner));
                }
                ClusterRelation::Same | ClusterRelation::Unset | ClusterRelation::Other => {}
            }
            if reached.are_too_many() {
                break;
            }
        }
        match reached.are_too_many() {
            true => ReachedOwners::All,
            false => ReachedOwners::Owners(reached.0),
        }
    }
}

/// A set of reached owners. It holds at most one more than the maximum, which marks the overflow.
#[derive(Default)]
struct OwnerSet<'a>(BTreeSet<&'a Owner>);

impl<'a> OwnerSet<'a> {
    fn add(&mut self, owners: &BTreeSet<&'a Owner>, but: &Owner) {
        for owner in owners.iter().copied().filter(|owner| *owner != but) {
            if self.are_too_many() {
                return;
            }
            self.0.insert(owner);
        }
    }

    fn are_too_many(&self) -> bool {
        self.0.len() > REACHED_MAX
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::super::destination::Cluster;
    use super::{Destination, DestinationIndex, ExistingEnvironment, REACHED_MAX, ReachedOwners};
    use std::collections::BTreeSet;

    fn place(servers: &[&str], contexts: &[&str], namespace: &str) -> Destination {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Destination {
            cluster: Cluster {
                servers: owned(servers),
                contexts: owned(contexts),
            },
            namespace: namespace.to_owned(),
        }
    }

    fn lives(owner: &str, place: Option<Destination>) -> ExistingEnvironment {
        ExistingEnvironment {
            owner: Some(owner.to_owned()),
            destination: place,
        }
    }

    fn at(server: &str, namespace: &str) -> Destination {
        place(&[server], &[], namespace)
    }

    fn in_context(context: &str, namespace: &str) -> Destination {
        place(&[], &[context], namespace)
    }

    fn anywhere(namespace: &str) -> Destination {
        place(&[], &[], namespace)
    }

    fn reaches(from: &[Destination], to: &Destination, resident: Destination) -> bool {
        let own = from.iter().map(|from| lives("dev", Some(from.clone())));
        let residents: Vec<ExistingEnvironment> = own.chain([lives("prod", Some(resident))]).collect();
        let index = DestinationIndex::new(&residents, [to], &|| false).unwrap();
        match index.owners_reached(&Some("dev".to_owned()), to) {
            ReachedOwners::Owners(reached) => !reached.is_empty(),
            ReachedOwners::All => panic!("too many"),
        }
    }

    #[test]
    fn environments_at_the_destination_of_a_move_are_reached() {
        let (prod, dev) = (at("https://prod", "shop"), at("https://dev", "shop"));
        assert!(reaches(std::slice::from_ref(&dev), &prod, prod.clone()));
        // In a known cluster, only the same namespace is reached. In a new cluster, all namespaces are.
        let one = |namespace: &str| at("https://one", namespace);
        assert!(reaches(&[one("dev")], &one("prod"), one("prod")));
        assert!(!reaches(&[one("dev")], &one("qa"), one("prod")));
        assert!(reaches(
            std::slice::from_ref(&dev),
            &at("https://prod", "free"),
            prod.clone()
        ));
        // The change does not reach an owner that was reached before.
        assert!(!reaches(&[one("dev")], &one("prod"), one("dev")));
        assert!(!reaches(&[dev], &at("https://nobody", "shop"), prod));
        let unknown = [ExistingEnvironment {
            owner: None,
            destination: None,
        }];
        let to = one("x");
        let reached = DestinationIndex::new(&unknown, [&to], &|| false)
            .unwrap()
            .owners_reached(&Some(String::new()), &to);
        assert_eq!(reached, ReachedOwners::Owners(BTreeSet::from([&None])));
    }

    #[test]
    fn one_cluster_is_recognized_under_different_spellings() {
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
    fn ambiguous_settings_never_prove_that_an_environment_was_already_there() {
        let (server, free) = (at("https://prod", "shop"), at("https://prod", "free"));
        let context = in_context("prod-eu", "shop");
        for (from, to, lives) in [
            // A server and a context: only a kubeconfig with that context can tell whether they are the same
            // cluster.
            (in_context("kind-dev", "shop"), &server, &server),
            (in_context("kind-dev", "shop"), &free, &server),
            (at("https://dev", "shop"), &context, &context),
            (at("https://dev", "shop"), &server, &context),
            (in_context("kind-dev", "shop"), &context, &server),
            // No cluster is named: the person who applied it chose one.
            (anywhere("shop"), &server, &server),
            (anywhere("shop"), &free, &server),
            (anywhere("shop"), &context, &context),
            (at("https://dev", "shop"), &anywhere("shop"), &server),
            (anywhere("shop"), &server, &anywhere("shop")),
            // A name that contains another name, and a pattern.
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
        // A cluster whose name stays the same is not new, whatever the name is.
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
        // An environment that was in the same namespace, or stays in the cluster, reaches no new owner.
        assert!(!reaches(std::slice::from_ref(&server), &context, server.clone()));
        assert!(!reaches(&[free], &in_context("kind", "more"), server));
    }

    #[test]
    fn a_move_that_reaches_too_many_environments_or_clusters_reaches_all() {
        let all = |count: usize, server: &dyn Fn(usize) -> String| -> Vec<ExistingEnvironment> {
            let one = |number: usize| lives(&format!("{number:04}"), Some(at(&server(number), "shop")));
            (0..count).map(one).collect()
        };
        let (prod, owner) = (at("https://prod", "shop"), Some("dev".to_owned()));
        let reached = |residents: &[ExistingEnvironment]| {
            let index = DestinationIndex::new(residents, [&prod], &|| false).unwrap();
            match index.owners_reached(&owner, &prod) {
                ReachedOwners::Owners(reached) => Some(reached.len()),
                ReachedOwners::All => None,
            }
        };
        let in_prod = |_: usize| "https://prod".to_owned();
        assert_eq!(reached(&all(REACHED_MAX, &in_prod)), Some(REACHED_MAX));
        assert_eq!(reached(&all(REACHED_MAX + 1, &in_prod)), None);
        // A few clusters are compared one by one, wherever they are.
        let apart = |number: usize| format!("https://{number:04}.example.com");
        assert_eq!(reached(&all(100, &apart)), Some(0));
        assert_eq!(reached(&all(2_000, &apart)), None);
    }
}
