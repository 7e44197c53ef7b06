//! The types, and what each database declares for them.

use schemars::JsonSchema;
use tonnage::{
    operation::{Durability, Method},
    targets::DRIVERS,
    types::{ColumnType, NAMES},
};

use super::{check, head, inline, meaning, variants};

/// A type of each kind, with the name of its variant and, where it has a size, what `--type` takes.
const TYPES: [(&str, ColumnType, Option<&str>); 18] = [
    ("Bool", ColumnType::Bool, None),
    ("Int16", ColumnType::Int16, None),
    ("Int32", ColumnType::Int32, None),
    ("Int64", ColumnType::Int64, None),
    ("Float32", ColumnType::Float32, None),
    ("Float64", ColumnType::Float64, None),
    (
        "Decimal",
        ColumnType::Decimal {
            precision: 10,
            scale: 2,
        },
        Some("decimal(p,s)"),
    ),
    ("Numeric", ColumnType::Numeric, None),
    ("Text", ColumnType::TEXT, None),
    (
        "Text",
        ColumnType::Text { chars_max: Some(100) },
        Some("varchar(n)"),
    ),
    ("Char", ColumnType::Char { chars: 10 }, Some("char(n)")),
    ("Bytes", ColumnType::Bytes, None),
    ("Date", ColumnType::Date, None),
    ("Time", ColumnType::Time, None),
    ("Timestamp", ColumnType::Timestamp, None),
    ("TimestampTz", ColumnType::TimestampTz, None),
    ("Uuid", ColumnType::Uuid, None),
    ("Json", ColumnType::Json, None),
];

/// Decimals that a database may declare in another way than small ones.
const DECIMALS: [(u8, u8); 5] = [(10, 2), (18, 0), (18, 2), (38, 0), (38, 38)];

#[test]
fn the_list_is_complete() {
    let mut listed: Vec<_> = TYPES.iter().map(|(name, ..)| *name).collect();
    listed.push("Any");
    listed.dedup();
    // `Text` stands for two, and `Any` is never asked for.
    let mut there: Vec<_> = variants::<ColumnType>()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    there.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, there);
}

/// What every database declares for `ty`, as cells of a row.
fn declared(ty: ColumnType) -> String {
    let cell = |declared: Option<String>| declared.map_or(" none |".to_owned(), |sql| format!(" `{sql}` |"));
    DRIVERS.iter().map(|driver| cell((driver.declares)(ty))).collect()
}

fn databases() -> String {
    let names: Vec<_> = DRIVERS.iter().map(|driver| driver.name).collect();
    format!("{} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()))
}

fn listed<T: JsonSchema>(title: &str) -> String {
    let mut text = format!("\n## {title}\n\n| Name | Meaning |\n|---|---|\n");
    for (name, meaning) in variants::<T>() {
        text.push_str(&format!("| `{name}` | {} |\n", inline(&meaning)));
    }
    text
}

#[test]
fn types() {
    let mut page = head(
        "Types",
        "What `--type` takes, and what `--create` declares for a column that is no part of a key. Which texts are values of a type \
         is said in [Values](../values.md), which type `--create` chooses in [Databases and types](../databases.md).",
    );
    page.push_str("\n## Names\n\n| Type | Also | Meaning |\n|---|---|---|\n");
    for (variant, ty, shown) in TYPES {
        let name = shown.map_or_else(|| ty.to_string(), str::to_owned);
        let also: Vec<_> = NAMES
            .iter()
            .filter(|(also, of)| *of == ty && *also != name)
            .map(|(also, _)| format!("`{also}`"))
            .collect();
        let meaning = inline(&meaning::<ColumnType>(variant));
        page.push_str(&format!("| `{name}` | {} | {meaning} |\n", also.join(", ")));
    }
    page.push_str(&format!("\n## What is declared\n\n| Type | {}\n", databases()));
    for (_, ty, _) in TYPES {
        if !matches!(ty, ColumnType::Decimal { .. }) {
            page.push_str(&format!("| `{ty}` |{}\n", declared(ty)));
        }
    }
    for (precision, scale) in DECIMALS {
        let ty = ColumnType::Decimal { precision, scale };
        page.push_str(&format!("| `{ty}` |{}\n", declared(ty)));
    }
    page.push_str(
        "\n`none`: the column is refused, with a hint at a type that is there. A key cannot be text without a limit in MariaDB.\n",
    );
    page.push_str(&listed::<Method>("Methods"));
    page.push_str(&listed::<Durability>("Durability"));
    check("types.md", &page);
}
