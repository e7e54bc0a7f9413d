//! The system calls that are left to a confined process. Everything else fails with "not permitted",
//! whatever its arguments.
//!
//! A sandbox worker has those of a calculation that reads one pipe, writes another and ends. A program that is
//! not ours also opens files, as far as Landlock lets it, and makes threads; it makes no process and no
//! socket.
//!
//! What could name another process is allowed for the process itself only: signals, bounds, and who is told
//! about a file. Landlock keeps that apart as well, but only since Linux 6.12.

use crate::system::older_calls::OLDER;
use seccompiler::SeccompCmpArgLen::{self, Dword, Qword};
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};
use std::collections::BTreeMap;

/// The system calls a calculation needs, and why.
const ALLOWED: &[i64] = &[
    // The task and its answer; standard error for the reason of a crash.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    // Threads that exist wait for each other and end; none can be made.
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    // A panic or a stack overflow ends the process by a signal to itself.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Where a thread's stack ends. Of another process it says which processors that may use, and changes nothing.
    libc::SYS_sched_getaffinity,
    // Seeds of hash tables; a clock.
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
];

/// The system calls a program needs beyond those.
const ALLOWED_TO_PROGRAM: &[i64] = &[
    // To become the program. Landlock says which programs there are.
    libc::SYS_execve,
    // Files. Landlock says which.
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_flock,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_umask,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    // Waiting for its own files and threads.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_getres,
    // Threads of its own.
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    // Who and where it is.
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
];

/// Kinds of `fcntl`: copies of a descriptor, its flags, locks of a file. Others name a process that is to be
/// told about a file, by a signal.
const FILE_CONTROLS: &[i32] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
];
/// The question of `ioctl` whether a file is a terminal. The constant of `libc` has another type on each system.
const TERMINAL_SETTINGS: u64 = 0x5401;
/// Namespaces of its own, in the flags of `clone`.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The error of a filter that was not installed.
#[derive(Debug)]
pub(super) struct FilterError;

/// Installs the filter of a sandbox worker on every thread of this process, for good.
pub(super) fn install() -> Result<(), FilterError> {
    let mut rules: Rules = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_tgkill, to_itself()?);
    let not_permitted = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    apply(rules, not_permitted, SeccompAction::Allow)
}

/// Installs the filter of a program that is not ours.
pub(super) fn install_for_program() -> Result<(), FilterError> {
    let allowed = [ALLOWED, ALLOWED_TO_PROGRAM, OLDER].concat();
    let mut rules: Rules = allowed.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_tgkill, to_itself()?);
    // Nought is the process itself, too.
    let bounds = [vec![is(0, 0)?], to_itself()?].concat();
    rules.insert(libc::SYS_prlimit64, bounds);
    let controls = FILE_CONTROLS.iter().map(|kind| is(1, kind.unsigned_abs()));
    rules.insert(libc::SYS_fcntl, controls.collect::<Result<_, _>>()?);
    // A thread and no process; a question about a terminal and no other.
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let looked_at = thread | u64::from(NAMESPACES.unsigned_abs());
    let is_thread = where_argument(0, Qword, SeccompCmpOp::MaskedEq(looked_at), thread)?;
    rules.insert(libc::SYS_clone, vec![is_thread]);
    let is_question = where_argument(1, Qword, SeccompCmpOp::Eq, TERMINAL_SETTINGS)?;
    rules.insert(libc::SYS_ioctl, vec![is_question]);
    // Its arguments cannot be judged. Where it is not known, its older form is used.
    rules.insert(libc::SYS_clone3, Vec::new());
    let not_permitted = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let not_known = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    // The stricter of two filters decides. The second one leaves no way to install a third.
    apply(
        Rules::from([(libc::SYS_clone3, Vec::new())]),
        SeccompAction::Allow,
        not_known,
    )?;
    apply(rules, not_permitted, SeccompAction::Allow)
}

/// The rule that the first argument is this process. Its number stays when it becomes another program.
fn to_itself() -> Result<Vec<SeccompRule>, FilterError> {
    Ok(vec![is(0, std::process::id())?])
}

/// The rule that an argument of 32 bits has a value. The system ignores the other half of such a one.
fn is(argument: u8, value: u32) -> Result<SeccompRule, FilterError> {
    where_argument(argument, Dword, SeccompCmpOp::Eq, u64::from(value))
}

fn where_argument(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, FilterError> {
    let condition = SeccompCondition::new(argument, length, operator, value);
    SeccompRule::new(vec![condition.map_err(|_| FilterError)?]).map_err(|_| FilterError)
}

fn apply(rules: Rules, otherwise: SeccompAction, matching: SeccompAction) -> Result<(), FilterError> {
    let arch = std::env::consts::ARCH.try_into().map_err(|_| FilterError)?;
    let filter = SeccompFilter::new(rules, otherwise, matching, arch).map_err(|_| FilterError)?;
    let program: BpfProgram = filter.try_into().map_err(|_| FilterError)?;
    seccompiler::apply_filter_all_threads(&program).map_err(|_| FilterError)
}

#[cfg(test)]
mod tests;
