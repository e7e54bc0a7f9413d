//! Older forms of system calls that x86-64 still has.

/// The older system calls. For each one the allowed calls include a newer form that does the same.
pub(super) const OLDER: &[i64] = &[
    libc::SYS_arch_prctl,
    libc::SYS_access,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_rename,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_getrlimit,
];
