//! A cache of rendered entry points, by a hash of all their inputs. The least recently used entries are evicted
//! first.

use crate::base::redact::KnownSecret;
use crate::rendering::jsonnet::KnownDifference;
use crate::rendering::review::RenderFailure;
use crate::rendering::tanka::{Environment, ValueHash};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Maximum total size of the cache in bytes.
pub(super) const CACHE_BYTES_MAX: usize = 64 << 20;
/// Maximum size of a cached entry point in bytes. A larger one would evict all others.
const ENTRYPOINT_BYTES_MAX: usize = CACHE_BYTES_MAX / 16;
/// Memory of an environment without its objects, in bytes.
const MEMBER_BYTES: usize = 512;
/// Memory of an object without its text, in bytes.
const OBJECT_BYTES: usize = size_of::<Bytes>();

/// A rendered entry point.
#[derive(Debug)]
pub(super) struct CachedRender {
    /// The environments of the entry point.
    pub(super) members: Arc<[CachedEnvironment]>,
    /// The hash of its value.
    pub(super) value: ValueHash,
    /// The verdict of the second engine.
    pub(super) cross_check: CrossCheckVerdict,
    /// The secrets in its inputs and in its objects.
    pub(super) secrets: Arc<[KnownSecret]>,
}

/// An environment of a rendered entry point.
#[derive(Debug)]
pub(super) struct CachedEnvironment {
    pub(super) name: String,
    pub(super) namespace: String,
    /// The settings of an inline environment without redaction, or the reason why they are unknown. They are never
    /// shown.
    pub(super) settings: Option<Arc<Result<Environment, String>>>,
    /// The objects as redacted JSON, or the reason why there are none.
    pub(super) objects: Result<Vec<Bytes>, RenderFailure>,
}

/// The verdict of the second engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CrossCheckVerdict {
    NotAsked,
    Agrees,
    /// The value differs only in known ways.
    DiffersAsKnown {
        known: KnownDifference,
    },
    /// The value differs, first at this field. The values are not included, because they may be secrets.
    Differs {
        path: String,
    },
    /// The second engine fails where the first engine has a value.
    Refuses {
        why: String,
    },
    /// There is no verdict, because the second engine exceeded a limit.
    Unfinished {
        why: String,
    },
}

impl CrossCheckVerdict {
    /// True if the value of the first engine must not be relied on.
    pub(super) fn is_disagreement(&self) -> bool {
        match self {
            Self::Differs { .. } | Self::Refuses { .. } => true,
            Self::NotAsked | Self::Agrees | Self::DiffersAsKnown { .. } | Self::Unfinished { .. } => false,
        }
    }
}

impl CachedRender {
    /// Returns its size in memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        let of = |member: &CachedEnvironment| {
            let objects = member.objects.iter().flatten();
            let objects: usize = objects.map(|object| object.len() + OBJECT_BYTES).sum();
            objects + member.name.len() + MEMBER_BYTES
        };
        let secrets = self.secrets.iter().map(KnownSecret::bytes).sum::<usize>();
        self.members.iter().map(of).sum::<usize>() + secrets + MEMBER_BYTES
    }
}

/// The cached entry points by key.
#[derive(Debug, Default)]
pub(super) struct RenderCache {
    by_key: HashMap<String, (u64, Arc<CachedRender>)>,
    /// The keys in the order of their last use.
    by_use: BTreeMap<u64, String>,
    uses: u64,
    bytes: usize,
}

impl RenderCache {
    /// Returns the entry for a key and records the use.
    pub(super) fn get(&mut self, key: &str) -> Option<Arc<CachedRender>> {
        self.uses += 1;
        let (used, rendered) = self.by_key.get_mut(key)?;
        self.by_use.remove(used);
        *used = self.uses;
        self.by_use.insert(self.uses, key.to_owned());
        Some(Arc::clone(rendered))
    }

    /// Stores an entry.
    pub(super) fn put(&mut self, key: String, rendered: &Arc<CachedRender>) {
        let bytes = rendered.bytes();
        if bytes > ENTRYPOINT_BYTES_MAX {
            return;
        }
        self.remove(&key);
        self.uses += 1;
        self.bytes += bytes;
        self.by_use.insert(self.uses, key.clone());
        self.by_key.insert(key, (self.uses, Arc::clone(rendered)));
        while self.bytes > CACHE_BYTES_MAX
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some((used, rendered)) = self.by_key.remove(key) {
            self.by_use.remove(&used);
            self.bytes = self.bytes.saturating_sub(rendered.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{
        CACHE_BYTES_MAX, CachedEnvironment, CachedRender, CrossCheckVerdict, ENTRYPOINT_BYTES_MAX,
        RenderCache,
    };
    use crate::rendering::tanka::ValueHash;
    use bytes::Bytes;
    use std::sync::Arc;

    fn rendered(bytes: usize, cross_check: CrossCheckVerdict) -> Arc<CachedRender> {
        Arc::new(CachedRender {
            members: Arc::new([CachedEnvironment {
                settings: None,
                name: "dev".to_owned(),
                namespace: String::new(),
                objects: Ok(vec![Bytes::from(vec![b' '; bytes])]),
            }]),
            value: ValueHash::default(),
            cross_check,
            secrets: Arc::new([]),
        })
    }

    #[test]
    fn the_least_recently_used_render_is_evicted_first() {
        let mut kept = RenderCache::default();
        let large = ENTRYPOINT_BYTES_MAX - 4_096;
        let all = CACHE_BYTES_MAX / ENTRYPOINT_BYTES_MAX;
        for key in 0..all {
            kept.put(key.to_string(), &rendered(large, CrossCheckVerdict::Agrees));
        }
        assert!(kept.get("0").is_some());
        kept.put("last".to_owned(), &rendered(large, CrossCheckVerdict::Agrees));
        assert!(kept.get("1").is_none());
        assert!(kept.get("0").is_some() && kept.get("last").is_some());
        assert!(kept.bytes <= CACHE_BYTES_MAX);
        assert_eq!(kept.by_key.len(), kept.by_use.len());
        kept.put(
            "huge".to_owned(),
            &rendered(ENTRYPOINT_BYTES_MAX, CrossCheckVerdict::Agrees),
        );
        assert!(kept.get("huge").is_none());
    }
}
