//! Literal search in the packed text: one pass through memory, independent of the number of files.

use super::{Base, mode};
use crate::base::model::FileMode;
use memchr::memmem::Finder;

impl Base {
    /// Visits every text file that contains a match of the finder, sorted by path.
    pub(in crate::state::workspace) fn each_file_with(
        &self,
        finder: &Finder<'_>,
        visit: &mut dyn FnMut(&str, &[u8]),
    ) {
        let text = self.pack.text();
        let mut position = 0;
        while let Some(rest) = text.get(position..)
            && let Some(hit) = finder.find(rest)
        {
            let hit = position + hit;
            let Some(record) = self.pack.at_offset(hit as u64) else {
                return;
            };
            let start = record.text_start as usize;
            let end = start.saturating_add(record.size as usize);
            if hit < end
                && mode(&record) != FileMode::Symlink
                && let Ok(name) = std::str::from_utf8(self.pack.name(&record))
            {
                visit(name, text.get(start..end).unwrap_or_default());
            }
            // The next file starts after the separator.
            position = end.saturating_add(1).max(hit + 1);
        }
    }
}
