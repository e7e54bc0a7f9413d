//! Times in several zones, compared with a search of every minute.

use super::{Recurrence, RecurrenceError, is_zone, nearest_zone, shown_in, spelled_zone};
use jiff::civil::{DateTime, date};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::{ProptestConfig, Strategy, prop_oneof, proptest};
use std::collections::BTreeSet;

/// Zones with and without summer time, with half hours, with a change of half an hour, and south of the equator.
const ZONES: [&str; 7] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Casablanca",
];

fn instant(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn upcoming(when: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let recurrence = Recurrence::parse(when, zone).unwrap();
    let times = recurrence.upcoming(instant(after), count);
    times.iter().map(ToString::to_string).collect()
}

/// STK-8
#[test]
fn the_forms_of_people_and_of_cron_mean_the_same_times() {
    for (words, cron) in [
        ("daily 09:00", "0 9 * * *"),
        ("weekdays 9:00", "0 9 * * 1-5"),
        ("Weekends 10:30", "30 10 * * sat,7"),
        ("mondays 08:30", "30 8 * * mon"),
        ("monday,thursdays 00:00", "0 0 * * 1,4"),
        ("monthly 1 09:00", "0 9 1 * *"),
        ("every 15m", "*/15 * * * *"),
        ("every 1h", "0 */1 * * *"),
    ] {
        let times = |when| upcoming(when, "UTC", "2026-11-28T12:00:00Z", 40);
        assert_eq!(times(words), times(cron), "{words}");
        assert_eq!(Recurrence::check(words), Ok(()));
        assert_eq!(Recurrence::check(cron), Ok(()));
    }
    // A day of the month or a day of the week, as cron has it.
    assert_eq!(
        upcoming("0 12 13 * fri", "UTC", "2026-11-01T00:00:00Z", 4),
        [
            "2026-11-06T12:00:00Z",
            "2026-11-13T12:00:00Z",
            "2026-11-20T12:00:00Z",
            "2026-11-27T12:00:00Z"
        ]
    );
    assert_eq!(
        upcoming("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1),
        ["2104-02-29T00:00:00Z"]
    );
}

#[test]
fn times_that_mean_nothing_are_refused_with_the_forms() {
    for when in [
        "",
        "09:00",
        "daily",
        "daily 24:00",
        "daily 9",
        "daily 9:0 0",
        "someday 09:00",
        "monthly 29 09:00",
        "monthly 0 09:00",
        "every 0m",
        "every 15",
        "every -5m",
        "every 169h",
        "every 99999999999999999999m",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "5/10 * * * *",
        "*/0 * * * *",
        "* * * *",
        "* * * * * *",
        "+1 * * * *",
        "ä * * * *",
    ] {
        let refused = Recurrence::parse(when, "UTC").unwrap_err();
        assert_eq!(Recurrence::check(when), Err(refused.clone()));
        assert!(matches!(refused, RecurrenceError::Form(_)), "{when}: {refused}");
        assert!(
            refused.to_string().contains("`weekdays 09:00`"),
            "{when}: {refused}"
        );
    }
    let never = Recurrence::parse("0 0 30 2 *", "UTC").unwrap_err();
    assert_eq!(never.to_string(), "`0 0 30 2 *` never happens");
    assert_eq!(Recurrence::check("0 0 30 2 *"), Err(never));
    for zone in ["", "Mars/Olympus", "../../etc/passwd", "CET CEST", "Europe", "ü"] {
        let refused = Recurrence::parse("daily 09:00", zone).unwrap_err();
        assert!(matches!(refused, RecurrenceError::Zone(_)), "{zone}");
        assert!(!is_zone(zone), "{zone}");
    }
}

#[test]
fn a_zone_is_spelled_as_its_database_spells_it_and_a_mistyped_one_is_guessed() {
    for (typed, spelled) in [
        ("europe/berlin", "Europe/Berlin"),
        ("AMERICA/new_york", "America/New_York"),
        ("UTC", "UTC"),
    ] {
        assert_eq!(spelled_zone(typed).as_deref(), Ok(spelled));
    }
    assert_eq!(
        spelled_zone("Mars/Base"),
        Err(RecurrenceError::Zone("Mars/Base".to_owned()))
    );
    for (typed, meant) in [
        ("Europe/Berln", Some("Europe/Berlin")),
        ("Berlin", Some("Europe/Berlin")),
        ("berln", Some("Europe/Berlin")),
        ("New York", Some("America/New_York")),
        ("Amercia/New_York", Some("America/New_York")),
        ("", None),
        ("Mars/Base", None),
        ("Europe", None),
        ("GMT+1", None),
    ] {
        assert_eq!(nearest_zone(typed).as_deref(), meant, "{typed}");
    }
    assert_eq!(nearest_zone(&"ü".repeat(10_000)), None);
}

#[test]
fn one_time_is_shown_as_people_in_a_zone_read_it() {
    // Clocks in Berlin go forward between the two.
    for (time, shown) in [
        ("2027-03-28T00:59:00Z", "Sun 28 Mar 2027 01:59"),
        ("2027-03-28T01:00:00Z", "Sun 28 Mar 2027 03:00"),
    ] {
        assert_eq!(shown_in(instant(time), "Europe/Berlin").as_deref(), Some(shown));
        let recurrence = Recurrence::parse("daily 09:00", "Europe/Berlin").unwrap();
        assert_eq!(recurrence.shown(instant(time)), shown);
    }
    assert_eq!(shown_in(instant("2027-03-28T01:00:00Z"), "Mars/Base"), None);
}

#[test]
fn a_skipped_time_comes_right_after_the_gap_and_a_doubled_one_comes_first() {
    // On 29 March 2026 at 02:00, clocks in Berlin go to 03:00.
    assert_eq!(
        upcoming("daily 02:30", "Europe/Berlin", "2026-03-28T12:00:00Z", 2),
        ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    );
    assert_eq!(
        upcoming("*/20 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 4),
        [
            "2026-03-29T01:00:00Z",
            "2026-03-29T01:20:00Z",
            "2026-03-29T01:40:00Z",
            "2026-03-30T00:00:00Z"
        ]
    );
    // On 25 October 2026 at 03:00, they go back to 02:00.
    assert_eq!(
        upcoming("daily 02:30", "Europe/Berlin", "2026-10-24T12:00:00Z", 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    // From within the second pass of the hour, its times have been.
    assert_eq!(
        upcoming("*/20 * * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 2),
        ["2026-10-25T02:00:00Z", "2026-10-25T02:20:00Z"]
    );
    // An interval does not depend on the zone.
    assert_eq!(
        upcoming("every 6h", "Europe/Berlin", "2026-03-28T23:00:00Z", 2),
        ["2026-03-29T00:00:00Z", "2026-03-29T06:00:00Z"]
    );
    // Apia had no 30 December 2011.
    assert_eq!(
        upcoming("daily 09:00", "Pacific/Apia", "2011-12-29T10:00:00Z", 2),
        ["2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z"]
    );
}

#[test]
fn times_that_are_close_are_found_wherever_they_are() {
    let after = instant("2026-11-28T12:00:00Z");
    let five = SignedDuration::from_mins(5);
    for (when, is_closer) in [
        ("every 4m", true),
        ("every 5m", false),
        ("* * * * *", true),
        ("1,58 9,10 * * *", true),
        ("0,10,20,30,40,50,54 3 1 1 *", true),
        ("*/5 * * * *", false),
        ("monthly 1 09:00", false),
    ] {
        let recurrence = Recurrence::parse(when, "UTC").unwrap();
        assert_eq!(recurrence.is_closer_than(five, after), is_closer, "{when}");
    }
}

/// Returns the instants of a year at which a civil minute that passes the test comes, by the rule of the module.
fn every_minute(zone: &str, matches: impl Fn(DateTime) -> bool) -> BTreeSet<Timestamp> {
    let zone = TimeZone::get(zone).unwrap();
    let (mut civil, end) = (date(2026, 1, 1).at(0, 0, 0, 0), date(2027, 1, 2).at(0, 0, 0, 0));
    let mut found = BTreeSet::new();
    while civil < end {
        if matches(civil) {
            let ambiguous = zone.to_ambiguous_timestamp(civil);
            found.insert(match ambiguous.offset() {
                AmbiguousOffset::Gap { .. } => {
                    // Minute by minute to the first one that exists.
                    let mut later = civil;
                    while let AmbiguousOffset::Gap { .. } = zone.to_ambiguous_timestamp(later).offset() {
                        later = later.checked_add(1.minute()).unwrap();
                    }
                    zone.to_ambiguous_timestamp(later).earlier().unwrap()
                }
                _ => ambiguous.earlier().unwrap(),
            });
        }
        civil = civil.checked_add(10.minutes()).unwrap();
    }
    found
}

#[test]
fn no_time_of_a_year_is_lost_or_doubled_in_any_zone() {
    let (begin, end) = (instant("2026-01-02T00:00:00Z"), instant("2026-12-31T00:00:00Z"));
    for zone in ZONES {
        let matches = |civil: DateTime| civil.hour() <= 3 && civil.minute() % 30 == 0;
        let expected: Vec<Timestamp> = every_minute(zone, matches)
            .into_iter()
            .filter(|time| *time > begin && *time <= end)
            .collect();
        let recurrence = Recurrence::parse("*/30 0-3 * * *", zone).unwrap();
        let times: Vec<Timestamp> =
            std::iter::successors(recurrence.next(begin), |time| recurrence.next(*time))
                .take_while(|time| *time <= end)
                .collect();
        assert_eq!(times, expected, "{zone}");
    }
}

fn when() -> impl Strategy<Value = String> {
    let time = (0..24_u32, 0..60_u32).prop_map(|(hour, minute)| format!("{hour:02}:{minute:02}"));
    let days = proptest::sample::select(vec!["daily", "weekdays", "weekends", "sundays", "monthly 28"]);
    prop_oneof![
        (days, time).prop_map(|(days, time)| format!("{days} {time}")),
        (1..10_080_u32).prop_map(|minutes| format!("every {minutes}m")),
        (1..60_u32, 1..24_u32, 1..31_u32, 0..7_u32)
            .prop_map(|(minute, hour, day, weekday)| format!("*/{minute} */{hour} {day} * {weekday}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn the_next_time_is_later_and_nothing_is_between(
        when in when(),
        zone in proptest::sample::select(ZONES.to_vec()),
        after in 1_700_000_000_i64..1_900_000_000,
        part in 0..1_000_i64,
    ) {
        let recurrence = Recurrence::parse(&when, zone).unwrap();
        let after = Timestamp::from_millisecond(after * 1_000 + part).unwrap();
        let next = recurrence.next(after).unwrap();
        assert!(next > after, "{when} {zone}: {next}");
        // From every instant before it, the same time is next or an earlier one that is before `after`.
        let between = after + next.duration_since(after) / 2;
        assert_eq!(recurrence.next(between.max(after)), Some(next), "{when} {zone}");
        assert!(recurrence.next(next).unwrap() > next, "{when} {zone}");
    }

    #[test]
    fn no_text_panics(when in ".{0,40}", zone in ".{0,20}") {
        let _ = Recurrence::parse(&when, &zone);
    }
}
