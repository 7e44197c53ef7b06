//! Tables of different forms compared: what their indexes, columns, keys and storage cost. A pure function of a
//! report.
//!
//! - Only what is alike in everything else is compared: rows, operation, round trip and durability, which is the strongest
//!   that was measured.
//! - Each form is represented by its fastest setting, which may differ between forms.

use tonnage_core::{instruments::TableForm, operation::Durability};

use super::{
    figures::{BenchReport, Cell},
    setting::Kind,
};

/// One form of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside<'a> {
    /// It.
    pub table: TableForm,
    /// Its fastest cell.
    pub fastest: &'a Cell,
    /// Its rows a second over those of the first form.
    pub ratio: f64,
}

/// Forms that were measured with the same rows in the same way.
#[derive(Debug, Clone, PartialEq)]
pub struct Forms<'a> {
    /// What they have in common; its form is the usual one.
    pub kind: Kind,
    /// What their commits promise.
    pub durability: Durability,
    /// They, in the order of the cells.
    pub forms: Vec<Beside<'a>>,
}

/// Forms of tables compared, where more than one was measured.
pub fn forms(report: &BenchReport) -> Vec<Forms<'_>> {
    let mut found: Vec<Forms> = Vec::new();
    for answer in &report.answers {
        let kind = answer.kind;
        let cells = report
            .cells
            .iter()
            .filter(|cell| cell.setting.kind() == kind && cell.setting.durability == answer.durability)
            .filter(|cell| !cell.setting.method.is_buffer());
        let by_median = |a: &&Cell, b: &&Cell| a.rows_per_second.median.total_cmp(&b.rows_per_second.median);
        let Some(fastest) = cells.max_by(by_median) else {
            continue;
        };
        let common = Kind {
            table: TableForm::default(),
            ..kind
        };
        let is_alike = |forms: &&mut Forms| forms.kind == common && forms.durability == answer.durability;
        let alike = found.iter_mut().find(is_alike);
        let form = |first: f64| Beside {
            table: kind.table,
            fastest,
            ratio: fastest.rows_per_second.median / first.max(f64::MIN_POSITIVE),
        };
        match alike {
            Some(forms) => {
                let first = forms.forms[0].fastest.rows_per_second.median;
                forms.forms.push(form(first));
            }
            None => found.push(Forms {
                kind: common,
                durability: answer.durability,
                forms: vec![form(fastest.rows_per_second.median)],
            }),
        }
    }
    found.retain(|forms| forms.forms.len() > 1);
    found
}

/// Kinds of which nothing could be measured, and why, each reason once: no answer tells of these.
pub fn unmeasured(report: &BenchReport) -> Vec<(Kind, &str)> {
    let mut found: Vec<(Kind, &str)> = Vec::new();
    for out in &report.ruled_out {
        let one = (out.setting.kind(), out.why.as_str());
        let is_answered = report.answers.iter().any(|answer| answer.kind == one.0);
        if !is_answered && !found.contains(&one) {
            found.push(one);
        }
    }
    found
}
