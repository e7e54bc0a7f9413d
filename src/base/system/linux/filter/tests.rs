//! Tests of the filter alone, without Landlock or limits. A confined process tries every kind of system call that names
//! another process, its parent, or that leads out of the sandbox in another way.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "the calls are made as a hostile program makes them"
)]

use super::{FilterError, install, install_for_program};
use std::ffi::c_long;

/// The environment variable that names the test to run in its own process.
const ALONE: &str = "DRYDOCK_TEST_ALONE";

/// A system call and its arguments.
struct Call(&'static str, c_long, [c_long; 6]);

impl Call {
    /// Makes the call. Returns the error number, or 0.
    fn made(&self) -> i32 {
        let Self(_, number, [a, b, c, d, e, f]) = *self;
        // SAFETY: pointers among the arguments are null or point to live memory, and no call is made that would do harm
        // if it succeeded.
        let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
        match result {
            -1 => std::io::Error::last_os_error().raw_os_error().unwrap(),
            _ => 0,
        }
    }
}

/// Builds a call with the given arguments; the rest are 0.
fn call<const COUNT: usize>(name: &'static str, number: c_long, given: [c_long; COUNT]) -> Call {
    let mut arguments = [0; 6];
    arguments.iter_mut().zip(given).for_each(|(to, from)| *to = from);
    Call(name, number, arguments)
}

/// Returns calls that name the process `other`. Without a filter none of them fails with "not permitted" here, since
/// both processes have the same user. Calls that could change something change nothing, or have invalid arguments.
fn at_another(other: c_long) -> Vec<Call> {
    const PROCESS: c_long = 0;
    let control = |name, kind: i32, value| call(name, libc::SYS_fcntl, [0, c_long::from(kind), value]);
    vec![
        call("kill", libc::SYS_kill, [other, 0]),
        call("kill of a group", libc::SYS_kill, [-other, 0]),
        call("tkill", libc::SYS_tkill, [other, 0]),
        call("tgkill", libc::SYS_tgkill, [other, other, 0]),
        // The system ignores the upper half.
        call("tgkill, wide", libc::SYS_tgkill, [other | 1 << 32, other, 0]),
        call("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, [other, 0]),
        call(
            "rt_tgsigqueueinfo",
            libc::SYS_rt_tgsigqueueinfo,
            [other, other, 0],
        ),
        call("pidfd_open", libc::SYS_pidfd_open, [other]),
        call("pidfd_send_signal", libc::SYS_pidfd_send_signal, [0, 0]),
        call("pidfd_getfd", libc::SYS_pidfd_getfd, [0, 0]),
        call("process_vm_readv", libc::SYS_process_vm_readv, [other]),
        call("process_vm_writev", libc::SYS_process_vm_writev, [other]),
        call("process_madvise", libc::SYS_process_madvise, [0]),
        call("ptrace", libc::SYS_ptrace, [0x4206, other, 0, -1]),
        call("prlimit64", libc::SYS_prlimit64, [other, 4]),
        call("prlimit64, wide", libc::SYS_prlimit64, [other | 1 << 32, 4]),
        call("setpriority", libc::SYS_setpriority, [PROCESS, other, 0]),
        call("getpriority", libc::SYS_getpriority, [PROCESS, other]),
        call("sched_setaffinity", libc::SYS_sched_setaffinity, [other]),
        call("sched_setscheduler", libc::SYS_sched_setscheduler, [other]),
        call("sched_setparam", libc::SYS_sched_setparam, [other]),
        call("sched_setattr", libc::SYS_sched_setattr, [other]),
        call("ioprio_set", libc::SYS_ioprio_set, [1, other]),
        call("ioprio_get", libc::SYS_ioprio_get, [1, other]),
        call("migrate_pages", libc::SYS_migrate_pages, [other]),
        call("move_pages", libc::SYS_move_pages, [other]),
        call("kcmp", libc::SYS_kcmp, [other, other]),
        call("perf_event_open", libc::SYS_perf_event_open, [0, other, -1, -1]),
        call("setpgid", libc::SYS_setpgid, [other]),
        call("getpgid", libc::SYS_getpgid, [other]),
        call("getsid", libc::SYS_getsid, [other]),
        call("get_robust_list", libc::SYS_get_robust_list, [other]),
        control("fcntl F_SETOWN", libc::F_SETOWN, other),
        control("fcntl F_GETOWN", libc::F_GETOWN, 0),
        control("fcntl F_SETOWN_EX", 15, 0),
        control("fcntl F_SETSIG", 10, 0),
        control("fcntl F_SETLEASE", 1024, 2),
        control("fcntl F_NOTIFY", 1026, 0),
        control("fcntl F_ADD_SEALS", 1033, 0),
        call("ioctl FIOSETOWN", libc::SYS_ioctl, [0, 0x8901]),
        call("ioctl FIOASYNC", libc::SYS_ioctl, [0, 0x5452]),
        call("ioctl TIOCSTI", libc::SYS_ioctl, [0, 0x5412]),
        call("ioctl TIOCSPGRP", libc::SYS_ioctl, [0, 0x5410]),
    ]
}

/// Returns calls that lead out of the sandbox in other ways, with invalid arguments.
fn ways_out() -> Vec<Call> {
    let broken = c_long::from(libc::CLONE_SIGHAND);
    let namespace = c_long::from(libc::CLONE_NEWUSER | libc::CLONE_THREAD | libc::CLONE_SIGHAND);
    vec![
        call("clone of a process", libc::SYS_clone, [broken]),
        call("clone into a namespace", libc::SYS_clone, [namespace]),
        call("unshare", libc::SYS_unshare, [-1]),
        call("setns", libc::SYS_setns, [-1]),
        call("execveat", libc::SYS_execveat, [-1]),
        call("socket", libc::SYS_socket, [-1]),
        call("socketpair", libc::SYS_socketpair, [-1]),
        call("connect", libc::SYS_connect, [-1]),
        call("sendto", libc::SYS_sendto, [-1]),
        call("sendmsg", libc::SYS_sendmsg, [-1]),
        call("recvmsg", libc::SYS_recvmsg, [-1]),
        call("bpf", libc::SYS_bpf, [-1]),
        call("userfaultfd", libc::SYS_userfaultfd, [-1]),
        call("io_uring_setup", libc::SYS_io_uring_setup, [0]),
        call("memfd_create", libc::SYS_memfd_create, [0]),
        call("open_by_handle_at", libc::SYS_open_by_handle_at, [-1]),
        call("openat2", libc::SYS_openat2, [-1]),
        call("linkat", libc::SYS_linkat, [-1]),
        call("symlinkat", libc::SYS_symlinkat, [0]),
        call("mknodat", libc::SYS_mknodat, [-1]),
        call("fchmodat", libc::SYS_fchmodat, [-1]),
        call("fchownat", libc::SYS_fchownat, [-1]),
        call("mount", libc::SYS_mount, [0]),
        call("chroot", libc::SYS_chroot, [0]),
        call("shmget", libc::SYS_shmget, [0]),
        call("msgget", libc::SYS_msgget, [0]),
        call("semget", libc::SYS_semget, [0]),
        call("mq_open", libc::SYS_mq_open, [0]),
        call("inotify_init1", libc::SYS_inotify_init1, [-1]),
        call("fanotify_init", libc::SYS_fanotify_init, [-1]),
        call("timer_create", libc::SYS_timer_create, [-1]),
        call("setitimer", libc::SYS_setitimer, [-1]),
        call("keyctl", libc::SYS_keyctl, [-1]),
        call("add_key", libc::SYS_add_key, [0]),
        call("prctl", libc::SYS_prctl, [-1]),
        call("seccomp", libc::SYS_seccomp, [-1]),
        call("landlock_create_ruleset", libc::SYS_landlock_create_ruleset, [-1]),
        call("personality", libc::SYS_personality, [-1]),
        call("setuid", libc::SYS_setuid, [0]),
        call("setrlimit", libc::SYS_setrlimit, [-1]),
        call("wait4", libc::SYS_wait4, [-1, 0, 1]),
        call("splice", libc::SYS_splice, [-1]),
        call("remap_file_pages", libc::SYS_remap_file_pages, [0]),
    ]
}

/// Returns calls that are allowed for an external program and refused for a sandbox worker: one opens a world-readable
/// file, one executes a program that does not exist.
fn of_a_program() -> Vec<Call> {
    let pointer = |text: &'static std::ffi::CStr| text.as_ptr().expose_provenance() as c_long;
    let (file, nowhere) = (pointer(c"/proc/version"), pointer(c"/nowhere/program"));
    let here = c_long::from(libc::AT_FDCWD);
    vec![
        call("openat", libc::SYS_openat, [here, file]),
        call("execve", libc::SYS_execve, [nowhere]),
    ]
}

/// Returns the calls of a process on itself. The filter of a sandbox worker allows only the first.
fn at_itself(itself: c_long) -> Vec<Call> {
    // SAFETY: the call has no arguments and only reads the thread id.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    let fcntl = |name, kind: i32| call(name, libc::SYS_fcntl, [0, c_long::from(kind)]);
    vec![
        call("tgkill", libc::SYS_tgkill, [itself, thread, 0]),
        call("prlimit64 of nought", libc::SYS_prlimit64, [0, 4]),
        call("prlimit64", libc::SYS_prlimit64, [itself, 4]),
        fcntl("fcntl F_GETFD", libc::F_GETFD),
        fcntl("fcntl F_GETFL", libc::F_GETFL),
    ]
}

/// Runs this test again in its own process, unless this is that process.
#[allow(clippy::disallowed_methods, reason = "the test starts itself")]
fn alone(test: &str, inside: impl FnOnce(c_long)) {
    let (_, module) = module_path!().split_once("::").unwrap();
    let test = format!("{module}::{test}");
    if std::env::var_os(ALONE).is_some_and(|named| named == *test) {
        let parent = rustix::process::getppid().unwrap();
        return inside(c_long::from(parent.as_raw_nonzero().get()));
    }
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args([&test, "--exact", "--test-threads=1", "--nocapture"])
        .env(ALONE, &test)
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && said.contains("1 passed"),
        "{said}{errors}"
    );
}

/// Returns a call with arguments that a filter cannot inspect. The filter reports it as unknown, so programs use the
/// older form.
fn clone3() -> Call {
    call("clone3", libc::SYS_clone3, [0, 0])
}

/// Makes the calls without and with the filter. A call that already fails without the filter proves nothing, so the
/// most important calls must succeed first.
fn tried(install: fn() -> Result<(), FilterError>, parent: c_long, own_calls: usize) {
    for call in at_another(parent) {
        if ["kill", "tgkill", "prlimit64", "getpriority", "fcntl F_GETOWN"].contains(&call.0) {
            assert_eq!(call.made(), 0, "{} without a filter", call.0);
        }
    }
    let itself = c_long::from(std::process::id());
    install().unwrap();
    for call in at_another(parent).into_iter().chain(ways_out()) {
        assert_eq!(call.made(), libc::EPERM, "{}", call.0);
    }
    for call in at_itself(itself).into_iter().take(own_calls) {
        assert_eq!(call.made(), 0, "{} of its own", call.0);
    }
}

/// T46, T50
#[test]
fn a_worker_reaches_no_other_process_by_the_filter_alone() {
    alone(
        "a_worker_reaches_no_other_process_by_the_filter_alone",
        |parent| {
            for call in of_a_program() {
                let expected = if call.0 == "execve" { libc::ENOENT } else { 0 };
                assert_eq!(call.made(), expected, "{} without a filter", call.0);
            }
            tried(install, parent, 1);
            for call in of_a_program().into_iter().chain([clone3()]) {
                assert_eq!(call.made(), libc::EPERM, "{}", call.0);
            }
        },
    );
}

/// T46, T50
#[test]
fn a_program_reaches_no_other_process_by_the_filter_alone() {
    alone(
        "a_program_reaches_no_other_process_by_the_filter_alone",
        |parent| {
            tried(install_for_program, parent, usize::MAX);
            assert_eq!(clone3().made(), libc::ENOSYS);
            // The filter leaves these calls to Landlock.
            for call in of_a_program() {
                let expected = if call.0 == "execve" { libc::ENOENT } else { 0 };
                assert_eq!(call.made(), expected, "{}", call.0);
            }
        },
    );
}
