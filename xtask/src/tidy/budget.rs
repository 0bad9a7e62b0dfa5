//! The minutes of continuous integration: every stage has some, and the sum is what is allowed.

use super::files::File;

const PATH: &str = "ci/budget.toml";

/// What the table cannot be: without a total, over it, or with a stage that nothing runs.
pub fn check(files: &[File]) -> Vec<String> {
    let Some(table) = files.iter().find(|file| file.path == PATH) else {
        return vec![format!("{PATH}: missing")];
    };
    let Some(runner) = files.iter().find(|file| file.path == "scripts/test") else {
        return vec!["scripts/test: missing".to_owned()];
    };
    let mut faults = Vec::new();
    let mut total = None;
    let mut sum = 0.0;
    for (name, minutes) in rows(&table.text) {
        if name == "total" {
            total = Some(minutes);
            continue;
        }
        sum += minutes;
        let runs = runner.text.lines().any(|line| line.trim_start().starts_with(&format!("stage {name} ")));
        if !runs {
            faults.push(format!("{PATH}: scripts/test has no stage {name}"));
        }
    }
    match total {
        None => faults.push(format!("{PATH}: say the total")),
        Some(total) if total + 1e-9 < sum => faults.push(format!("{PATH}: the stages take {sum} minutes, the total is {total}")),
        Some(_) => {}
    }
    faults
}

/// The `name = minutes` lines.
fn rows(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split('#').next()?.split_once('=')?;
        Some((name.trim(), value.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(table: &str, runner: &str) -> usize {
        check(&[File::new(PATH, table), File::new("scripts/test", runner)]).len()
    }

    #[test]
    fn the_sum_of_the_stages_stays_within_the_total() {
        let runner = "stage a run_a\nstage b run_b\n";
        assert_eq!(faults("total = 3\na = 1\nb = 2 # long\n", runner), 0);
        assert_eq!(faults("total = 3\na = 1\nb = 2.5\n", runner), 1);
        assert_eq!(faults("a = 1\n", runner), 1);
    }

    #[test]
    fn a_stage_that_nothing_runs_is_a_fault() {
        assert_eq!(faults("total = 3\nc = 1\n", "stage a run_a\n"), 1);
    }
}
