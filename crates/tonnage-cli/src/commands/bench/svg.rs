//! Charts as SVG within a page: no script, no network, and colours by the page's variables, so that they follow light
//! and dark.

use std::fmt::Write;

use tonnage::measure::answer::Short;

/// Size of a chart, and what stays free of it for axes.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 44.0;
/// Colours that a page has.
pub const COLOURS: usize = 8;

/// A point, and how far it may be off.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
    /// What a mouse is told that points at it, beside these.
    pub about: String,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// What was measured here, in a colour of its own.
    Measured,
    /// What others have published: dashed, in the colour of the line of that place in the chart, which it is set beside.
    Published { beside: usize },
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: String,
    pub stroke: Stroke,
    /// In order of x.
    pub points: Vec<Point>,
}

impl Series {
    /// What was measured here.
    pub fn measured(name: String, points: Vec<Point>) -> Self {
        Self {
            name,
            stroke: Stroke::Measured,
            points,
        }
    }
}

/// How x is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Linear,
    Logarithmic,
}

/// Text in a page.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The least number of 1, 2 or 5 times a power of ten that is not below.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let found = steps.into_iter().find(|step| step * power >= value * 0.999_999);
    found.unwrap_or(10.0) * power
}

/// Lines over x, from 0 up, with their intervals. Empty where there is no point.
pub fn lines(label: &str, x_title: &str, axis: Axis, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|s| &s.points);
    let mut places: Vec<f64> = points().map(|p| p.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let (Some(first), Some(last)) = (places.first().copied(), places.last().copied()) else {
        return String::new();
    };
    let top = round_up(points().map(|p| p.high).fold(0.0, f64::max));
    let scaled = |x: f64| match axis {
        Axis::Linear => x,
        Axis::Logarithmic => x.max(1e-9).log10(),
    };
    let span = scaled(last) - scaled(first);
    let x_at = |x: f64| match span > 0.0 {
        true => LEFT + (scaled(x) - scaled(first)) / span * (WIDTH - LEFT - RIGHT),
        false => LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
    };
    let y_at = |y: f64| HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM);
    let mut svg = begin(label, HEIGHT);
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let y = y_at(value);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            Short(value)
        );
    }
    // As many places as can be read.
    let every = places.len().div_ceil(9);
    for x in places.iter().step_by(every.max(1)) {
        let _ = write!(
            svg,
            "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x_at(*x),
            HEIGHT - BOTTOM + 18.0,
            Short(*x)
        );
    }
    let _ = write!(
        svg,
        "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0,
        escaped(x_title)
    );
    for (index, one) in series.iter().enumerate() {
        let class = match one.stroke {
            Stroke::Measured => format!("c{}", index % COLOURS),
            Stroke::Published { beside } => format!("c{} published", beside % COLOURS),
        };
        let path: Vec<_> = one
            .points
            .iter()
            .map(|p| format!("{:.1},{:.1}", x_at(p.x), y_at(p.y)))
            .collect();
        let _ = write!(
            svg,
            "<g class=\"{class}\"><polyline points=\"{}\"/>",
            path.join(" ")
        );
        for p in &one.points {
            let (x, y) = (x_at(p.x), y_at(p.y));
            let _ = write!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                 <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{}: {} at {}{}</title></circle>",
                y_at(p.low),
                y_at(p.high),
                escaped(&one.name),
                Short(p.y),
                Short(p.x),
                escaped(&p.about)
            );
        }
        let y = TOP + 8.0 + 18.0 * index as f64;
        let x = WIDTH - RIGHT + 12.0;
        let _ = write!(
            svg,
            "<line x1=\"{x}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/></g><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 16.0,
            x + 22.0,
            y + 4.0,
            escaped(&one.name)
        );
    }
    svg.push_str("</svg>");
    svg
}

/// One bar a value, from 0 to the right, in their order. Empty where there is none.
pub fn bars(label: &str, values: &[(String, f64)]) -> String {
    const BAR: f64 = 24.0;
    const NAMES: f64 = 210.0;
    if values.is_empty() {
        return String::new();
    }
    let most = values
        .iter()
        .map(|(_, value)| *value)
        .fold(0.0, f64::max)
        .max(1e-9);
    let mut svg = begin(label, BAR * values.len() as f64 + 8.0);
    for (index, (name, value)) in values.iter().enumerate() {
        let y = 4.0 + BAR * index as f64;
        let width = value.max(0.0) / most * (WIDTH - NAMES - 80.0);
        let _ = write!(
            svg,
            "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <g class=\"c{}\"><rect x=\"{NAMES}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/></g>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            NAMES - 8.0,
            y + 16.0,
            escaped(name),
            index % COLOURS,
            y + 3.0,
            BAR - 6.0,
            NAMES + width + 6.0,
            y + 16.0,
            Short(*value)
        );
    }
    svg.push_str("</svg>");
    svg
}

fn begin(label: &str, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        escaped(label)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> Point {
        Point {
            x,
            y,
            low: y * 0.9,
            high: y * 1.1,
            about: String::new(),
        }
    }

    #[test]
    fn every_point_is_within_the_chart_and_every_name_is_text() {
        let name = "a<b & \"c\"".to_owned();
        let points = vec![point(1.0, 10.0), point(100.0, 2_000.0), point(10_000.0, 1.0)];
        let measured = Series::measured(name, points);
        let published = Series {
            stroke: Stroke::Published { beside: 0 },
            points: vec![point(1.0, 10.0), point(1_000.0, 9_000.0)],
            ..measured.clone()
        };
        let series = [measured, published];
        for axis in [Axis::Linear, Axis::Logarithmic] {
            let svg = lines("label", "x", axis, &series);
            assert_eq!(svg.matches("<circle").count(), 5);
            assert_eq!(svg.matches("class=\"c0").count(), 2, "both in one colour");
            assert_eq!(svg.matches("class=\"c0 published\"").count(), 1);
            assert!(
                svg.contains("a&lt;b &amp; &quot;c&quot;") && !svg.contains("NaN"),
                "{svg}"
            );
            for (name, within) in [("cx", LEFT..=WIDTH - RIGHT), ("cy", TOP..=HEIGHT - BOTTOM)] {
                for part in svg.split(&format!("{name}=\"")).skip(1) {
                    let at: f64 = part.split('"').next().unwrap().parse().unwrap();
                    assert!(within.contains(&at), "{name} {at}");
                }
            }
        }
        let middle = lines(
            "label",
            "x",
            Axis::Logarithmic,
            &[Series::measured("one".to_owned(), vec![point(1.0, 0.0)])],
        );
        assert!(middle.contains("<circle") && !middle.contains("NaN"), "{middle}");
        assert_eq!(lines("label", "x", Axis::Linear, &[]), "");
        assert_eq!(bars("label", &[]), "");
        assert!(!bars("label", &[("zero".to_owned(), 0.0)]).contains("NaN"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in [
            (0.7, 1.0),
            (1.0, 1.0),
            (1.1, 2.0),
            (23.0, 25.0),
            (260.0, 500.0),
            (5_001.0, 10_000.0),
        ] {
            assert!((round_up(value) / end - 1.0).abs() < 1e-9, "{value}");
        }
    }
}
