//! A row on its way, as JSON.

use serde::Serialize;
use tonnage_core::error::{Error, ErrorKind, Result};

use super::json::members;

/// One row: a JSON object whose keys are columns. A key that is missing takes its column's default.
///
/// ```
/// use tonnage_formats::row::Row;
///
/// #[derive(serde::Serialize)]
/// struct Reading {
///     device: &'static str,
///     value: f64,
/// }
/// # fn main() -> tonnage_core::error::Result<()> {
/// let row = Row::of(&Reading { device: "a7", value: 21.5 })?;
/// assert_eq!(row, Row::json(r#"{"device":"a7","value":21.5}"#));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row(Vec<u8>);

impl Row {
    /// The text of an object, taken as it is. Text that is none makes a row that is put aside when its turn comes.
    pub fn json(text: impl Into<Vec<u8>>) -> Self {
        Self(text.into())
    }

    /// What `value` serialises to. `Rejected` where that cannot be said in JSON.
    pub fn of(value: &impl Serialize) -> Result<Self> {
        serde_json::to_vec(value)
            .map(Self)
            .map_err(|error| Error::new(ErrorKind::Rejected, format!("a row cannot be JSON: {error}")))
    }

    /// Takes a key out of the object: the row without it, and its value as JSON; none where the row has no such key or
    /// is no object, and is left as it was. No other value is touched.
    ///
    /// ```
    /// use tonnage_formats::row::Row;
    ///
    /// let (row, number) = Row::json(r#"{"n": 17, "device": "a7", "value": 1.50}"#).without("n");
    /// assert_eq!(row, Row::json(r#"{"device":"a7","value":1.50}"#));
    /// assert_eq!(number.as_deref(), Some("17"));
    /// ```
    pub fn without(self, key: &str) -> (Self, Option<String>) {
        let mut taken = None;
        let mut text = String::with_capacity(self.0.len());
        let is_object = members(&self.0, |name, value| {
            if name == key {
                taken = Some(value.to_owned());
                return;
            }
            text.push(if text.is_empty() { '{' } else { ',' });
            text.push_str(&serde_json::Value::from(name).to_string());
            text.push(':');
            text.push_str(value);
        });
        if !is_object || taken.is_none() {
            return (self, None);
        }
        text.push_str(if text.is_empty() { "{}" } else { "}" });
        (Self(text.into_bytes()), taken)
    }

    /// The value of a key as JSON; none where there is no such key, or the row is no object.
    pub fn value(&self, key: &str) -> Option<String> {
        let mut found = None;
        let is_object = members(&self.0, |name, value| {
            if name == key {
                found = Some(value.to_owned());
            }
        });
        found.filter(|_| is_object)
    }

    /// The text of the object.
    pub fn text(&self) -> &[u8] {
        &self.0
    }
}

impl From<serde_json::Value> for Row {
    fn from(value: serde_json::Value) -> Self {
        Self(value.to_string().into_bytes())
    }
}
