//! Types that travel as text, which the server turns into values by their own input functions.
//!
//! Only types whose text means the same everywhere do, or can be written so that it does: none that a setting of the
//! session (lc_monetary, of a money within an array or a row) or a modifier (digits of an interval that are rounded off)
//! could change without a word.

use tonnage_core::types::ColumnType;

use super::{
    composition::Types,
    spelling::Spelling,
    types::{ServerType, oid},
};

/// Object ids of built-in types whose text is the value, whatever the session's settings.
mod as_text {
    pub const CHAR: u32 = 18;
    pub const NAME: u32 = 19;
    pub const OID: u32 = 26;
    pub const XID: u32 = 28;
    pub const XML: u32 = 142;
    pub const POINT: u32 = 600;
    pub const LSEG: u32 = 601;
    pub const PATH: u32 = 602;
    pub const BOX: u32 = 603;
    pub const POLYGON: u32 = 604;
    pub const LINE: u32 = 628;
    pub const CIDR: u32 = 650;
    pub const CIRCLE: u32 = 718;
    pub const MACADDR8: u32 = 774;
    pub const MACADDR: u32 = 829;
    pub const INET: u32 = 869;
    pub const TIMETZ: u32 = 1266;
    pub const BIT: u32 = 1560;
    pub const VARBIT: u32 = 1562;
    pub const REFCURSOR: u32 = 1790;
    pub const PG_LSN: u32 = 3220;
    pub const TSVECTOR: u32 = 3614;
    pub const TSQUERY: u32 = 3615;
    pub const JSONPATH: u32 = 4072;
}

/// How the server makes a value of text.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    /// The type in SQL, without a modifier: a cast to one with a modifier would cut or fill up, an assignment refuses.
    pub name: String,
    /// Whether the binary form is the text as well, so that a COPY needs no cast.
    pub direct: bool,
    /// How its text is written.
    pub spelling: Spelling,
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
        /// What arrives: text, or JSON for a row.
        ty: ColumnType,
        /// See [`Cast::direct`].
        direct: bool,
        /// See [`Cast::spelling`].
        spelling: Spelling,
    },
    /// Not at all, and why, where there is more to say than that nobody has taught us.
    Not(Option<&'static str>),
}

/// Decides how values travel. `server` is no domain; `types` has it and all that it is made of, unless it is binary.
pub(super) fn carry(server: ServerType, types: &Types) -> Carried {
    if let Some(ty) = server.column_type() {
        return Carried::Binary(ty);
    }
    let Some(made) = types.get(&server.oid) else {
        return Carried::Not(None);
    };
    let direct = made.kind == "e" || made.extension.as_deref() == Some("citext.citext");
    match spelling(server, types) {
        Ok(spelling) => Carried::Text {
            ty: match spelling {
                Spelling::Row(_) => ColumnType::Json,
                _ => ColumnType::TEXT,
            },
            direct,
            spelling,
        },
        Err(why) => Carried::Not(why),
    }
}

/// How values of a type are spelled, or why they cannot be.
fn spelling(server: ServerType, types: &Types) -> Result<Spelling, Option<&'static str>> {
    let made = types.get(&server.oid).ok_or(None)?;
    let part = |oid: u32| spelling(ServerType { oid, modifier: -1 }, types);
    if made.kind == "d" {
        let base = ServerType {
            oid: made.base,
            modifier: made.base_modifier,
        };
        return spelling(base, types);
    }
    if made.element != 0 {
        let element = ServerType {
            oid: made.element,
            // The modifier of an array is that of its elements.
            modifier: server.modifier,
        };
        // Its elements are not divided by commas.
        if made.element == as_text::BOX {
            return Err(None);
        }
        return Ok(Spelling::Array(Box::new(spelling(element, types)?)));
    }
    match made.kind.as_str() {
        "r" => return Ok(Spelling::Range(Box::new(part(made.bound)?))),
        "m" => return Ok(Spelling::Multirange(Box::new(part(made.bound)?))),
        "e" => return Ok(Spelling::AsIs),
        "c" => {
            let field = |(name, oid, modifier): &(String, u32, i32)| {
                let server = ServerType {
                    oid: *oid,
                    modifier: *modifier,
                };
                spelling(server, types).map(|spelling| (name.clone(), spelling))
            };
            return Ok(Spelling::Row(
                made.fields.iter().map(field).collect::<Result<_, _>>()?,
            ));
        }
        _ => {}
    }
    if let Some("citext.citext" | "hstore.hstore" | "ltree.ltree") = made.extension.as_deref() {
        return Ok(Spelling::AsIs);
    }
    Ok(match server.oid {
        oid::DATE => Spelling::Date,
        oid::TIME => Spelling::Time(server.tick()),
        oid::TIMESTAMP => Spelling::Timestamp(server.tick()),
        oid::TIMESTAMPTZ => Spelling::Instant(server.tick()),
        oid::INTERVAL => match interval_digits(server.modifier) {
            Some(digits) => Spelling::Interval(digits),
            None => return Err(Some("which cuts what it is given")),
        },
        as_text::TIMETZ => {
            let digits = u32::try_from(server.modifier).ok().filter(|digits| *digits < 6);
            Spelling::ZonedTime(digits.unwrap_or(6))
        }
        as_text::CHAR => Spelling::Byte,
        as_text::NAME => Spelling::Name,
        as_text::XID => Spelling::Number32,
        oid::JSON | oid::JSONB => Spelling::Json,
        oid::MONEY => return Err(Some("whose text depends on lc_monetary")),
        _ => match server.column_type() {
            Some(ColumnType::Decimal { .. } | ColumnType::Numeric) => {
                let scale = server.precision_scale().map(|(_, scale)| scale);
                scale.map_or(Spelling::AsIs, Spelling::Numeric)
            }
            Some(
                ColumnType::Text {
                    chars_max: Some(most),
                }
                | ColumnType::Char { chars: most },
            ) => Spelling::Characters(most),
            Some(_) => Spelling::AsIs,
            None if is_plain(server.oid) => Spelling::AsIs,
            None => return Err(None),
        },
    })
}

/// Digits of a second that an interval keeps; none where it keeps only some of its fields.
fn interval_digits(modifier: i32) -> Option<u32> {
    /// All fields, in the upper half of a modifier.
    const ALL_FIELDS: i32 = 0x7fff;
    const ALL_DIGITS: u32 = 6;
    if modifier == -1 {
        return Some(ALL_DIGITS);
    }
    let digits = (modifier & 0xffff) as u32;
    ((modifier >> 16) & 0xffff == ALL_FIELDS).then_some(digits.min(ALL_DIGITS))
}

fn is_plain(type_oid: u32) -> bool {
    use as_text::*;
    matches!(
        type_oid,
        OID | XML
            | POINT
            | LSEG
            | PATH
            | BOX
            | POLYGON
            | LINE
            | CIDR
            | CIRCLE
            | MACADDR8
            | MACADDR
            | INET
            | BIT
            | VARBIT
            | PG_LSN
            | JSONPATH
            | REFCURSOR
            | TSVECTOR
            | TSQUERY
    )
}
