//! Whether two packed charts hold the same files. Helm writes the time into them, so their bytes differ
//! each time.

use flate2::read::GzDecoder;
use std::io::Read;

/// Bytes of an archive that are unpacked, at most.
const UNPACKED_BYTES_MAX: u64 = 64 << 20;

/// True when both can be read and hold the same entries in the same order.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    match (entries(one), entries(other)) {
        (Some(one), Some(other)) => one == other,
        (None, _) | (_, None) => false,
    }
}

/// Names and contents; `None` when it is no archive, or too large a one.
fn entries(packed: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let unpacked = GzDecoder::new(packed).take(UNPACKED_BYTES_MAX);
    let mut archive = tar::Archive::new(unpacked);
    let mut entries = Vec::new();
    for entry in archive.entries().ok()? {
        let mut entry = entry.ok()?;
        let name = entry.path_bytes().into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).ok()?;
        entries.push((name, content));
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::is_same;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn packed(content: &str, at: u64) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mtime(at);
        header.set_cksum();
        archive
            .append_data(&mut header, "web/Chart.yaml", content.as_bytes())
            .unwrap();
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn only_the_files_count() {
        assert!(is_same(&packed("a", 1), &packed("a", 2)));
        assert!(!is_same(&packed("a", 1), &packed("b", 1)));
        assert!(!is_same(b"no archive", b"no archive"));
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        let mut header = tar::Header::new_gnu();
        header.set_path("bomb").unwrap();
        header.set_size(1 << 33);
        header.set_cksum();
        bomb.write_all(header.as_bytes()).unwrap();
        for _ in 0..80 {
            bomb.write_all(&vec![0; 1 << 20]).unwrap();
        }
        let bomb = bomb.finish().unwrap();
        assert!(!is_same(&bomb, &bomb));
    }
}
