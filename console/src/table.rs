//! Columns that line up.

/// To which side a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table with a line per row under its headings. Nothing trails after the last column.
pub fn table(columns: &[(&str, Align)], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let headings = columns.iter().map(|(heading, _)| (*heading).to_owned());
    let mut lines: Vec<Vec<String>> = vec![headings.collect()];
    lines.extend(rows);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(columns).zip(&widths);
        let cells = cells.map(|((cell, (_, align)), &width)| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows =
            [["a", "1", ""], ["übér", "1000", "x"]].map(|row| row.map(String::from).to_vec());
        let columns = [
            ("N", Align::Left),
            ("SHARDS", Align::Right),
            ("E", Align::Left),
        ];
        assert_eq!(
            table(&columns, rows),
            "N     SHARDS  E\na          1\nübér    1000  x\n"
        );
    }
}
