//! Line charts with logarithmic axes, as SVG.

use std::fmt::Write;

use crate::report::with_separators;

const WIDTH: f64 = 890.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 230.0; // for the legend
const TOP: f64 = 44.0;
const BOTTOM: f64 = 50.0;
/// Distinguishable with color blindness (Okabe and Ito).
const COLORS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9"];

pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x_title: &'static str,
    pub(crate) y_title: &'static str,
    pub(crate) series: Vec<Series>,
}

pub(crate) struct Series {
    pub(crate) title: String,
    /// Coordinates over 0.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws charts under each other.
pub(crate) fn svg(charts: &[Chart]) -> String {
    let height = HEIGHT * charts.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (index, chart) in charts.iter().enumerate() {
        let _ = writeln!(svg, "<g transform=\"translate(0 {})\">", HEIGHT * index as f64);
        chart.draw(&mut svg);
        svg += "</g>\n";
    }
    svg + "</svg>\n"
}

impl Chart {
    fn draw(&self, svg: &mut String) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = Axis::new(points().map(|point| point.0), LEFT, WIDTH - RIGHT, false);
        let y = Axis::new(points().map(|point| point.1), HEIGHT - BOTTOM, TOP, true);
        draw_text(svg, LEFT, TOP - 24.0, "start", &format!("<tspan font-weight=\"bold\">{}</tspan>", self.title));
        draw_text(svg, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0, "middle", self.x_title);
        draw_text(svg, LEFT, TOP - 8.0, "start", self.y_title);
        let mut ticks: Vec<_> = points().map(|point| point.0).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        for tick in ticks {
            draw_line(svg, &[(x.position(tick), TOP), (x.position(tick), HEIGHT - BOTTOM)], "#e5e5e5", 1);
            draw_text(svg, x.position(tick), HEIGHT - BOTTOM + 16.0, "middle", &with_separators(tick));
        }
        for tick in y.decades() {
            draw_line(svg, &[(LEFT, y.position(tick)), (WIDTH - RIGHT, y.position(tick))], "#e5e5e5", 1);
            draw_text(svg, LEFT - 6.0, y.position(tick) + 4.0, "end", &with_separators(tick));
        }
        for (index, (series, color)) in self.series.iter().zip(COLORS.into_iter().cycle()).enumerate() {
            let points: Vec<_> = series.points.iter().map(|&(a, b)| (x.position(a), y.position(b))).collect();
            draw_line(svg, &points, color, 2);
            for (x, y) in points {
                let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>");
            }
            let (left, top) = (WIDTH - RIGHT + 16.0, TOP + 10.0 + 20.0 * index as f64);
            draw_line(svg, &[(left, top), (left + 20.0, top)], color, 2);
            draw_text(svg, left + 26.0, top + 4.0, "start", &series.title);
        }
    }
}

/// A logarithmic axis.
struct Axis {
    /// The exponents of 10 at the ends.
    exponents: (f64, f64),
    /// The positions of the ends.
    ends: (f64, f64),
}

impl Axis {
    /// Creates an axis that contains the values, and ends at powers of 10 if `is_rounded`.
    fn new(values: impl Iterator<Item = f64>, start: f64, end: f64, is_rounded: bool) -> Self {
        let exponents = values.map(f64::log10);
        let (low, high) =
            exponents.fold((f64::MAX, f64::MIN), |(low, high), exponent| (low.min(exponent), high.max(exponent)));
        let exponents = if is_rounded { (low.floor(), high.ceil()) } else { (low, high) };
        Self { exponents, ends: (start, end) }
    }

    fn position(&self, value: f64) -> f64 {
        let (low, high) = self.exponents;
        let part = if high > low { (value.log10() - low) / (high - low) } else { 0.5 };
        self.ends.0 + part * (self.ends.1 - self.ends.0)
    }

    /// The powers of 10 on the axis.
    fn decades(&self) -> impl Iterator<Item = f64> {
        (self.exponents.0 as i32..=self.exponents.1 as i32).map(|exponent| 10_f64.powi(exponent))
    }
}

fn draw_line(svg: &mut String, points: &[(f64, f64)], color: &str, width: u8) {
    let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\"/>");
}

fn draw_text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}
