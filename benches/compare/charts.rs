//! The charts of the results.

use crate::contestant::Contestant;
use crate::plot::{self, Chart, Series};
use crate::report::{growth_series, growth_title};
use crate::results::Results;
use crate::workloads::{Id, Operation, Place, SESSIONS};

/// Cost against store size and against sessions.
pub(crate) fn svg(results: &Results) -> String {
    let growth = growth_series().map(|(of, operation)| {
        let point = |files| {
            let seconds = results.median(Id::Growth { operation, files }, of)?;
            Some((files as f64, seconds * 1e6))
        };
        let points = results.growth().into_iter().filter_map(point).collect();
        Series { title: growth_title(of, operation).replace('`', ""), points }
    });
    let mut charts = vec![Chart {
        title: "Cost against store size".to_owned(),
        x_title: "files in the store",
        y_title: "µs per command",
        series: growth.into(),
    }];
    for (place, title) in [(Place::OneStore, "own files of one store"), (Place::OneFile, "one file")] {
        let series = Contestant::ALL.map(|of| {
            let point = |sessions| {
                let id = Id::Concurrent { operation: Operation::Insert, place, sessions };
                Some((sessions as f64, results.median(id, of)? * 1e6))
            };
            let lost: usize = results
                .figures
                .iter()
                .filter(|figure| figure.contestant == of)
                .filter(|figure| matches!(figure.id, Id::Concurrent { place: at, .. } if at == place))
                .map(|figure| figure.insertions.lost)
                .sum();
            let suffix = if lost > 0 { ", loses lines" } else { "" };
            Series {
                title: format!("{}{suffix}", of.title()),
                points: SESSIONS.into_iter().filter_map(point).collect(),
            }
        });
        charts.push(Chart {
            title: format!("Cost of an insert into {title} against sessions"),
            x_title: "concurrent sessions",
            y_title: "µs per insert, all sessions together",
            series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
        });
    }
    charts.retain(|chart| chart.series.iter().any(|series| !series.points.is_empty()));
    plot::svg(&charts)
}
