//! Statements of the user's own.
//!
//! DuckDB does not tell the types of parameters. One that goes into a column as it is has the column's, and so has one that is
//! compared with a column. Any other is of the source's type and is bound as it is.

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    statement::Statement,
    table::{Column, Equality, Table},
    types::ColumnType,
};

use super::{catalog, connection::Connection, errors::failed, sql::parameter, types};

/// A table whose columns are the parameters.
pub(crate) fn describe(connection: &mut Connection, statement: &Statement) -> Result<Table> {
    connection
        .prepare(&statement.render(parameter))
        .map_err(|failure| failed(failure).at("the statement"))?;
    let taking = match catalog::table(connection, statement.table()) {
        // A view's columns have no types of their own.
        Err(error) if error.kind() == ErrorKind::Schema => None,
        found => found?,
    };
    let columns = statement.parameters().iter().enumerate().map(|(index, name)| {
        let taken = taking.as_ref().and_then(|table| {
            let taken = statement.taken_by(index, table);
            taken.or(statement.compared_with(index, table))
        });
        let column = Column {
            name: name.clone(),
            ty: taken.map_or(Some(ColumnType::Any), |column| column.ty),
            declared: taken.map(|column| column.declared.clone()).unwrap_or_default(),
            nullable: true,
            has_default: false,
            generated: false,
            numbered: None,
            equality: taken.map_or(Equality::ServerOnly, |column| column.equality),
        };
        match types::of_name(&column.declared) {
            // The cast of a value on its way into such a column would change it in silence.
            Some(known) if known.check != types::Check::None => Err(Error::schema(format!(
                "parameter :{name} goes into a column of type {}, which a statement of your own cannot fill exactly",
                column.declared
            ))
            .hint("tonnage load writes such columns")),
            _ => Ok(column),
        }
    });
    let columns: Vec<Column> = columns.collect::<Result<_>>()?;
    let shape: Vec<_> = columns
        .iter()
        .map(|c| format!("{} {}", c.name, c.declared))
        .collect();
    Ok(statement.parameter_table(columns, &shape))
}
