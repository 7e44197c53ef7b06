//! What `bench` can measure as a method: those of a load, or single rows through a buffer.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use tonnage_core::{error::Error, operation::Method};
use tonnage_engine::buffer::Ack;

/// A method of a load, or a buffer by when its puts are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum BenchMethod {
    /// A load by this method.
    Load(Method),
    /// Rows are put one at a time, each producer waits for the answer to each, and a drain writes them in the background.
    Buffer(Ack),
}

impl BenchMethod {
    /// The methods of loads, then the buffer by its answers.
    pub const ALL: [Self; 7] = [
        Self::Load(Method::Single),
        Self::Load(Method::Batch),
        Self::Load(Method::Array),
        Self::Load(Method::Native),
        Self::Buffer(Ack::Accepted),
        Self::Buffer(Ack::Journaled),
        Self::Buffer(Ack::Committed),
    ];

    /// Its name: that of the method, or `buffer-accepted`, `buffer-journaled`, `buffer-committed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load(method) => method.name(),
            Self::Buffer(Ack::Accepted) => "buffer-accepted",
            Self::Buffer(Ack::Journaled) => "buffer-journaled",
            Self::Buffer(Ack::Committed) => "buffer-committed",
        }
    }

    /// The method of a load; none of a buffer, whose drain takes the table's best.
    pub fn of_load(self) -> Option<Method> {
        match self {
            Self::Load(method) => Some(method),
            Self::Buffer(_) => None,
        }
    }

    /// When puts of a buffer are answered; none of a load.
    pub fn ack(self) -> Option<Ack> {
        match self {
            Self::Buffer(ack) => Some(ack),
            Self::Load(_) => None,
        }
    }

    /// Whether it is a buffer.
    pub fn is_buffer(self) -> bool {
        self.ack().is_some()
    }

    /// Whether rows are brought one at a time, so that there is no number of rows of a write.
    pub fn is_row_by_row(self) -> bool {
        self == Self::Load(Method::Single) || self.is_buffer()
    }
}

impl From<Method> for BenchMethod {
    fn from(method: Method) -> Self {
        Self::Load(method)
    }
}

impl fmt::Display for BenchMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BenchMethod {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|method| method.name() == name);
        found.ok_or_else(|| Error::config(format!("'{name}' is no method that is measured")))
    }
}

impl From<BenchMethod> for String {
    fn from(method: BenchMethod) -> Self {
        method.name().to_owned()
    }
}

impl TryFrom<String> for BenchMethod {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        name.parse()
    }
}
