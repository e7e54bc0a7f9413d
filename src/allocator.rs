//! The allocator of the program: mimalloc for what is small, the system's for what is large.
//!
//! A block that one thread takes and another frees stays with mimalloc until the first thread allocates again. Large
//! values are read on threads that may then wait for long, so what was freed of them would add up; the system's
//! allocator maps each large block for itself, and gives it back when it is freed, by whichever thread.

use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout, System};

/// Bytes of a block from which on it is large.
const LARGE_BYTES: usize = 1 << 20;

/// The milliseconds before mimalloc gives freed memory back, `mi_option_purge_delay` in its header.
const PURGE_DELAY: mi_option_t = 15;
/// The delay that nobody asked for. The processes of the sandbox are started with another one.
const PURGE_DELAY_DEFAULT: i64 = 10;

/// The allocator of the program.
pub(super) struct Allocator;

// SAFETY: each block is freed by the allocator that it came from, which its size in the layout tells: the layout is the
// one it was asked for with, or that of its last `realloc`. Both allocators keep the contract by themselves.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_large(layout.size()) {
            // SAFETY: the caller's promise about the layout is passed on; so it is below.
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
    /// Moves a block to the other allocator. The block stays as it is if there is no memory.
    ///
    /// # Safety
    ///
    /// As for [`GlobalAlloc::realloc`].
    unsafe fn moved(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller promises that such a layout is valid; the blocks do not overlap, and both have what is copied.
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

/// Has both allocators give freed memory back at once. The system's takes blocks of a size that was freed before from
/// memory that it keeps, unless it is told to map each; a thread of mimalloc keeps what it freed until it allocates again.
#[allow(unsafe_code)]
pub(super) fn release_at_once() {
    // SAFETY: it reads and sets one number of the allocator, before there is another thread.
    unsafe {
        if mi_option_get(PURGE_DELAY) == PURGE_DELAY_DEFAULT {
            mi_option_set(PURGE_DELAY, 0);
        }
    }
    drydock::system::map_large_blocks(LARGE_BYTES);
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code, clippy::unwrap_used)]
    use super::{Allocator, LARGE_BYTES, PURGE_DELAY, PURGE_DELAY_DEFAULT, release_at_once};
    use libmimalloc_sys::{mi_is_in_heap_region, mi_option_get};
    use std::alloc::{GlobalAlloc as _, Layout};

    fn purge_delay() -> i64 {
        // SAFETY: it only reads a number.
        unsafe { mi_option_get(PURGE_DELAY) }
    }

    /// Of the options around it only this one begins with 10, so a header with another order is noticed.
    #[test]
    fn freed_memory_returns_to_the_system_without_delay() {
        assert_eq!(purge_delay(), PURGE_DELAY_DEFAULT);
        release_at_once();
        assert_eq!(purge_delay(), 0);
    }

    /// A block keeps its bytes whatever sizes it is given, and each size comes from its allocator.
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
