//! Git object names of a fixed size for both hash formats, because they are stored in tables of fixed-size records.

use gix::ObjectId;
use gix::hash::Kind;

/// Object name: 32 bytes of SHA-256, or 20 bytes of SHA-1 followed by zeros.
pub(super) type ObjectName = [u8; 32];

/// Converts an object id to a name of fixed size.
pub(super) fn object_name(id: &ObjectId) -> ObjectName {
    let mut name = ObjectName::default();
    for (to, from) in name.iter_mut().zip(id.as_slice()) {
        *to = *from;
    }
    name
}

/// Converts a name back to an object id in the hash format of a repository.
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
