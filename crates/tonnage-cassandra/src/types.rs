//! Cassandra's types and the crate's: one mapping each way.

use scylla::cluster::metadata::{CollectionType, ColumnType as Cql, NativeType};
use tonnage_core::{
    error::{Error, Result},
    table::{ColumnSpec, Equality, TableSpec},
    types::ColumnType,
};

/// A type as values of it are encoded.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// One value.
    Scalar(NativeType),
    /// Values in order.
    List(Box<Kind>),
    /// Values, each once.
    Set(Box<Kind>),
    /// Values by keys, each once.
    Map(Box<Kind>, Box<Kind>),
    /// A value of each type, some of which may be missing.
    Tuple(Vec<Kind>),
    /// The same by name.
    Struct(Vec<(String, Kind)>),
    /// So many values, and the bytes of each where they are fixed.
    Vector(Box<Kind>, usize, Option<usize>),
}

impl Kind {
    /// None for a type that this release does not know, or that cannot be written once and for all (a counter).
    pub fn of(ty: &Cql<'_>) -> Option<Self> {
        let boxed = |ty: &Cql<'_>| Self::of(ty).map(Box::new);
        Some(match ty {
            Cql::Native(NativeType::Counter) => return None,
            Cql::Native(native) => {
                scalar_type(native)?;
                Self::Scalar(native.clone())
            }
            Cql::Collection { typ, .. } => match typ {
                CollectionType::List(item) => Self::List(boxed(item)?),
                CollectionType::Set(item) => Self::Set(boxed(item)?),
                CollectionType::Map(key, value) => Self::Map(boxed(key)?, boxed(value)?),
                _ => return None,
            },
            Cql::Tuple(items) => Self::Tuple(items.iter().map(Self::of).collect::<Option<_>>()?),
            Cql::UserDefinedType { definition, .. } => {
                let fields = definition.field_types.iter();
                let fields = fields.map(|(name, ty)| Some((name.to_string(), Self::of(ty)?)));
                Self::Struct(fields.collect::<Option<_>>()?)
            }
            Cql::Vector { typ, dimensions } => {
                Self::Vector(boxed(typ)?, usize::from(*dimensions), typ.type_size_for_vector())
            }
            _ => return None,
        })
    }

    /// What a column of this type holds.
    pub fn column_type(&self) -> ColumnType {
        match self {
            Self::Scalar(native) => scalar_type(native).unwrap_or(ColumnType::TEXT),
            _ => ColumnType::Json,
        }
    }

    /// How keys of this type compare.
    pub fn equality(&self) -> Equality {
        match self {
            Self::Scalar(NativeType::Float | NativeType::Double) => Equality::ServerOnly,
            _ => Equality::Provable,
        }
    }
}

fn scalar_type(native: &NativeType) -> Option<ColumnType> {
    Some(match native {
        NativeType::Ascii | NativeType::Text | NativeType::Inet | NativeType::Duration => ColumnType::TEXT,
        NativeType::Boolean => ColumnType::Bool,
        NativeType::Blob => ColumnType::Bytes,
        NativeType::TinyInt | NativeType::SmallInt => ColumnType::Int16,
        NativeType::Int => ColumnType::Int32,
        NativeType::BigInt => ColumnType::Int64,
        NativeType::Float => ColumnType::Float32,
        NativeType::Double => ColumnType::Float64,
        NativeType::Decimal | NativeType::Varint => ColumnType::Numeric,
        NativeType::Date => ColumnType::Date,
        NativeType::Time => ColumnType::Time,
        NativeType::Timestamp => ColumnType::TimestampTz,
        NativeType::Uuid | NativeType::Timeuuid => ColumnType::Uuid,
        _ => return None,
    })
}

/// A name as CQL has it.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The type of a column to be created.
pub(super) fn declared(ty: ColumnType, column: &str) -> Result<&'static str> {
    Ok(match ty {
        ColumnType::Bool => "boolean",
        ColumnType::Int16 => "smallint",
        ColumnType::Int32 => "int",
        ColumnType::Int64 => "bigint",
        ColumnType::Float32 => "float",
        ColumnType::Float64 => "double",
        ColumnType::Decimal { .. } | ColumnType::Numeric => "decimal",
        ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Json => "text",
        ColumnType::Bytes => "blob",
        ColumnType::Date => "date",
        ColumnType::Time => "time",
        ColumnType::TimestampTz => "timestamp",
        ColumnType::Uuid => "uuid",
        ColumnType::Timestamp => {
            return Err(Error::schema(format!(
                "column '{column}': Cassandra has instants only, and a time of no zone is none"
            ))
            .hint(format!(
                "--type {column}=timestamptz --timezone ZONE says where it was that time, --type {column}=text keeps \
                 it as it is"
            )));
        }
        ColumnType::Any => return Err(Error::bug("a column of any type was to be created")),
    })
}

/// The statement that adds columns to a table.
pub(super) fn add_columns(table: &str, columns: &[ColumnSpec]) -> Result<String> {
    let added = columns.iter().map(|column| {
        let declared = declared(column.ty, &column.name)?;
        Ok(format!("{} {declared}", quote(&column.name)))
    });
    let added = added.collect::<Result<Vec<_>>>()?;
    Ok(format!("ALTER TABLE {table} ADD ({})", added.join(", ")))
}

/// The statement that creates a table. The key's first column is the partition key, the others order its rows.
pub(super) fn create_table(spec: &TableSpec, keyspace: &str) -> Result<String> {
    if spec.key.is_empty() {
        return Err(Error::schema(format!(
            "table {} needs a primary key: Cassandra has no table without one",
            spec.name
        ))
        .hint("--key names its columns: the first one is the partition key, the others order its rows"));
    }
    let mut lines = Vec::new();
    for column in &spec.columns {
        lines.push(format!(
            "  {} {}",
            quote(&column.name),
            declared(column.ty, &column.name)?
        ));
    }
    let key: Vec<String> = spec.key.iter().map(|name| quote(name)).collect();
    lines.push(format!("  PRIMARY KEY ({})", key.join(", ")));
    let keyspace = spec.name.schema.as_deref().unwrap_or(keyspace);
    Ok(format!(
        "CREATE TABLE {}.{} (\n{}\n)",
        quote(keyspace),
        quote(&spec.name.name),
        lines.join(",\n")
    ))
}
