//! Points in time as people read them: RFC 3339, UTC, milliseconds.

use time::OffsetDateTime;

/// How long such a text is.
pub(super) const RFC3339_BYTES: usize = 24;

/// Appends so many milliseconds after the Unix epoch, such as `2026-11-29T23:16:34.075Z`. Points
/// beyond the year 9999 become the epoch.
///
/// Written by hand because the library's own RFC 3339 leaves out zeros at the end of the
/// fraction, and its formats of any other kind cost more than the rest of a renewal's reply.
pub(super) fn push_rfc3339(text: &mut String, unix_ms: u64) {
    let nanos = i128::from(unix_ms) * 1_000_000;
    let at = OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    digits(text, at.year().unsigned_abs(), 1000);
    text.push('-');
    digits(text, u32::from(u8::from(at.month())), 10);
    text.push('-');
    digits(text, u32::from(at.day()), 10);
    text.push('T');
    digits(text, u32::from(at.hour()), 10);
    text.push(':');
    digits(text, u32::from(at.minute()), 10);
    text.push(':');
    digits(text, u32::from(at.second()), 10);
    text.push('.');
    digits(text, u32::from(at.millisecond()), 100);
    text.push('Z');
}

/// Pushes the digits of `number`, the first of which stands for `place`.
fn digits(text: &mut String, number: u32, place: u32) {
    let mut place = place;
    while place > 0 {
        let digit = number / place % 10;
        text.push(char::from_digit(digit, 10).unwrap_or('0'));
        place /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_all_its_digits() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_709_210_096_070, "2024-02-29T12:34:56.070Z"),
            (1_796_000_000_500, "2026-11-30T00:53:20.500Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (u64::MAX, "1970-01-01T00:00:00.000Z"),
        ] {
            let mut written = String::new();
            push_rfc3339(&mut written, unix_ms);
            assert_eq!(written, text);
            assert_eq!(written.len(), RFC3339_BYTES);
        }
    }
}
