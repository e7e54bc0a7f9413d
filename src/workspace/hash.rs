//! Git's names of objects in one size, whichever of its two formats a repository has: they lie in tables of records.

use gix::ObjectId;
use gix::hash::Kind;

/// A name: 20 bytes of SHA-1 and zeros behind them, or 32 of SHA-256.
pub(super) type ObjectName = [u8; 32];

/// The name of an object.
pub(super) fn object_name(id: &ObjectId) -> ObjectName {
    let mut name = ObjectName::default();
    for (to, from) in name.iter_mut().zip(id.as_slice()) {
        *to = *from;
    }
    name
}

/// The object of a name in a repository of that format.
pub(super) fn object_id(name: &ObjectName, format: Kind) -> ObjectId {
    let bytes = name.get(..format.len_in_bytes()).unwrap_or(name);
    ObjectId::from_bytes_or_panic(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Kind, object_id, object_name};

    #[test]
    fn a_name_of_either_format_is_the_object_it_was_made_from() {
        for format in [Kind::Sha1, Kind::Sha256] {
            for id in [format.empty_blob(), format.null()] {
                assert_eq!(object_id(&object_name(&id), format), id);
            }
        }
    }
}
