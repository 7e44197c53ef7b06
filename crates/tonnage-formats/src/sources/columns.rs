//! The columns of several files that are read as one.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions, new_null_array},
    compute::cast,
    datatypes::{DataType, Field, Schema},
};
use tonnage_core::{
    convert::shown_type,
    error::{Error, Result, arrow_bug},
    source::{ReadRequest, SourceColumn},
};

/// What to do about files with other columns, where their union may be taken.
pub(crate) const OTHER_COLUMNS: &str =
    "--union takes the columns of all files, by name; or load files with other columns in a run of their own";

/// Takes the columns of all files together, by name.
pub(crate) fn unite(
    columns: &mut Vec<SourceColumn>,
    first: &str,
    others: &[SourceColumn],
    shown: &str,
) -> Result<()> {
    for column in columns.iter_mut() {
        column.nullable |= others.iter().all(|other| other.name != column.name);
    }
    for other in others {
        let Some(known) = columns.iter_mut().find(|column| column.name == other.name) else {
            columns.push(SourceColumn {
                nullable: true,
                ..other.clone()
            });
            continue;
        };
        known.nullable |= other.nullable;
        let Some(wider) = wider(&known.arrow, &other.arrow) else {
            let (ty, other_ty) = (shown_type(&known.arrow), shown_type(&other.arrow));
            return Err(Error::input(format!(
                "{shown}: column '{}' is {other_ty}, in {first} it is {ty}",
                other.name
            ))
            .hint("load files whose columns have other types in a run of their own"));
        };
        if *wider != known.arrow {
            *known = SourceColumn {
                nullable: known.nullable,
                ..other.clone()
            };
        }
    }
    Ok(())
}

/// Which of two types holds every value of both.
fn wider<'a>(one: &'a DataType, other: &'a DataType) -> Option<&'a DataType> {
    use DataType as D;
    let rank = |ty: &DataType| match ty {
        D::Int8 => Some((0, 8)),
        D::Int16 => Some((0, 16)),
        D::Int32 => Some((0, 32)),
        D::Int64 => Some((0, 64)),
        D::UInt8 => Some((1, 8)),
        D::UInt16 => Some((1, 16)),
        D::UInt32 => Some((1, 32)),
        D::UInt64 => Some((1, 64)),
        D::Float16 => Some((2, 16)),
        D::Float32 => Some((2, 32)),
        D::Float64 => Some((2, 64)),
        D::Utf8 => Some((3, 32)),
        D::LargeUtf8 => Some((3, 64)),
        D::Binary => Some((4, 32)),
        D::LargeBinary => Some((4, 64)),
        _ => None,
    };
    match (rank(one), rank(other)) {
        _ if one == other => Some(one),
        _ if *one == D::Null => Some(other),
        _ if *other == D::Null => Some(one),
        (Some((kind, bits)), Some((other_kind, other_bits))) if kind == other_kind => {
            Some(if bits >= other_bits { one } else { other })
        }
        _ => None,
    }
}

/// Where a file has the columns of a source whose files differ.
#[derive(Debug, PartialEq)]
pub(crate) struct FileColumns(Vec<Option<usize>>);

impl FileColumns {
    /// Of a file that has columns of these names.
    pub fn of(columns: &[SourceColumn], names: &[String]) -> Self {
        let places: HashMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
        let places = columns
            .iter()
            .map(|column| places.get(column.name.as_str()).copied());
        Self(places.collect())
    }

    /// What is asked of the file, where `request` is asked of the source.
    pub fn request(&self, request: &ReadRequest) -> ReadRequest {
        let columns = request.columns.iter();
        ReadRequest {
            columns: columns
                .filter_map(|(index, ty)| Some((self.0.get(*index).copied().flatten()?, *ty)))
                .collect(),
            ..request.clone()
        }
    }

    /// The rows of the file with all columns of `request`, in the types of `columns`: nulls where the file lacks one.
    pub fn complete(
        &self,
        rows: &RecordBatch,
        request: &ReadRequest,
        columns: &[SourceColumn],
    ) -> Result<RecordBatch> {
        let mut own = rows.columns().iter();
        let (mut arrays, mut fields) = (Vec::new(), Vec::new());
        for (index, _) in &request.columns {
            let column = &columns[*index];
            let array = match self.0.get(*index).copied().flatten().and_then(|_| own.next()) {
                None => new_null_array(&column.arrow, rows.num_rows()),
                Some(array) if *array.data_type() == column.arrow => array.clone(),
                Some(array) => cast(array, &column.arrow).map_err(arrow_bug)?,
            };
            fields.push(Field::new(&column.name, column.arrow.clone(), true));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).map_err(arrow_bug)
    }
}

/// Checks that the file `shown` has the columns of the first one, and notes where it allows nulls that others do not.
pub(crate) fn merge_columns(
    columns: &mut [SourceColumn],
    first: &str,
    others: &[SourceColumn],
    shown: &str,
) -> Result<()> {
    let differs =
        |what: String| Error::input(what).hint("load files with other columns in a run of their own");
    let lacks = |columns: &[SourceColumn], name: &str| columns.iter().all(|column| column.name != name);
    if let Some(missing) = columns.iter().find(|column| lacks(others, &column.name)) {
        return Err(differs(format!(
            "{shown} has no column '{}', {first} has",
            missing.name
        )));
    }
    if let Some(further) = others.iter().find(|column| lacks(columns, &column.name)) {
        return Err(differs(format!(
            "{shown} has a column '{}', {first} has not",
            further.name
        )));
    }
    for (index, (column, other)) in columns.iter_mut().zip(others).enumerate() {
        let (name, other_name) = (&column.name, &other.name);
        if name != other_name {
            return Err(differs(format!(
                "{shown}: column {} is '{other_name}', in {first} it is '{name}'",
                index + 1
            )));
        }
        if column.arrow != other.arrow {
            let (ty, other_ty) = (shown_type(&column.arrow), shown_type(&other.arrow));
            return Err(differs(format!(
                "{shown}: column '{name}' is {other_ty}, in {first} it is {ty}"
            )));
        }
        column.nullable |= other.nullable;
    }
    if columns.len() != others.len() {
        // Every name is in both, so one of them has a name twice.
        return Err(differs(format!(
            "{shown} has {} columns, {first} has {}",
            others.len(),
            columns.len()
        )));
    }
    Ok(())
}
