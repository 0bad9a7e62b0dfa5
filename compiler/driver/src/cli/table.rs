//! Plain tables: columns as wide as their widest cell.

/// A table with a head; numbers to the right, words to the left.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column names.
    pub fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(|h| (*h).to_string()).collect()] }
    }
    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
    /// Lines without trailing blanks.
    pub fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &'_ Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let widths: Vec<usize> =
            (0..columns).map(|c| self.rows.iter().map(|row| cell(row, c).chars().count()).max().unwrap_or(0)).collect();
        let is_number = |c: usize| {
            let mut cells =
                self.rows[1..].iter().map(|row| cell(row, c)).filter(|cell| !cell.is_empty() && cell != "-").peekable();
            cells.peek().is_some() && cells.all(|cell| cell.starts_with(|x: char| x.is_ascii_digit()))
        };
        let right: Vec<bool> = (0..columns).map(is_number).collect();
        let line = |row: &Vec<String>| {
            let cells = (0..columns).map(|c| {
                let (text, width) = (cell(row, c), widths[c]);
                if right[c] { format!("{text:>width$}") } else { format!("{text:<width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
        };
        self.rows.iter().map(line).collect()
    }
}

/// `1.4 MB`: decimal units, as disks and registries count.
pub fn bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.2} GB", n as f64 / 1e9),
    }
}

/// `1.25 s`, `12.3 ms`, `45 µs`.
pub fn seconds(s: f64) -> String {
    match s {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_words_left() {
        let mut table = Table::new(&["name", "count"]);
        table.row(vec!["a".into(), "12".into()]);
        table.row(vec!["long".into(), "3".into()]);
        assert_eq!(table.lines(), ["name  count", "a        12", "long      3"]);
    }

    #[test]
    fn sizes_and_times_read_well() {
        assert_eq!((bytes(999), bytes(1_500), bytes(2_500_000)), ("999 B".into(), "1.5 kB".into(), "2.5 MB".into()));
        assert_eq!((seconds(1.5), seconds(0.0123), seconds(4.5e-5)), ("1.50 s".into(), "12.30 ms".into(), "45.0 µs".into()));
    }
}
