//! Observers: what range of numbers eight bits should stand for.
//!
//! They see tensors one run after the other and keep the extremes and an even sample; equal inputs give equal ranges.

use oaaxc_ir::Tensor;

use super::Range;

/// How a range is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Observer {
    /// From the smallest to the largest number.
    #[default]
    MinMax,
    /// Cuts off one number in ten thousand at each end.
    Percentile,
    /// Of ranges from all to a fifth: the one whose rounding costs least in the mean square.
    Mse,
}

impl Observer {
    /// By the name that the command line uses.
    pub fn from_name(name: &str) -> Option<Observer> {
        match name {
            "min-max" => Some(Observer::MinMax),
            "percentile" => Some(Observer::Percentile),
            "mse" => Some(Observer::Mse),
            _ => None,
        }
    }
}

/// Most numbers that are kept of one tensor of one run.
const SAMPLE: usize = 1 << 14;
/// The share that `Percentile` keeps.
const KEPT: f64 = 0.9999;

/// What was seen of one value.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    low: f32,
    high: f32,
    any: bool,
    finite: bool,
    sample: Vec<f32>,
}

impl Seen {
    /// Sees one more tensor.
    pub fn see(&mut self, tensor: &Tensor) {
        let count = tensor.len();
        let step = count.div_ceil(SAMPLE).max(1);
        self.finite |= !self.any;
        for i in 0..count {
            let v = tensor.f64_at(i) as f32;
            if !v.is_finite() {
                self.finite = false;
                continue;
            }
            if !self.any {
                (self.low, self.high, self.any) = (v, v, true);
            }
            self.low = self.low.min(v);
            self.high = self.high.max(v);
            if i % step == 0 {
                self.sample.push(v);
            }
        }
    }
    /// The extremes; infinite where something was.
    pub fn extremes(&self) -> Range {
        match self.finite {
            true => Range { low: self.low, high: self.high },
            false => Range { low: f32::NEG_INFINITY, high: f32::INFINITY },
        }
    }
    /// The range that an observer chooses; `None` where nothing finite was seen.
    pub fn range(&self, observer: Observer) -> Option<Range> {
        if !self.any || !self.finite {
            return None;
        }
        let whole = Range { low: self.low, high: self.high };
        Some(match observer {
            Observer::MinMax => whole,
            Observer::Percentile => {
                let mut sorted = self.sample.clone();
                sorted.sort_by(f32::total_cmp);
                let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
                Range { low: at(1.0 - KEPT), high: at(KEPT) }
            }
            Observer::Mse => {
                let candidates = (0..=16).map(|i| 1.0 - 0.05 * i as f32);
                let cut = |share: f32| Range { low: whole.low * share, high: whole.high * share };
                let best = candidates.map(cut).min_by(|a, b| self.cost(*a).total_cmp(&self.cost(*b)));
                best.unwrap_or(whole)
            }
        })
    }
    /// Mean square of what rounding and saturating to this range cost.
    fn cost(&self, range: Range) -> f64 {
        let (scale, zero) = parameters(range);
        let one = |v: &f32| f64::from(v - (quantised(*v, scale, zero) - zero) * scale).powi(2);
        self.sample.iter().map(one).sum()
    }
    /// Largest difference that eight bits make to the sample, over its largest magnitude.
    pub fn error(&self, range: Range) -> f64 {
        let (scale, zero) = parameters(range);
        let gap = |v: &f32| f64::from((v - (quantised(*v, scale, zero) - zero) * scale).abs());
        let largest = self.sample.iter().map(|v| f64::from(v.abs())).fold(0.0, f64::max);
        if largest == 0.0 { 0.0 } else { self.sample.iter().map(gap).fold(0.0, f64::max) / largest }
    }
}

/// Scale and zero point of unsigned eight bits for a range, which is widened to hold 0.
pub fn parameters(range: Range) -> (f32, f32) {
    let (low, high) = (range.low.min(0.0), range.high.max(0.0));
    let span = (f64::from(high) - f64::from(low)) / 255.0;
    let scale = if span > f64::from(f32::MIN_POSITIVE) { span as f32 } else { 1.0 };
    (scale, (-low / scale).round_ties_even().clamp(0.0, 255.0))
}

fn quantised(v: f32, scale: f32, zero: f32) -> f32 {
    ((v / scale).round_ties_even() + zero).clamp(0.0, 255.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[f32]) -> Seen {
        let mut seen = Seen::default();
        seen.see(&Tensor::from_f32s(vec![values.len()], values));
        seen
    }

    #[test]
    fn a_range_always_holds_zero_and_ends_on_its_numbers() {
        let (scale, zero) = parameters(Range { low: 1.0, high: 2.55 });
        assert_eq!((scale, zero), (2.55f32 / 255.0, 0.0));
        let (_, zero) = parameters(Range { low: -1.0, high: 0.0 });
        assert_eq!(zero, 255.0);
        assert_eq!(parameters(Range { low: 0.0, high: 0.0 }), (1.0, 0.0));
    }

    #[test]
    fn one_stray_number_stretches_min_max_alone() {
        let mut values: Vec<f32> = (0..12000).map(|i| (i % 100) as f32 / 100.0).collect();
        values[77] = 1000.0;
        let s = seen(&values);
        assert_eq!(s.range(Observer::MinMax).expect("finite").high, 1000.0);
        assert!(s.range(Observer::Percentile).expect("finite").high < 1.0);
    }

    #[test]
    fn the_mean_square_never_costs_more_than_the_whole_range() {
        for stray in [1.0, 1.02, 2.0, 50.0] {
            let mut values: Vec<f32> = (0..16000).map(|i| (i % 200) as f32 / 200.0).collect();
            values[5] = stray;
            let s = seen(&values);
            let (whole, best) = (s.range(Observer::MinMax).expect("finite"), s.range(Observer::Mse).expect("finite"));
            assert!(s.cost(best) <= s.cost(whole) && best.high <= whole.high, "{stray}: {best:?}");
        }
    }

    #[test]
    fn an_infinity_has_no_range() {
        assert_eq!(seen(&[1.0, f32::INFINITY]).range(Observer::MinMax), None);
    }
}
