//! The cases: a type, its values, and what becomes of each where that is not the value's own text.

mod numbers;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, FixedSizeBinaryArray, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};

use super::Target;

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// What the database's client reads: in SQLite storage class and value, elsewhere the value as text.
    Stored(Option<String>),
    /// The row is put aside.
    Rejected,
}

/// A value.
pub struct Value {
    /// In CSV; none is null.
    pub text: Option<String>,
    /// Arrow cannot say it: null in the Parquet file.
    pub csv_only: bool,
    postgres: Fate,
    mariadb: Fate,
    cassandra: Fate,
    plain: Fate,
    strict: Fate,
}

/// A type and its values.
pub struct Case {
    /// The column's name.
    pub name: &'static str,
    postgres: &'static str,
    /// None where MariaDB has no type that takes all of it.
    mariadb: Option<&'static str>,
    /// None where Cassandra has none.
    cassandra: Option<&'static str>,
    plain: &'static str,
    /// None where a STRICT table has no such type.
    strict: Option<&'static str>,
    pub values: Vec<Value>,
    /// The values in a Parquet file.
    pub arrow: ArrayRef,
}

impl Case {
    /// The column's type in SQL.
    pub fn declared(&self, target: Target) -> Option<&'static str> {
        match target {
            Target::Plain => Some(self.plain),
            Target::Strict => self.strict,
            Target::Postgres => Some(self.postgres),
            Target::MariaDb => self.mariadb,
            Target::Cassandra => self.cassandra,
        }
    }
}

impl Value {
    pub fn fate(&self, target: Target) -> &Fate {
        match target {
            Target::Plain => &self.plain,
            Target::Strict => &self.strict,
            Target::Postgres => &self.postgres,
            Target::MariaDb => &self.mariadb,
            Target::Cassandra => &self.cassandra,
        }
    }

    fn postgres(mut self, text: &str) -> Self {
        self.postgres = Fate::Stored(Some(text.to_owned()));
        self
    }

    fn mariadb(mut self, text: &str) -> Self {
        self.mariadb = Fate::Stored(Some(text.to_owned()));
        self
    }

    fn cassandra(mut self, text: &str) -> Self {
        self.cassandra = Fate::Stored(Some(text.to_owned()));
        self
    }

    /// Storage class and value, in either kind of SQLite table.
    fn sqlite(mut self, text: &str) -> Self {
        self.plain = Fate::Stored(Some(text.to_owned()));
        self.strict = self.plain.clone();
        self
    }

    fn plain(mut self, text: &str) -> Self {
        self.plain = Fate::Stored(Some(text.to_owned()));
        self
    }

    fn csv_only(mut self) -> Self {
        self.csv_only = true;
        self
    }

    fn rejected_by(mut self, targets: &[Target]) -> Self {
        for target in targets {
            match target {
                Target::Plain => self.plain = Fate::Rejected,
                Target::Strict => self.strict = Fate::Rejected,
                Target::Postgres => self.postgres = Fate::Rejected,
                Target::MariaDb => self.mariadb = Fate::Rejected,
                Target::Cassandra => self.cassandra = Fate::Rejected,
            }
        }
        self
    }
}

const SQLITE: [Target; 2] = [Target::Plain, Target::Strict];
/// Those whose texts have a greatest length.
const LIMITED: [Target; 2] = [Target::Postgres, Target::MariaDb];
const SERVERS: [Target; 3] = [Target::Postgres, Target::MariaDb, Target::Cassandra];
const EVERYWHERE: [Target; 5] = [
    Target::Plain,
    Target::Strict,
    Target::Postgres,
    Target::MariaDb,
    Target::Cassandra,
];
/// Floats that are no numbers.
const NO_NAN: [Target; 3] = [Target::Plain, Target::Strict, Target::MariaDb];
/// Exact numbers that are none.
const NO_EXACT_NAN: [Target; 3] = [Target::Plain, Target::Strict, Target::Cassandra];
/// Those that have no day 0.
const CALENDARS: [Target; 3] = [Target::Plain, Target::Postgres, Target::Cassandra];

/// A value that reads back as it is written, in SQLite in this storage class.
fn value(class: &'static str) -> impl Fn(&str) -> Value {
    move |text| {
        let plain = Fate::Stored(Some(format!("{class} {text}")));
        Value {
            text: Some(text.to_owned()),
            csv_only: false,
            postgres: Fate::Stored(Some(text.to_owned())),
            mariadb: Fate::Stored(Some(text.to_owned())),
            cassandra: Fate::Stored(Some(text.to_owned())),
            strict: plain.clone(),
            plain,
        }
    }
}

fn null() -> Value {
    let null = Fate::Stored(None);
    Value {
        text: None,
        csv_only: false,
        postgres: null.clone(),
        mariadb: null.clone(),
        cassandra: null.clone(),
        plain: null.clone(),
        strict: null,
    }
}

