//! The age of something, in words for people.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats a time with its age: `14:02 UTC (3 h ago)`, with the date if the day differs.
pub(in crate::engine::gateway) fn since(then: Timestamp, at: Timestamp) -> String {
    let (then_utc, at_utc) = (then.to_zoned(TimeZone::UTC), at.to_zoned(TimeZone::UTC));
    let clock = match then_utc.date() == at_utc.date() {
        true => then_utc.strftime("%H:%M UTC"),
        false => then_utc.strftime("%Y-%m-%d %H:%M UTC"),
    };
    let seconds = at.duration_since(then).as_secs().max(0);
    let ago = match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    };
    format!("{clock} ({ago} ago)")
}

#[cfg(test)]
mod tests {
    use super::since;
    use jiff::Timestamp;

    #[test]
    fn an_age_reads_well() {
        let at = Timestamp::from_second(1_795_262_400).unwrap_or_default();
        for (seconds, reads) in [
            (0, "12:00 UTC (0 s ago)"),
            (61, "11:58 UTC (1 min ago)"),
            (3 * 3_600 - 1, "09:00 UTC (2 h ago)"),
            (13 * 3_600, "2026-11-20 23:00 UTC (13 h ago)"),
            (10 * 86_400, "2026-11-11 12:00 UTC (10 days ago)"),
            // The clock was set back.
            (-5, "12:00 UTC (0 s ago)"),
        ] {
            let then = at - jiff::SignedDuration::from_secs(seconds);
            assert_eq!(since(then, at), reads, "{seconds}");
        }
    }
}
