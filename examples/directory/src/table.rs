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

/// A table and where it is.
pub struct TableDirectory {
    pub path: PathBuf,
    pub table: Table,
}

/// The object, and of each column its name, its type and whether it takes nulls.
type Schema = (String, Vec<(String, String, bool)>);

/// What the file system refuses is for people to mend.
pub fn failed(path: &Path, doing: &str) -> impl FnOnce(io::Error) -> Error {
    move |cause| {
        let message = format!("{} cannot be {doing}: {cause}", path.display());
        Error::new(ErrorKind::Refused, message).caused_by(cause)
    }
}

/// What is in a directory and has a name that does not begin with a dot, in the order of names.
fn entries(path: &Path) -> Result<Vec<String>> {
    let listed = fs::read_dir(path).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let listed = listed.map_err(failed(path, "listed"))?.into_iter();
    // What is not Unicode was not made here.
    let names = listed.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    Ok(names)
}

/// The tables in `root`.
pub fn names(root: &Path) -> Result<Vec<String>> {
    let mut names = entries(root)?;
    names.retain(|name| root.join(name).join(SCHEMA).is_file());
    Ok(names)
}

/// The schema file of a table to be made. `Schema` for what it could not keep.
pub fn schema(spec: &TableSpec) -> Result<String> {
    let refused = |why: &str| {
        Err(Error::schema(format!(
            "table {} cannot be made: {why}",
            spec.name
        )))
    };
    let name = &spec.name.name;
    if spec.name.schema.is_some() || name.starts_with('.') || name.contains(['/', '\0']) {
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
    let (path, hidden) = (
        root.join(&spec.name.name),
        root.join(format!(".new-{}", Uuid::now_v7())),
    );
    // No directory is renamed over another that has something in it.
    fs::create_dir(&hidden)
        .and_then(|()| fs::write(hidden.join(SCHEMA), schema))
        .and_then(|()| fs::rename(&hidden, &path))
        .map_err(failed(&path, "made"))
}

impl TableDirectory {
    /// A table by its exact name, else by a unique case-insensitive one; none where there is neither.
    pub fn find(root: &Path, name: &TableName) -> Result<Option<Self>> {
        let names = names(root)?;
        match find_by_name(&names, &name.name, |known| known) {
            Some(found) if name.schema.is_none() => Self::read(root, found).map(Some),
            _ => Ok(None),
        }
    }

    fn read(root: &Path, name: &str) -> Result<Self> {
        let path = root.join(name);
        let text = fs::read_to_string(path.join(SCHEMA)).map_err(failed(&path, "read"))?;
        let (object, columns): Schema = serde_json::from_str(&text)
            .map_err(|cause| Error::schema(format!("the schema of {name} cannot be read: {cause}")))?;
        let columns = columns.into_iter().map(|(name, ty, nullable)| {
            let ty = ty.parse()?;
            Ok(Column::plain(&ColumnSpec { name, ty, nullable }))
        });
        let table = Table {
            name: TableName::bare(name),
            columns: columns.collect::<Result<_>>()?,
            keys: Vec::new(),
            // A process may end after a file has its name and before the ledger moves.
            transactional: false,
            less_durable: None,
            notes: Vec::new(),
            identity: TableIdentity { object, shape: text },
        };
        Ok(Self { path, table })
    }

    /// The files that hold rows, in the order of their names.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let files = entries(&self.path)?
            .into_iter()
            .filter(|name| name.ends_with(".jsonl"));
        Ok(files.map(|name| self.path.join(name)).collect())
    }

    /// Removes the table with its rows.
    pub fn remove(&self) -> Result<()> {
        let hidden = self.path.with_file_name(format!(".dropped-{}", Uuid::now_v7()));
        let removed = fs::rename(&self.path, &hidden).and_then(|()| fs::remove_dir_all(&hidden));
        removed.map_err(failed(&self.path, "removed"))
    }
}