pub fn cases() -> Vec<Case> {
    [
        numbers::numbers(),
        numbers::decimals(),
        texts(),
        times(),
        others(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn strings(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn texts() -> Vec<Case> {
    let text = value("text");
    let long = "größer ".repeat(10_000);
    let free = [
        "",
        " ",
        "  padded  ",
        "größer 🚢",
        "\"quoted\", with comma",
        "two\nlines\r\n",
        "NULL",
        "\\N",
        "\\x41",
        "007",
        "1e5",
        "\u{feff}mark",
        "tab\there",
        "'; DROP TABLE conformance; --",
        &long,
    ];
    let all = |values: &[&str]| -> Vec<Value> {
        let values = values.iter().map(|value| text(value));
        values.chain([null()]).collect()
    };
    let arrow = |values: &[&str]| -> ArrayRef {
        let values: Vec<_> = values.iter().map(|value| Some(*value)).chain([None]).collect();
        strings(&values)
    };
    vec![
        Case {
            name: "free",
            postgres: "text",
            mariadb: Some("longtext"),
            cassandra: Some("text"),
            plain: "TEXT",
            strict: Some("TEXT"),
            values: all(&free),
            arrow: arrow(&free),
        },
        Case {
            name: "anything",
            postgres: "varchar",
            mariadb: Some("varchar(20)"),
            cassandra: Some("text"),
            plain: "",
            strict: Some("ANY"),
            values: all(&["", "x", "y z"]),
            arrow: arrow(&["", "x", "y z"]),
        },
        Case {
            name: "limited",
            postgres: "varchar(5)",
            mariadb: Some("varchar(5)"),
            cassandra: Some("text"),
            plain: "VARCHAR(5)",
            strict: Some("TEXT"),
            values: vec![
                text(""),
                null(),
                text("größe"),
                text("größer").rejected_by(&LIMITED),
            ],
            arrow: strings(&[Some(""), None, Some("größe"), Some("größer")]),
        },
        Case {
            name: "padded",
            postgres: "char(5)",
            mariadb: Some("char(5)"),
            cassandra: Some("text"),
            plain: "CHAR(5)",
            strict: Some("TEXT"),
            values: vec![
                text("ab"),
                null(),
                text("ab  ").postgres("ab").mariadb("ab"),
                text("🚢🚢🚢🚢🚢"),
                text("abcdef").rejected_by(&LIMITED),
            ],
            arrow: strings(&[Some("ab"), None, Some("ab  "), Some("🚢🚢🚢🚢🚢"), Some("abcdef")]),
        },
        Case {
            name: "document",
            postgres: "json",
            mariadb: Some("json"),
            cassandra: Some("text"),
            plain: "JSON",
            strict: Some("TEXT"),
            values: vec![
                text("{\"b\":  1, \"a\": [true, null, \"größer\"]}"),
                null(),
                text("[]"),
                text("null"),
                text("\"007\""),
            ],
            arrow: strings(&[
                Some("{\"b\":  1, \"a\": [true, null, \"größer\"]}"),
                None,
                Some("[]"),
                Some("null"),
                Some("\"007\""),
            ]),
        },
        Case {
            name: "document_binary",
            postgres: "jsonb",
            mariadb: None,
            cassandra: None,
            plain: "JSON",
            strict: None,
            values: vec![
                text("{\"b\":1,\"a\":1.50}").postgres("{\"a\": 1.50, \"b\": 1}"),
                null(),
                text("{\"a\":").rejected_by(&EVERYWHERE),
                text("").rejected_by(&EVERYWHERE),
            ],
            arrow: strings(&[Some("{\"b\":1,\"a\":1.50}"), None, Some("{\"a\":"), Some("")]),
        },
    ]
}

const DAY: i64 = 86_400_000_000;

fn times() -> Vec<Case> {
    let text = value("text");
    let first = -62_135_596_800_000_000;
    let last = 253_402_300_799_999_999;
    vec![
        Case {
            name: "day",
            postgres: "date",
            mariadb: Some("date"),
            cassandra: Some("date"),
            plain: "DATE",
            strict: Some("TEXT"),
            values: vec![
                text("0001-01-01"),
                text("1969-12-31"),
                null(),
                text("2024-02-29"),
                text("9999-12-31"),
                text("0000-00-00").rejected_by(&CALENDARS).csv_only(),
            ],
            arrow: Arc::new(Date32Array::from(vec![
                Some(-719_162),
                Some(-1),
                None,
                Some(19_782),
                Some(2_932_896),
                None,
            ])),
        },
        Case {
            name: "clock",
            postgres: "time",
            mariadb: Some("time(6)"),
            cassandra: Some("time"),
            plain: "TIME",
            strict: None,
            values: vec![
                text("00:00:00")
                    .mariadb("00:00:00.000000")
                    .cassandra("00:00:00.000000000"),
                text("12:34:56.5")
                    .mariadb("12:34:56.500000")
                    .cassandra("12:34:56.500000000")
                    .sqlite("text 12:34:56.500000"),
                null(),
                text("23:59:59.999999").cassandra("23:59:59.999999000"),
            ],
            arrow: Arc::new(Time64MicrosecondArray::from(vec![
                Some(0),
                Some(45_296_500_000),
                None,
                Some(DAY - 1),
            ])),
        },
        Case {
            name: "moment",
            postgres: "timestamp",
            mariadb: Some("datetime(6)"),
            cassandra: None,
            plain: "TIMESTAMP",
            strict: None,
            values: vec![
                text("0001-01-01 00:00:00").mariadb("0001-01-01 00:00:00.000000"),
                text("1969-12-31 23:59:59.999999"),
                null(),
                text("9999-12-31 23:59:59.999999"),
                text("2023-02-29 00:00:00").rejected_by(&EVERYWHERE).csv_only(),
                text("2024-01-01 00:00:00.0000001")
                    .rejected_by(&EVERYWHERE)
                    .csv_only(),
            ],
            arrow: Arc::new(TimestampMicrosecondArray::from(vec![
                Some(first),
                Some(-1),
                None,
                Some(last),
                None,
                None,
            ])),
        },
        Case {
            name: "instant",
            postgres: "timestamptz",
            mariadb: Some("timestamp(6) NULL"),
            cassandra: Some("timestamp"),
            plain: "TIMESTAMPTZ",
            strict: None,
            values: vec![
                text("0001-01-01 00:00:00Z")
                    .postgres("0001-01-01 00:00:00+00")
                    .cassandra("-62135596800000")
                    .rejected_by(&[Target::MariaDb])
                    .sqlite("text 0001-01-01 00:00:00+00:00"),
                text("2024-07-01T12:00:00.25+02:00")
                    .postgres("2024-07-01 10:00:00.25+00")
                    .mariadb("2024-07-01 10:00:00.250000")
                    .cassandra("1719828000250")
                    .sqlite("text 2024-07-01 10:00:00.250000+00:00"),
                null(),
                // A time without a zone is no instant.
                text("2024-07-01 12:00:00").rejected_by(&EVERYWHERE).csv_only(),
            ],
            arrow: Arc::new(
                TimestampMicrosecondArray::from(vec![Some(first), Some(1_719_828_000_250_000), None, None])
                    .with_timezone("Europe/Berlin"),
            ),
        },
    ]
}

fn others() -> Vec<Case> {
    let (integer, text, blob) = (value("integer"), value("text"), value("blob"));
    let uuids = [Some([0; 16]), Some([0xff; 16]), None, Some(*b"0123456789abcdef")];
    vec![
        Case {
            name: "truth",
            postgres: "boolean",
            mariadb: Some("boolean"),
            cassandra: Some("boolean"),
            plain: "BOOLEAN",
            strict: None,
            values: vec![
                integer("true").mariadb("1").sqlite("integer 1"),
                null(),
                integer("f")
                    .postgres("false")
                    .mariadb("0")
                    .cassandra("false")
                    .sqlite("integer 0"),
            ],
            arrow: Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        },
        Case {
            name: "binary_data",
            postgres: "bytea",
            mariadb: Some("longblob"),
            cassandra: Some("blob"),
            plain: "BLOB",
            strict: Some("BLOB"),
            values: vec![
                blob("\\x"),
                null(),
                blob("\\x00ff"),
                blob("\\xdeadbeef"),
                blob("AB")
                    .postgres("\\x4142")
                    .mariadb("\\x4142")
                    .cassandra("\\x4142")
                    .sqlite("blob \\x4142"),
            ],
            arrow: Arc::new(BinaryArray::from_opt_vec(vec![
                Some(b""),
                None,
                Some(b"\x00\xff"),
                Some(b"\xde\xad\xbe\xef"),
                Some(b"AB"),
            ])),
        },
        Case {
            name: "identifier",
            postgres: "uuid",
            mariadb: Some("uuid"),
            cassandra: Some("uuid"),
            plain: "UUID",
            strict: None,
            values: vec![
                text("00000000-0000-0000-0000-000000000000"),
                text("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF")
                    .postgres("ffffffff-ffff-ffff-ffff-ffffffffffff")
                    .mariadb("ffffffff-ffff-ffff-ffff-ffffffffffff")
                    .cassandra("ffffffff-ffff-ffff-ffff-ffffffffffff")
                    .sqlite("text ffffffff-ffff-ffff-ffff-ffffffffffff"),
                null(),
                text("30313233-3435-3637-3839-616263646566"),
            ],
            arrow: Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids.into_iter(), 16)
                    .expect("sixteen bytes each"),
            ),
        },
    ]
}
