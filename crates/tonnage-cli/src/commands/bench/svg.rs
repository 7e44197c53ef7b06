//! Charts as SVG within a page: no script, no network, and colours by the page's variables, so that they follow light
//! and dark.

use std::fmt::Write;

use tonnage::measure::{BenchMethod, answer::Short};

/// Size of a chart, and what stays free of it for axes.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 44.0;
/// About as many steps as an axis is cut into.
const STEPS: f64 = 5.0;

/// What a colour means, on the whole of a page: the method that rows went by, or a buffer, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    Of(BenchMethod),
    Plain,
}

impl Colour {
    /// The class that a page's style gives the colour to.
    pub fn class(self) -> &'static str {
        match self {
            Self::Of(BenchMethod::Load(method)) => method.name(),
            Self::Of(BenchMethod::Buffer(_)) => "buffer",
            Self::Plain => "plain",
        }
    }
}

/// A bar of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub name: String,
    pub value: f64,
    pub colour: Colour,
}

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
    /// What was measured here.
    Measured,
    /// What others have published: dashed.
    Published,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: String,
    pub stroke: Stroke,
    pub colour: Colour,
    /// In order of x.
    pub points: Vec<Point>,
}

impl Series {
    /// What was measured here.
    pub fn measured(name: String, colour: Colour, points: Vec<Point>) -> Self {
        Self {
            name,
            stroke: Stroke::Measured,
            colour,
            points,
        }
    }
}

/// How x is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// With a tick at each place that was measured.
    Linear,
    /// The same, logarithmic.
    Logarithmic,
    /// From 0 on, with ticks at round places: what was measured lies anywhere.
    Elapsed,
}

/// Text in a page.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The ticks of an axis from 0 to `most`: multiples of 1, 2 or 5 times a power of ten, the last not below it.
fn ticks(most: f64) -> Vec<f64> {
    let most = most.max(1e-9);
    let power = 10_f64.powf((most / STEPS).log10().floor());
    let found = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|step| step * power * STEPS >= most * 0.999_999);
    let step = found.unwrap_or(10.0) * power;
    let count = (most / step * 0.999_999).ceil() as u32;
    (0..=count).map(|number| f64::from(number) * step).collect()
}

/// Lines over x, from 0 up, with their intervals. Empty where there is no point.
pub fn lines(label: &str, x_title: &str, axis: Axis, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|s| &s.points);
    let mut places: Vec<f64> = points().map(|p| p.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    if let (Axis::Elapsed, Some(last)) = (axis, places.last()) {
        places = ticks(*last);
    }
    let (Some(first), Some(last)) = (places.first().copied(), places.last().copied()) else {
        return String::new();
    };
    let heights = ticks(points().map(|p| p.high).fold(0.0, f64::max));
    let top = heights.last().copied().unwrap_or(1.0);
    let scaled = |x: f64| match axis {
        Axis::Linear | Axis::Elapsed => x,
        Axis::Logarithmic => x.max(1e-9).log10(),
    };
    let span = scaled(last) - scaled(first);
    let x_at = |x: f64| match span > 0.0 {
        true => LEFT + (scaled(x) - scaled(first)) / span * (WIDTH - LEFT - RIGHT),
        false => LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
    };
    let y_at = |y: f64| HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM);
    let mut svg = begin(label, HEIGHT);
    for value in heights {
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
        draw(&mut svg, index, one, |p| {
            (x_at(p.x), y_at(p.y), [p.low, p.high].map(&y_at))
        });
    }
    svg.push_str("</svg>");
    svg
}

/// Draws the series at `index`, whose points are `at` x, y and an interval of y.
fn draw(svg: &mut String, index: usize, one: &Series, at: impl Fn(&Point) -> (f64, f64, [f64; 2])) {
    let class = match one.stroke {
        Stroke::Measured => one.colour.class().to_owned(),
        Stroke::Published => format!("{} published", one.colour.class()),
    };
    let path: Vec<_> = one
        .points
        .iter()
        .map(|p| {
            let (x, y, _) = at(p);
            format!("{x:.1},{y:.1}")
        })
        .collect();
    let _ = write!(
        svg,
        "<g class=\"{class}\"><polyline points=\"{}\"/>",
        path.join(" ")
    );
    for p in &one.points {
        let (x, y, [low, high]) = at(p);
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\"/>\
             <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{}: {} at {}{}</title></circle>",
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

/// One bar a value, from 0 to the right, in their order. Empty where there is none.
pub fn bars(label: &str, values: &[Bar]) -> String {
    const BAR: f64 = 24.0;
    const NAMES: f64 = 210.0;
    if values.is_empty() {
        return String::new();
    }
    let most = values.iter().map(|bar| bar.value).fold(0.0, f64::max).max(1e-9);
    let mut svg = begin(label, BAR * values.len() as f64 + 8.0);
    for (index, Bar { name, value, colour }) in values.iter().enumerate() {
        let y = 4.0 + BAR * index as f64;
        let width = value.max(0.0) / most * (WIDTH - NAMES - 80.0);
        let _ = write!(
            svg,
            "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <g class=\"{}\"><rect x=\"{NAMES}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/></g>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            NAMES - 8.0,
            y + 16.0,
            escaped(name),
            colour.class(),
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
        let measured = Series::measured(name, Colour::Of(tonnage::operation::Method::Array.into()), points);
        let published = Series {
            stroke: Stroke::Published,
            points: vec![point(1.0, 10.0), point(1_000.0, 9_000.0)],
            ..measured.clone()
        };
        let series = [measured, published];
        for axis in [Axis::Linear, Axis::Logarithmic, Axis::Elapsed] {
            let svg = lines("label", "x", axis, &series);
            assert_eq!(svg.matches("<circle").count(), 5);
            assert_eq!(svg.matches("class=\"array").count(), 2, "both in one colour");
            assert_eq!(svg.matches("class=\"array published\"").count(), 1);
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
            &[Series::measured(
                "one".to_owned(),
                Colour::Plain,
                vec![point(1.0, 0.0)],
            )],
        );
        assert!(middle.contains("<circle") && !middle.contains("NaN"), "{middle}");
        assert_eq!(lines("label", "x", Axis::Linear, &[]), "");
        assert_eq!(bars("label", &[]), "");
        let zero = Bar {
            name: "zero".to_owned(),
            value: 0.0,
            colour: Colour::Plain,
        };
        assert!(!bars("label", &[zero]).contains("NaN"));
    }

    #[test]
    fn ticks_are_round_and_reach_the_most() {
        for (most, expected) in [
            (0.7, vec![0.0, 0.2, 0.4, 0.6, 0.8]),
            (1.0, vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (23.0, vec![0.0, 5.0, 10.0, 15.0, 20.0, 25.0]),
            (260.0, vec![0.0, 100.0, 200.0, 300.0]),
            (5_001.0, vec![0.0, 2_000.0, 4_000.0, 6_000.0]),
        ] {
            let found = ticks(most);
            assert_eq!(found.len(), expected.len(), "{most}: {found:?}");
            for (one, expected) in found.iter().zip(&expected) {
                assert!((one - expected).abs() < 1e-9 * most, "{most}: {found:?}");
            }
        }
    }
}
