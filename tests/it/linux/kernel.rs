//! A simulation of other kernels for a child process: a filter of system calls, inherited by all its child processes,
//! fails some calls as if they did not exist.
#![allow(
    unsafe_code,
    reason = "what a child does to itself before it becomes the program is said to the system"
)]

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A call that fails, always or for one value of an argument.
#[derive(Clone, Copy)]
pub(super) struct FailingSyscall {
    call: i64,
    argument: Option<(u8, u64)>,
}

const fn call(call: i64) -> FailingSyscall {
    FailingSyscall { call, argument: None }
}

const fn call_with(call: i64, at: u8, value: i32) -> FailingSyscall {
    FailingSyscall {
        call,
        argument: Some((at, value.unsigned_abs() as u64)),
    }
}

/// A kernel without Landlock, or started without it.
pub(super) const LANDLOCK: &[FailingSyscall] = &[
    call(libc::SYS_landlock_create_ruleset),
    call(libc::SYS_landlock_add_rule),
    call(libc::SYS_landlock_restrict_self),
];
/// The features that this program uses and that Linux 4.18 does not have yet.
pub(super) const SINCE_4_18: &[FailingSyscall] = &[
    call(libc::SYS_landlock_create_ruleset),
    call(libc::SYS_landlock_add_rule),
    call(libc::SYS_landlock_restrict_self),
    call(libc::SYS_openat2),
    call(libc::SYS_pidfd_open),
    call(libc::SYS_pidfd_send_signal),
    call(libc::SYS_close_range),
    call(libc::SYS_clone3),
    call(libc::SYS_faccessat2),
    call(libc::SYS_fchmodat2),
    call(libc::SYS_epoll_pwait2),
];
/// A kernel without system call filters.
pub(super) const SECCOMP: &[FailingSyscall] = &[
    call(libc::SYS_seccomp),
    call_with(libc::SYS_prctl, 0, libc::PR_SET_SECCOMP),
];
/// A runtime that does not allow a process to request a signal when its parent ends.
pub(super) const PARENT_DEATH: &[FailingSyscall] = &[call_with(libc::SYS_prctl, 0, libc::PR_SET_PDEATHSIG)];
/// A runtime that does not allow a process to set limits for itself.
pub(super) const LIMITS: &[FailingSyscall] = &[call_with(libc::SYS_prlimit64, 1, libc::RLIMIT_NPROC as i32)];

/// Makes a command run without these calls. Later filters still apply.
pub(super) fn without(command: &mut Command, missing: &[FailingSyscall]) {
    let filter = filter(missing);
    // SAFETY: between fork and exec nothing is allocated and no lock is taken. The filter exists already, and
    // installing it takes two system calls.
    unsafe {
        command.pre_exec(move || apply_filter(&filter).map_err(|_| std::io::ErrorKind::Unsupported.into()));
    }
}

fn filter(missing: &[FailingSyscall]) -> BpfProgram {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for missing in missing {
        let of_call = rules.entry(missing.call).or_default();
        if let Some((at, value)) = missing.argument {
            let equal = SeccompCondition::new(at, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
                .expect("a condition");
            of_call.push(SeccompRule::new(vec![equal]).expect("a rule"));
        }
    }
    let not_there = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into().expect("a known processor");
    SeccompFilter::new(rules, SeccompAction::Allow, not_there, architecture)
        .and_then(TryInto::try_into)
        .expect("a filter")
}
