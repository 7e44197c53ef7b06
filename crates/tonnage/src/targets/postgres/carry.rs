//! Types that travel as text, which the server turns into values by their own input functions.
//!
//! Only types whose text means the same everywhere do: none that a setting of the session (DateStyle, TimeZone,
//! lc_monetary) or a modifier (digits that are rounded off, spaces that are cut off) could change without a word.

use super::types::{ServerType, oid};
use crate::types::ColumnType;

/// Object ids of built-in types that travel as text.
mod as_text {
    pub const XML: u32 = 142;
    pub const CIDR: u32 = 650;
    pub const MACADDR8: u32 = 774;
    pub const MACADDR: u32 = 829;
    pub const INET: u32 = 869;
    pub const BIT: u32 = 1560;
    pub const VARBIT: u32 = 1562;
    pub const INT4RANGE: u32 = 3904;
    pub const NUMRANGE: u32 = 3906;
    pub const INT8RANGE: u32 = 3926;
    pub const INT4MULTIRANGE: u32 = 4451;
    pub const NUMMULTIRANGE: u32 = 4532;
    pub const INT8MULTIRANGE: u32 = 4536;
}

const MONEY: u32 = 790;
/// Ranges and multiranges of dates and timestamps.
const RANGES_OF_TIMES: [u32; 6] = [3908, 3910, 3912, 4533, 4534, 4535];

/// How the server makes a value of text.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    /// The type in SQL, without a modifier: a cast to one with a modifier would cut or fill up, an assignment refuses.
    pub name: String,
    /// Whether the binary form is the text as well, so that a COPY needs no cast.
    pub direct: bool,
}

impl Cast {
    /// Whether the server takes bad text for a failure of its own.
    pub fn fails_internally(&self) -> bool {
        self.name == "hstore" || self.name.ends_with(".hstore")
    }
}

/// How values of a type travel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Carried {
    /// In the type's binary form.
    Binary(ColumnType),
    /// As text.
    Text {
        /// See [`Cast::direct`].
        direct: bool,
    },
    /// Not at all, and why, where there is more to say than that nobody has taught us.
    Not(Option<&'static str>),
}

/// A type as the catalogue has it; of the base type for a domain.
pub(super) struct Declared<'a> {
    /// The type itself.
    pub server: ServerType,
    /// `pg_type.typtype`.
    pub kind: &'a str,
    /// Object id of an array's elements, else 0.
    pub element: u32,
    /// Whether these are of an enum.
    pub element_is_enum: bool,
    /// Extension and name, for the type of an extension.
    pub extension: Option<&'a str>,
}

/// Decides how values travel.
pub(super) fn carry(declared: &Declared) -> Carried {
    let Declared {
        server,
        kind,
        element,
        element_is_enum,
        extension,
    } = *declared;
    if let Some(ty) = server.column_type() {
        return Carried::Binary(ty);
    }
    if element != 0 {
        return match element_is_enum || travels_in_array(element) {
            true if server.modifier == -1 || element == as_text::BIT || element == as_text::VARBIT => {
                Carried::Text { direct: false }
            }
            true => Carried::Not(Some("whose elements would be cut or rounded to fit")),
            false if is_of_time(element) => Carried::Not(Some(OF_TIME)),
            false => Carried::Not(None),
        };
    }
    match (kind, server.oid, extension) {
        ("e", ..) | (_, _, Some("citext.citext")) => Carried::Text { direct: true },
        (_, _, Some("hstore.hstore" | "ltree.ltree")) => Carried::Text { direct: false },
        ("c", ..) => Carried::Not(Some("a composite type")),
        (_, MONEY, _) => Carried::Not(Some("whose text depends on lc_monetary")),
        (_, oid::INTERVAL, _) if server.modifier == -1 => Carried::Text { direct: false },
        (_, oid::INTERVAL, _) => Carried::Not(Some("which rounds what it is given")),
        (_, other, _) if is_plain(other) => Carried::Text { direct: false },
        (_, other, _) if RANGES_OF_TIMES.contains(&other) => Carried::Not(Some(OF_TIME)),
        _ => Carried::Not(None),
    }
}

const OF_TIME: &str = "whose text depends on DateStyle and TimeZone";

fn is_plain(type_oid: u32) -> bool {
    use as_text::*;
    matches!(
        type_oid,
        XML | CIDR
            | MACADDR8
            | MACADDR
            | INET
            | BIT
            | VARBIT
            | INT4RANGE
            | NUMRANGE
            | INT8RANGE
            | INT4MULTIRANGE
            | NUMMULTIRANGE
            | INT8MULTIRANGE
    )
}

fn travels_in_array(element: u32) -> bool {
    let binary = ServerType {
        oid: element,
        modifier: -1,
    };
    is_plain(element) || (binary.column_type().is_some() && !is_of_time(element))
}

fn is_of_time(type_oid: u32) -> bool {
    matches!(
        type_oid,
        oid::DATE | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::INTERVAL
    ) || RANGES_OF_TIMES.contains(&type_oid)
}
