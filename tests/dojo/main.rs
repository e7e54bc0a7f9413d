//! DockDojo: a table of attacks and of harmless twins, played against the real gateway between emulators. The model is
//! hijacked: it answers with the text of the table, whatever the request. The rows are data
//! (`tests/dojo/cases/*.toml`). Their format is in `table.rs`, and the checks are in `watch/`, `memory/` and `judge.rs`. A class
//! prints one line: its name, the promises it attacks, and the numbers of its cases, violations and seconds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "a test says what it expects by failing, and may look at the machine it runs on"
)]

mod fixture;
mod bystander;
mod class;
mod configuration;
mod controls;
mod expansion;
mod extent;
mod options;
mod judge;
mod run_case;
mod repository;
#[path = "../it/support/built.rs"]
mod built;
#[allow(dead_code, reason = "nobody starts the programs here")]
#[path = "../it/support/require.rs"]
mod require;
mod script;
mod secrets;
mod table;
#[cfg_attr(target_os = "linux", path = "touches/linux.rs")]
#[cfg_attr(target_os = "macos", path = "touches/macos.rs")]
mod touches;
#[cfg_attr(target_os = "linux", path = "memory/linux.rs")]
#[cfg_attr(target_os = "macos", path = "memory/macos.rs")]
mod memory;
mod watch;
mod placeholders;
#[allow(dead_code, reason = "nobody moves the clock here")]
#[path = "../it/support/world.rs"]
mod world;

use class::run;

/// T26, T35, T36, T70, I4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_path_of_a_hijacked_model_leaves_the_repository() {
    run("paths").await;
}

/// T39, T70, I4, I5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_of_a_hijacked_model_reaches_files_of_git() {
    run("git_files").await;
}

/// T29, T30, T60, T70, I4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_of_a_hijacked_model_writes_beyond_the_grant() {
    run("prod").await;
}

/// T25, T26, T27, T70, I3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_another_person_is_shown_to_a_hijacked_model() {
    run("others").await;
}

/// T44, T53, T70, T81, I5, I6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_package_comes_from_anywhere_that_is_not_listed() {
    run("packages").await;
}

/// T59, T67, T70, T93, I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_many_and_huge_calls_end_as_errors() {
    run("calls").await;
}

/// T45, T70, I4, I7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_program_reads_a_file_outside_or_the_process() {
    run("jsonnet_reads").await;
}

/// T50, T51, T70, I5, I6, REP-7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_native_function_starts_a_program_or_connects() {
    run("natives").await;
}

/// T46, T47, T48, T49, T54, T70, I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_never_ends_or_takes_all_is_an_error_of_its_call() {
    run("bombs").await;
}

/// T58, T61, T63, T70, T71, T72, T73, T74, I8, I6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_of_a_hijacked_model_pings_links_or_deceives() {
    run("answers").await;
}

/// T08, T24, T57, T65, T66, T70, I3, I4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_of_a_file_or_a_payload_changes_rights() {
    run("injection").await;
}

/// T43, T69, T70, T78, I8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_name_forges_a_line_among_our_facts() {
    run("names").await;
}

/// T55, T70, I4, I9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_environment_is_pointed_elsewhere_in_silence() {
    run("moves").await;
}

/// T55, T70, I4, I9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_environment_is_pointed_at_another_context_in_silence() {
    run("moves_by_context").await;
}

/// T55, T70, I4, I9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_environment_without_a_cluster_is_pointed_where_others_may_live() {
    run("moves_anywhere").await;
}

/// T44, T50, T51, T70, I4, I5, I6, I7, I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_chart_reads_connects_or_runs_without_end() {
    run("charts").await;
}

/// T09, T70, T94, I3, I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_up_invites_admit_nobody_and_get_a_bounded_number_of_answers() {
    run("invites").await;
}

/// T01, T70, T74, I3, I4, I7, I8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_and_webhooks_of_telegram_open_nothing_more() {
    run("telegram_hooks").await;
}

/// T66, T70, I4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_during_a_turn_gives_a_hijacked_model_no_rights() {
    run("steering").await;
}

/// T07, T70, I3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_button_that_somebody_else_presses_does_nothing() {
    run("buttons").await;
}

/// T07, T70, I3, I8, I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_hijacked_model_reaches_its_person_only_and_as_plain_words() {
    run("questions").await;
}

/// T28, T66, T70, I3, I4, I8, I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_hijacked_model_needs_consent_and_gives_no_rights() {
    run("messages").await;
}

/// T70, I3, I4, I7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_result_is_read_by_its_own_conversation_only() {
    run("outputs").await;
}

/// T66, T70, I3, I4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_summary_of_a_hijacked_model_stays_data() {
    run("summaries").await;
}

/// T66, T70, I3, I4, I7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_of_a_hijacked_model_stays_data() {
    run("kept_notes").await;
}

/// T70, I4, I7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hijacked_fallback_gets_nothing_more_than_the_first_model() {
    run("fallbacks").await;
}

/// T59, T66, T70, I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_model_answer_never_ends_a_conversation() {
    run("wire").await;
}

/// T70, P5, I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_throttles_one_keeps_the_others_working() {
    run("throttling").await;
}

/// T70, T77, I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_any_size_is_a_handful_of_messages() {
    run("posts").await;
}

/// T56, T70, T87, I7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_marked_as_secret_is_shown_to_nobody() {
    run("secrets").await;
}

/// T45, T56, T70, T87, I7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_goes_through_a_program_is_hidden_in_what_comes_out() {
    run("jsonnet_secrets").await;
}

/// T70, T86, T87, I7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_hijacked_model_says_of_a_secret_of_the_server_is_kept_and_shown_nowhere() {
    run("echo").await;
}

/// T46, T70, P5, I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_the_endless_programs_of_another_person() {
    run("starving").await;
}

/// T47, T70, I10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_programs_that_render_very_much_do_not_fill_the_memory() {
    run("memory").await;
}
