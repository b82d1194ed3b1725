//! Points in time as people read them: RFC 3339, UTC, milliseconds.

use time::OffsetDateTime;

/// How long such a text is.
pub(super) const RFC3339_BYTES: usize = 24;

/// A point in time as text, such as `2026-11-29T23:16:34.075Z`.
///
/// Written by hand because the library's own RFC 3339 leaves out zeros at the end of the
/// fraction, and its formats of any other kind cost more than the rest of a renewal's reply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    unix_ms: u64,
    text: [u8; RFC3339_BYTES],
}

impl Stamp {
    /// So many milliseconds after the Unix epoch. Points beyond the year 9999 become the epoch.
    pub(super) fn new(unix_ms: u64) -> Self {
        let nanos = i128::from(unix_ms) * 1_000_000;
        let at =
            OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        digits(&mut text[..4], at.year().unsigned_abs());
        digits(&mut text[5..7], u32::from(u8::from(at.month())));
        digits(&mut text[8..10], u32::from(at.day()));
        digits(&mut text[11..13], u32::from(at.hour()));
        digits(&mut text[14..16], u32::from(at.minute()));
        digits(&mut text[17..19], u32::from(at.second()));
        digits(&mut text[20..23], u32::from(at.millisecond()));
        Self { unix_ms, text }
    }

    /// This, or another one if it is not of that time: most of a batch ends at one time.
    pub(super) fn at(&mut self, unix_ms: u64) -> &str {
        if self.unix_ms != unix_ms {
            *self = Self::new(unix_ms);
        }
        self.as_str()
    }

    pub(super) fn as_str(&self) -> &str {
        // Digits and punctuation only.
        str::from_utf8(&self.text).unwrap_or_default()
    }
}

/// Fills `place` with the digits of `number`, from the last one on.
fn digits(place: &mut [u8], number: u32) {
    let mut left = number;
    for byte in place.iter_mut().rev() {
        *byte = b"0123456789"[(left % 10) as usize];
        left /= 10;
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
            assert_eq!(Stamp::new(unix_ms).as_str(), text);
            assert_eq!(Stamp::new(1).at(unix_ms), text);
        }
    }
}
