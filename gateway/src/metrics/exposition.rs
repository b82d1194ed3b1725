//! Writes the text format of Prometheus.

use crate::engine::Spread;
use std::fmt::Write as _;

/// What a family is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A text under way.
#[derive(Debug)]
pub(super) struct Exposition {
    text: String,
}

impl Exposition {
    /// Goes on after `text`.
    pub(super) fn after(text: String) -> Self {
        Self { text }
    }

    /// Begins a family; its samples follow.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// One value.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
            return;
        }
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escape(value)))
            .collect();
        self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
    }

    /// The samples of one series of a histogram; bounds and sum are multiples of `unit`.
    pub(super) fn spread<const N: usize>(
        &mut self,
        family: &str,
        labels: &[(&str, &str)],
        spread: &Spread<N>,
        unit: f64,
    ) {
        let (mut count, name) = (0, format!("{family}_bucket"));
        for (bound, at_most) in spread.cumulative() {
            let bound = bound.map(|bound| (bound as f64 * unit).to_string());
            let mut labels = labels.to_vec();
            labels.push(("le", bound.as_deref().unwrap_or("+Inf")));
            self.sample(&name, &labels, at_most as f64);
            count = at_most;
        }
        self.sample(&format!("{family}_sum"), labels, spread.sum() as f64 * unit);
        self.sample(&format!("{family}_count"), labels, count as f64);
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{line}");
    }
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
