//! Which of the servers that speak this protocol it is, by their version strings.

/// A server of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Product {
    /// Verified against a server.
    MariaDb,
    /// Verified against a server of version 9.
    MySql,
    /// Verified against seekdb, its engine as one node.
    OceanBase,
    /// Not verified against a server.
    TiDb,
    /// Not verified against a server.
    PolarDbX,
}

impl Product {
    /// As people know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "MariaDB",
            Self::MySql => "MySQL",
            Self::OceanBase => "OceanBase",
            Self::TiDb => "TiDB",
            Self::PolarDbX => "PolarDB-X",
        }
    }
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub product: Product,
    /// Major, minor, patch.
    pub number: (u16, u16, u16),
    /// Without what a distribution adds.
    pub shown: String,
    /// Whether `tinyint(1)` is read and written as a bool, which holds 0 and 1 only; else as an integer.
    pub tinyint1_is_bool: bool,
    /// Whether it is a node of a Galera cluster.
    pub is_galera: bool,
    /// Whether it refuses writes, as a replica does.
    pub is_read_only: bool,
    /// Whether it commits within a LOAD DATA (`wsrep_load_data_splitting`).
    pub splits_load_data: bool,
}

impl Version {
    /// From `SELECT version()`: `10.11.19-MariaDB-0+deb12u1`, `8.0.36`, `8.0.11-TiDB-v7.5.0`, `5.6.29-TDDL-5.4.18-..`,
    /// `8.0.32-PXC-5.4.19`, `5.7.25-OceanBase-v4.3.5.3`, `5.7.25-OceanBase seekdb-v1.4.0.0`. None for what has no number.
    pub fn parse(text: &str) -> Option<Self> {
        let after = |mark: &str| Some(text.split_once(mark)?.1);
        let (product, number) = if let Some(number) = after("-TiDB-v") {
            (Product::TiDb, number)
        } else if let Some(number) = after("-TDDL-").or_else(|| after("-PXC-")) {
            (Product::PolarDbX, number)
        } else if let Some(number) = after("-OceanBase") {
            return Self::of_oceanbase(number);
        } else if text.contains("-MariaDB") {
            // Old clients would take 10 for 1: replicas of MariaDB announce themselves as 5.5.5-10.x.
            (Product::MariaDb, text.strip_prefix("5.5.5-").unwrap_or(text))
        } else {
            (Product::MySql, text)
        };
        let shown = number.split('-').next().unwrap_or(number);
        let mut parts = shown.split('.').map(|part| part.parse::<u16>());
        let major = parts.next()?.ok()?;
        let mut rest = parts.map(|part| part.unwrap_or(0));
        let number = (major, rest.next().unwrap_or(0), rest.next().unwrap_or(0));
        Some(Self::of(product, number, shown))
    }

    /// Of a server that is no node of a cluster, as far as is known.
    fn of(product: Product, number: (u16, u16, u16), shown: &str) -> Self {
        Self {
            product,
            number,
            shown: format!("{} {shown}", product.name()),
            tinyint1_is_bool: true,
            is_galera: false,
            is_read_only: false,
            splits_load_data: false,
        }
    }

    /// From what follows the name: a number, behind `seekdb` where it is the engine as one node, which counts by itself.
    fn of_oceanbase(text: &str) -> Option<Self> {
        let (edition, number) = text.split_once("-v")?;
        let shown = number.split('-').next().unwrap_or(number);
        let mut parts = shown.split('.').map(|part| part.parse::<u16>().ok());
        let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
        Some(match edition.trim() {
            // The first seekdb came from OceanBase 4.3.5.
            "seekdb" => Self::of(Product::OceanBase, (4, 3, 5), &format!("seekdb {shown}")),
            _ => Self::of(Product::OceanBase, (major, minor, patch), shown),
        })
    }

    /// Whether LOAD DATA says by warnings and counts what it has changed; OceanBase cuts texts and clamps numbers, in
    /// strict mode too, and says nothing.
    pub fn load_data_warns(&self) -> bool {
        self.product != Product::OceanBase
    }

    /// Whether there is a type for UUIDs.
    pub fn has_uuid(&self) -> bool {
        self.product == Product::MariaDb && self.number >= (10, 7, 0)
    }

    /// Whether it takes many rows in one execution of a prepared statement. Where a node of a Galera cluster ends a
    /// transaction in the middle of one, as another node's came first, it was seen to go on outside the transaction.
    pub fn has_bulk(&self) -> bool {
        self.product == Product::MariaDb && self.number >= (10, 2, 7) && !self.is_galera
    }

    /// Whether it runs blocks of statements outside stored programs; on a node of a Galera cluster see
    /// [`Version::has_bulk`].
    pub fn has_blocks(&self) -> bool {
        self.product == Product::MariaDb && self.number >= (10, 5, 0) && !self.is_galera
    }

    /// Whether an upsert names the row given by an alias; `VALUES()` is deprecated there, and says so by a warning.
    pub fn has_row_alias(&self) -> bool {
        self.product == Product::MySql && self.number >= (8, 0, 19)
    }

    /// Whether a float keeps the sign of a zero: MariaDB 11.4 was seen to, 10.11 not.
    pub fn keeps_negative_zero(&self) -> bool {
        self.product == Product::MariaDb && self.number >= (11, 4, 0)
    }

    /// The oldest with strict modes, fractional seconds and the catalogue used here.
    pub fn is_supported(&self) -> bool {
        match self.product {
            Product::MariaDb => self.number >= (10, 5, 0),
            Product::MySql => self.number >= (8, 0, 0),
            Product::OceanBase => self.number >= (4, 2, 0),
            Product::TiDb | Product::PolarDbX => self.number >= (5, 0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_apart() {
        let cases = [
            (
                "10.11.19-MariaDB-0+deb12u1",
                Product::MariaDb,
                (10, 11, 19),
                "MariaDB 10.11.19",
            ),
            (
                "5.5.5-10.6.12-MariaDB-log",
                Product::MariaDb,
                (10, 6, 12),
                "MariaDB 10.6.12",
            ),
            (
                "8.0.36-0ubuntu0.22.04.1",
                Product::MySql,
                (8, 0, 36),
                "MySQL 8.0.36",
            ),
            ("8.4.0", Product::MySql, (8, 4, 0), "MySQL 8.4.0"),
            ("8.0.11-TiDB-v7.5.0", Product::TiDb, (7, 5, 0), "TiDB 7.5.0"),
            (
                "5.6.29-TDDL-5.4.18-16971811",
                Product::PolarDbX,
                (5, 4, 18),
                "PolarDB-X 5.4.18",
            ),
            (
                "5.7.25-OceanBase seekdb-v1.4.0.0",
                Product::OceanBase,
                (4, 3, 5),
                "OceanBase seekdb 1.4.0.0",
            ),
            (
                "5.7.25-OceanBase-v4.2.1.10",
                Product::OceanBase,
                (4, 2, 1),
                "OceanBase 4.2.1.10",
            ),
            (
                "8.0.32-PXC-5.4.19-20240527",
                Product::PolarDbX,
                (5, 4, 19),
                "PolarDB-X 5.4.19",
            ),
        ];
        for (text, product, number, shown) in cases {
            let version = Version::parse(text).unwrap();
            assert_eq!(
                (version.product, version.number, version.shown.as_str()),
                (product, number, shown),
                "{text}"
            );
        }
        assert_eq!(Version::parse("unknown"), None);
    }
}
