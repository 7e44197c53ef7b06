//! How rows are brought to a database: by a method of a load, or one by one through a buffer.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use tonnage_core::{error::Error, operation::Method};
use tonnage_engine::buffer::Ack;

/// A method of a load, or a buffer by when its puts are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Way {
    /// [`Method::Single`].
    Single,
    /// [`Method::Batch`].
    Batch,
    /// [`Method::Array`].
    Array,
    /// [`Method::Native`].
    Native,
    /// Rows are put one at a time, each producer waits for the answer to each, and a drain writes them in the background.
    Buffer(Ack),
}

impl Way {
    /// The methods of loads, then the buffer by its answers.
    pub const ALL: [Self; 7] = [
        Self::Single,
        Self::Batch,
        Self::Array,
        Self::Native,
        Self::Buffer(Ack::Accepted),
        Self::Buffer(Ack::Journaled),
        Self::Buffer(Ack::Committed),
    ];

    /// Its name: that of the method, or `buffer-accepted`, `buffer-journaled`, `buffer-committed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Batch => "batch",
            Self::Array => "array",
            Self::Native => "native",
            Self::Buffer(Ack::Accepted) => "buffer-accepted",
            Self::Buffer(Ack::Journaled) => "buffer-journaled",
            Self::Buffer(Ack::Committed) => "buffer-committed",
        }
    }

    /// The method of a load; none of a buffer, whose drain takes the table's best.
    pub fn of_load(self) -> Option<Method> {
        match self {
            Self::Single => Some(Method::Single),
            Self::Batch => Some(Method::Batch),
            Self::Array => Some(Method::Array),
            Self::Native => Some(Method::Native),
            Self::Buffer(_) => None,
        }
    }

    /// When puts of a buffer are answered; none of a load.
    pub fn ack(self) -> Option<Ack> {
        match self {
            Self::Buffer(ack) => Some(ack),
            _ => None,
        }
    }

    /// Whether it is a buffer.
    pub fn is_buffer(self) -> bool {
        self.ack().is_some()
    }

    /// Whether rows are brought one at a time, so that there is no number of rows of a write.
    pub fn is_row_by_row(self) -> bool {
        self == Self::Single || self.is_buffer()
    }
}

impl From<Method> for Way {
    fn from(method: Method) -> Self {
        match method {
            Method::Single => Self::Single,
            Method::Batch => Self::Batch,
            Method::Array => Self::Array,
            Method::Native => Self::Native,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Way {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|way| way.name() == name);
        found.ok_or_else(|| Error::config(format!("'{name}' is no way to bring rows")))
    }
}

impl From<Way> for String {
    fn from(way: Way) -> Self {
        way.name().to_owned()
    }
}

impl TryFrom<String> for Way {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        name.parse()
    }
}
