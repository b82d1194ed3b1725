//! What is printed of hand-overs.

use hdrhistogram::Histogram;
use holdfast_console::{Align, table};
use serde::Serialize;

/// Both kinds.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) busy: Kind,
    pub(super) rested: Kind,
}

/// Hand-overs beside acquires in the same circumstances.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kind {
    acquire: Figures,
    hand_over: Figures,
    /// How many times as long as an acquire a hand-over takes, by their medians.
    ratio: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    count: u64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Kind {
    /// Of times in microseconds.
    pub(super) fn of(acquires: &Histogram<u64>, hand_overs: &Histogram<u64>) -> Self {
        let (acquire, hand_over) = (Figures::of(acquires), Figures::of(hand_overs));
        Self {
            ratio: hand_over.p50_ms / acquire.p50_ms,
            acquire,
            hand_over,
        }
    }
}

impl Figures {
    fn of(times: &Histogram<u64>) -> Self {
        let ms = |quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            count: times.len(),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
        }
    }

    fn row(&self, what: String, ratio: Option<f64>) -> Vec<String> {
        let ms = |ms: f64| format!("{ms:.2}");
        let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let (p50, p99) = (ms(self.p50_ms), ms(self.p99_ms));
        vec![what, self.count.to_string(), p50, p99, ratio]
    }
}

impl Report {
    pub(super) fn table(&self) -> String {
        let columns = [
            ("", Align::Left),
            ("times", Align::Right),
            ("p50 ms", Align::Right),
            ("p99 ms", Align::Right),
            ("ratio of the p50", Align::Right),
        ];
        let kinds = [("busy", &self.busy), ("rested", &self.rested)];
        let rows = kinds.into_iter().flat_map(|(name, kind)| {
            let hand_over = format!("{name}, release to next holder");
            [
                kind.acquire.row(format!("{name}, plain acquire"), None),
                kind.hand_over.row(hand_over, Some(kind.ratio)),
            ]
        });
        table(&columns, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_over_is_compared_with_acquires_of_its_own_kind() {
        let of = |us: u64| {
            let mut times = Histogram::new(3).unwrap();
            times.record(us).unwrap();
            times
        };
        let report = Report {
            busy: Kind::of(&of(500), &of(1_000)),
            rested: Kind::of(&of(2_000), &of(3_000)),
        };
        assert_eq!(
            report.table(),
            "                                times  p50 ms  p99 ms  ratio of the p50\n\
             busy, plain acquire                 1    0.50    0.50\n\
             busy, release to next holder        1    1.00    1.00              2.00\n\
             rested, plain acquire               1    2.00    2.00\n\
             rested, release to next holder      1    3.00    3.00              1.50\n"
        );
    }
}
