//! A chart as a file, and its digest.

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// Returns a packed chart.
pub(crate) fn packed_chart(name: &str, version: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let chart = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (file, content) in [("Chart.yaml", chart.as_str())].iter().chain(more) {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let path = format!("{name}/{file}");
        archive
            .append_data(&mut header, path, content.as_bytes())
            .expect("an entry");
    }
    archive
        .into_inner()
        .and_then(GzEncoder::finish)
        .expect("an archive")
}

/// Returns the SHA-256 of the content in hex.
pub(crate) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
