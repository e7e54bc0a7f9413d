//! The allocator of the program: mimalloc for small blocks, the system's allocator for large ones.
//!
//! If one thread allocates a mimalloc block and another frees it, the block stays with mimalloc until the first thread
//! allocates again. Threads that read large values may then wait for a long time, so such freed blocks would add up.
//! The system's allocator maps each large block separately, and returns it to the system when any thread frees it.

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout, System};

/// Bytes from which a block is large.
const LARGE_BYTES: usize = 1 << 20;

/// The allocator of the program.
pub(super) struct Allocator;

// SAFETY: each block is freed by the allocator that it came from. The size in the layout identifies that allocator: the
// layout is the one of the allocation or of the last `realloc`. Both allocators keep the contract on their own.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_large(layout.size()) {
            // SAFETY: the caller's promise about the layout is passed on, here and in the methods below.
            true => unsafe { System.alloc(layout) },
            false => unsafe { MiMalloc.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match is_large(layout.size()) {
            true => unsafe { System.alloc_zeroed(layout) },
            false => unsafe { MiMalloc.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match is_large(layout.size()) {
            true => unsafe { System.dealloc(block, layout) },
            false => unsafe { MiMalloc.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        match (is_large(layout.size()), is_large(bytes)) {
            (true, true) => unsafe { System.realloc(block, layout, bytes) },
            (false, false) => unsafe { MiMalloc.realloc(block, layout, bytes) },
            (true, false) | (false, true) => unsafe { self.moved(block, layout, bytes) },
        }
    }
}

#[allow(unsafe_code)]
impl Allocator {
    /// Moves a block to the other allocator. The block stays unchanged if there is no memory.
    ///
    /// # Safety
    ///
    /// The requirements are those of [`GlobalAlloc::realloc`].
    unsafe fn moved(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller promises that the layout is valid; the blocks do not overlap, and both are at least as
        // large as the copied bytes.
        unsafe {
            let to = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !to.is_null() {
                std::ptr::copy_nonoverlapping(block, to, layout.size().min(bytes));
                self.dealloc(block, layout);
            }
            to
        }
    }
}

fn is_large(bytes: usize) -> bool {
    bytes >= LARGE_BYTES
}

/// Makes the system's allocator map each large block separately. Otherwise it reuses kept memory for sizes that were freed
/// before.
pub(super) fn map_large_blocks() {
    drydock::base::system::map_large_blocks(LARGE_BYTES);
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code, clippy::unwrap_used)]
    use super::{Allocator, LARGE_BYTES};
    use libmimalloc_sys::mi_is_in_heap_region;
    use std::alloc::{GlobalAlloc as _, Layout};

    /// No other test of this program uses SQLite, which takes an allocator before its first connection only.
    #[test]
    fn the_store_takes_its_memory_from_the_allocator_of_the_program() {
        let directory = tempfile::tempdir().unwrap();
        let store = drydock::state::store::Store::open(directory.path()).unwrap();
        // SAFETY: the block is freed once, where it came from.
        unsafe {
            let block = rusqlite::ffi::sqlite3_malloc(1_000);
            assert!(mi_is_in_heap_region(block));
            let larger = rusqlite::ffi::sqlite3_realloc(block, 100_000);
            assert!(mi_is_in_heap_region(larger));
            rusqlite::ffi::sqlite3_free(larger);
        }
        drop(store);
    }

    /// A block keeps its bytes when its size changes, and each size comes from its own allocator.
    #[test]
    fn a_block_moves_between_the_allocators_with_its_size() {
        let small = Layout::from_size_align(LARGE_BYTES - 1, 16).unwrap();
        // SAFETY: each block is used within its size, and freed with the layout of its last size.
        unsafe {
            let block = Allocator.alloc_zeroed(small);
            assert!(mi_is_in_heap_region(block.cast()));
            std::ptr::write_bytes(block, 7, small.size());
            let large = Allocator.realloc(block, small, LARGE_BYTES);
            assert!(!mi_is_in_heap_region(large.cast()));
            let layout = Layout::from_size_align(LARGE_BYTES, 16).unwrap();
            let larger = Allocator.realloc(large, layout, 3 * LARGE_BYTES);
            assert!(!mi_is_in_heap_region(larger.cast()));
            let layout = Layout::from_size_align(3 * LARGE_BYTES, 16).unwrap();
            let back = Allocator.realloc(larger, layout, 100);
            assert!(mi_is_in_heap_region(back.cast()));
            assert_eq!(std::slice::from_raw_parts(back, 100), [7; 100]);
            Allocator.dealloc(back, Layout::from_size_align(100, 16).unwrap());
        }
    }
}
