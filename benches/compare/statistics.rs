//! Medians and quartiles.

/// The median and the quartiles of samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) lower_quartile: f64,
    pub(crate) median: f64,
    pub(crate) upper_quartile: f64,
    pub(crate) samples: usize,
}

impl Summary {
    /// Returns `None` without samples.
    pub(crate) fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let quantile = |quarters| interpolate(&samples, quarters);
        (!samples.is_empty()).then(|| Self {
            lower_quartile: quantile(1),
            median: quantile(2),
            upper_quartile: quantile(3),
            samples: samples.len(),
        })
    }
}

/// The value after some quarters of the sorted samples.
fn interpolate(sorted: &[f64], quarters: usize) -> f64 {
    let position = (sorted.len() - 1) as f64 * quarters as f64 / 4.0;
    let [below, above] = [position.floor(), position.ceil()].map(|index| sorted[index as usize]);
    below + (above - below) * position.fract()
}
