//! Did you mean: the nearest of the known names.

/// The candidate nearest to `wanted`, if it is near enough to be a slip.
pub(crate) fn nearest<'a>(wanted: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.is_empty() || wanted.len() > 80 {
        return None;
    }
    let allowed = (wanted.chars().count() / 3).max(1);
    let scored = candidates.filter(|c| c.len() <= 80).map(|c| (distance(wanted, c), c));
    scored.filter(|(d, _)| *d <= allowed).min().map(|(_, c)| c)
}

/// Fewest insertions, deletions and replacements; case counts little.
fn distance(a: &str, b: &str) -> usize {
    if a.eq_ignore_ascii_case(b) {
        return 0;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let best = (corner + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_finds_none() {
        let names = ["Conv", "Concat", "Softmax"];
        assert_eq!(nearest("Softmacks", names.into_iter()), Some("Softmax"));
        assert_eq!(nearest("conv", names.into_iter()), Some("Conv"));
        assert_eq!(nearest("Zebra", names.into_iter()), None);
    }
}
