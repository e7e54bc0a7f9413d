//! The memory of SQLite: it comes from mimalloc, blocks of every size. A savepoint allocates and frees many small blocks,
//! and the allocator of some C libraries maps and unmaps pages for them each time.
#![allow(unsafe_code, reason = "SQLite takes its allocator as C functions")]

use libmimalloc_sys::{mi_free, mi_good_size, mi_malloc, mi_realloc, mi_usable_size};
use rusqlite::ffi;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Once;

/// Makes SQLite use mimalloc. It must run before the first connection: afterwards SQLite refuses it and
/// keeps the allocator of the C library.
pub(super) fn use_mimalloc() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let methods = ffi::sqlite3_mem_methods {
            xMalloc: Some(allocate),
            xFree: Some(free),
            xRealloc: Some(reallocate),
            xSize: Some(usable_bytes),
            xRoundup: Some(round_up),
            xInit: Some(initialize),
            xShutdown: Some(shut_down),
            pAppData: null_mut(),
        };
        // SAFETY: SQLite copies the methods. It refuses them if it is already in use.
        let _refused = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) };
    });
}

unsafe extern "C" fn allocate(bytes: c_int) -> *mut c_void {
    // SAFETY: any size is valid.
    usize::try_from(bytes).map_or(null_mut(), |bytes| unsafe { mi_malloc(bytes) })
}

unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: SQLite frees each block that it got here once.
    unsafe { mi_free(block) }
}

unsafe extern "C" fn reallocate(block: *mut c_void, bytes: c_int) -> *mut c_void {
    // SAFETY: SQLite got the block here and has not freed it.
    usize::try_from(bytes).map_or(null_mut(), |bytes| unsafe { mi_realloc(block, bytes) })
}

unsafe extern "C" fn usable_bytes(block: *mut c_void) -> c_int {
    // SAFETY: SQLite got the block here and has not freed it.
    c_int::try_from(unsafe { mi_usable_size(block) }).unwrap_or(c_int::MAX)
}

unsafe extern "C" fn round_up(bytes: c_int) -> c_int {
    // SAFETY: the call only computes a number.
    let good = usize::try_from(bytes).map(|bytes| unsafe { mi_good_size(bytes) });
    good.ok()
        .and_then(|good| c_int::try_from(good).ok())
        .unwrap_or(bytes)
}

unsafe extern "C" fn initialize(_data: *mut c_void) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn shut_down(_data: *mut c_void) {}
