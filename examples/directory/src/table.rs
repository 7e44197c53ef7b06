//! Tables: which there are, what they are, how they come and go.
//!
//! - A table is whole or not there: it is made under a hidden name and renamed, and renamed before it is removed.
//! - A table that is made again under its name is another one: its object says so.
//! - What begins with a dot is neither a table nor rows.
//!
//! ```text
//! ROOT/orders/schema.json    ["0198..", [["id", "int64", false], ["placed", "date", true], ["note", "text", true]]]
//! ROOT/orders/*.jsonl        rows, a line each: ["1", "2025-02-28", null]
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tonnage_core::{
    Error, ErrorKind, Result,
    table::{Column, ColumnSpec, Table, TableIdentity, TableName, TableSpec, find_by_name},
};
use uuid::Uuid;

const SCHEMA: &str = "schema.json";

/// The object, and of each column its name, its type and whether it takes nulls.
type Schema = (String, Vec<(String, String, bool)>);

/// What the file system refuses is for people to mend.
pub fn failed(path: &Path, doing: &str) -> impl FnOnce(io::Error) -> Error {
    move |cause| {
        let message = format!("{} cannot be {doing}: {cause}", path.display());
        Error::new(ErrorKind::Refused, message).caused_by(cause)
    }
}

/// What is in a directory, in the order of names.
pub fn entries(path: &Path) -> Result<Vec<String>> {
    let listed = fs::read_dir(path).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let listed = listed.map_err(failed(path, "listed"))?.into_iter();
    // What is not Unicode was not made here.
    let names = listed.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.collect();
    names.sort();
    Ok(names)
}

/// The tables in `root`.
pub fn names(root: &Path) -> Result<Vec<String>> {
    let mut names = entries(root)?;
    names.retain(|name| !name.starts_with('.') && root.join(name).join(SCHEMA).is_file());
    Ok(names)
}

/// The schema file of a table to be made. `Schema` for what it could not keep.
pub fn schema(spec: &TableSpec) -> Result<String> {
    let TableName { schema, name } = &spec.name;
    let refused = |why| Err(Error::schema(format!("table {name} cannot be made: {why}")));
    if schema.is_some() || name.starts_with('.') || name.contains(['/', '\0']) {
        return refused("its name has a schema or a slash, or begins with a dot");
    }
    if !spec.key.is_empty() {
        return refused("it has a key, and rows in files are not found by one");
    }
    let columns = spec.columns.iter();
    let columns = columns.map(|column| (column.name.clone(), column.ty.to_string(), column.nullable));
    let schema: Schema = (Uuid::now_v7().to_string(), columns.collect());
    serde_json::to_string(&schema).map_err(|cause| Error::bug(format!("JSON: {cause}")))
}

/// Makes a table.
pub fn create(root: &Path, spec: &TableSpec) -> Result<()> {
    let schema = schema(spec)?;
    let path = root.join(&spec.name.name);
    let hidden = root.join(format!(".new-{}", Uuid::now_v7()));
    // No directory is renamed over another that has something in it.
    fs::create_dir(&hidden)
        .and_then(|()| fs::write(hidden.join(SCHEMA), schema))
        .and_then(|()| fs::rename(&hidden, &path))
        .map_err(failed(&path, "made"))
}

/// A table by its exact name, else by a unique case-insensitive one; none where there is neither.
pub fn find(root: &Path, name: &TableName) -> Result<Option<Table>> {
    let names = names(root)?;
    let found = find_by_name(&names, &name.name, |known| known).filter(|_| name.schema.is_none());
    found.map(|found| read(root, found)).transpose()
}

fn read(root: &Path, name: &str) -> Result<Table> {
    let path = root.join(name).join(SCHEMA);
    let shape = fs::read_to_string(&path).map_err(failed(&path, "read"))?;
    let (object, columns): Schema = serde_json::from_str(&shape)
        .map_err(|cause| Error::schema(format!("{} is no schema: {cause}", path.display())))?;
    let columns = columns.into_iter().map(|(name, ty, nullable)| {
        let ty = ty.parse()?;
        Ok(Column::plain(&ColumnSpec { name, ty, nullable }))
    });
    Ok(Table {
        name: TableName::bare(name),
        columns: columns.collect::<Result<_>>()?,
        keys: Vec::new(),
        // A process may end after a file has its name and before the ledger moves.
        transactional: false,
        less_durable: None,
        notes: Vec::new(),
        identity: TableIdentity { object, shape },
    })
}

/// The files of the table at `path` that hold rows, in the order of their names.
pub fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let mut names = entries(path)?;
    names.retain(|name| name.ends_with(".jsonl"));
    Ok(names.iter().map(|name| path.join(name)).collect())
}

/// Removes the table at `path` with its rows.
pub fn remove(path: &Path) -> Result<()> {
    let hidden = path.with_file_name(format!(".dropped-{}", Uuid::now_v7()));
    let removed = fs::rename(path, &hidden).and_then(|()| fs::remove_dir_all(&hidden));
    removed.map_err(failed(path, "removed"))
}
