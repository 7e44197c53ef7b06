//! Published curves, laid over a chart of what was measured here: as ratios to their own first point, which lies on the one
//! of this chart. A chart without that point has none.

use std::fmt::Write;

use tonnage::{
    measure::{
        BenchMethod,
        published::{Chart, Over, curves},
    },
    operation::Method,
};

use super::svg::{Colour, Point, Series, Stroke, escaped};

/// Adds the curves that correspond to `chart`, whose lines so far are of `methods` in their order, as far as its x axis
/// goes. Says what they are, as a paragraph of the page; nothing where there is none.
pub fn lay(series: &mut Vec<Series>, methods: &[BenchMethod], chart: &Chart) -> String {
    let place = |method: BenchMethod| methods.iter().position(|one| *one == method);
    let last = series.iter().flat_map(|one| &one.points);
    let last = last.map(|point| point.x).fold(0.0, f64::max);
    let mut parts: Vec<&str> = Vec::new();
    let mut source = String::new();
    for curve in curves(chart) {
        let Some(beside) = place(curve.method) else {
            continue;
        };
        let first = |at: usize| series.get(at)?.points.iter().find(|point| point.x == 1.0);
        let reference = first(beside).or_else(|| match chart.over {
            // A write of one row is the same by whichever method.
            Over::BatchRows => first(place(BenchMethod::Load(Method::Single))?),
            Over::Jobs => None,
        });
        let Some(reference) = reference.map(|point| point.y) else {
            continue;
        };
        let within = curve.ratios.iter().filter(|(x, _)| *x as f64 <= last);
        let points: Vec<Point> = within
            .map(|(x, ratio)| Point {
                x: *x as f64,
                y: reference * ratio,
                low: reference * ratio,
                high: reference * ratio,
                about: format!("; {ratio:.1} times its first point"),
            })
            .collect();
        if points.len() > 1 {
            parts.push(curve.part);
            source = format!("{}: {}", curve.experiment, curve.source);
            series.push(Series {
                name: format!("{}, published", curve.method),
                stroke: Stroke::Published,
                colour: Colour::Of(curve.method),
                points,
            });
        }
    }
    if parts.is_empty() {
        return String::new();
    }
    let first = match chart.over {
        Over::BatchRows => "1 row a write",
        Over::Jobs => "1 job",
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<p class=\"soft\">Dashed: published, as ratios to its own point of {first}, which is laid on the one measured here. \
         {} ({})</p>",
        escaped(&source),
        escaped(&parts.join("; "))
    );
    text
}

#[cfg(test)]
mod tests {
    use tonnage::{
        generate::Workload,
        instruments::TableForm,
        measure::{Kind, touch::Touch},
        operation::Mode,
    };

    use super::*;

    fn chart(over: Over) -> Chart {
        Chart {
            over,
            kind: Kind {
                workload: Workload::Sbtest.into(),
                table: TableForm::default(),
                operation: Mode::Insert,
                touch: Touch::Each,
                reads: 0,
                round_trip_micros: 0,
            },
            jobs: 1,
            single_transaction: false,
            databases: 1,
        }
    }

    fn measured(points: &[(f64, f64)]) -> Series {
        let point = |(x, y): &(f64, f64)| Point {
            x: *x,
            y: *y,
            low: *y,
            high: *y,
            about: String::new(),
        };
        Series::measured(
            "of here".to_owned(),
            Colour::Plain,
            points.iter().map(point).collect(),
        )
    }

    #[test]
    fn a_curve_begins_at_the_point_of_one_row_and_goes_as_far_as_the_chart() {
        let methods = [
            BenchMethod::Load(Method::Single),
            BenchMethod::Load(Method::Array),
        ];
        let mut series = vec![
            measured(&[(1.0, 500.0)]),
            measured(&[(100.0, 9_000.0), (1_000.0, 20_000.0)]),
        ];
        let told = lay(&mut series, &methods, &chart(Over::BatchRows));
        assert!(
            told.contains("E4: PolarDB-X") && told.contains("one shard"),
            "{told}"
        );
        assert_eq!(series.len(), 3);
        let published = &series[2];
        assert_eq!(published.stroke, Stroke::Published);
        assert_eq!(published.colour, Colour::Of(BenchMethod::Load(Method::Array)));
        let xs: Vec<f64> = published.points.iter().map(|point| point.x).collect();
        assert_eq!(xs, [1.0, 10.0, 100.0, 500.0, 1_000.0]);
        assert_eq!(published.points[0].y, 500.0);
        assert!((published.points[4].y - 500.0 * 210_644.0 / 5_397.0).abs() < 1e-6);
    }

    #[test]
    fn without_the_first_point_there_is_no_curve() {
        let two = [(2.0, 900.0), (4.0, 1_000.0)];
        for (over, methods, series) in [
            (
                Over::BatchRows,
                vec![BenchMethod::Load(Method::Array)],
                vec![measured(&[(100.0, 9_000.0)])],
            ),
            (
                Over::BatchRows,
                vec![BenchMethod::Load(Method::Single)],
                vec![measured(&[(1.0, 500.0)])],
            ),
            (
                Over::BatchRows,
                vec![BenchMethod::Load(Method::Array)],
                vec![measured(&[(1.0, 500.0)])],
            ),
            (
                Over::Jobs,
                vec![BenchMethod::Load(Method::Array)],
                vec![measured(&two)],
            ),
            (
                Over::Jobs,
                vec![
                    BenchMethod::Load(Method::Single),
                    BenchMethod::Load(Method::Array),
                ],
                vec![measured(&[(1.0, 5.0), (4.0, 9.0)]), measured(&two)],
            ),
        ] {
            let mut laid = series.clone();
            assert_eq!(lay(&mut laid, &methods, &chart(over)), "", "{over:?} {methods:?}");
            assert_eq!(laid, series);
        }
    }
}
