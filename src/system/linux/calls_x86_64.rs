//! Older forms of system calls that a program may make, which x86-64 still has.

/// The older system calls, each of which does what a newer one does that is allowed as well.
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
