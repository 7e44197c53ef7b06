//! A database by its URL.

use std::ops::Deref;

use tonnage_core::{error::Result, target::Target};
use tonnage_engine::connected::Connected;

use crate::targets;

/// One database at one URL, from which loads, unloads, gets, puts and buffers begin: see [`Connected`].
///
/// `db.load("orders/*.parquet").table("orders").upsert(["id"]).run().await?`,
/// `db.unload("orders").to("orders.parquet").run().await?`.
///
/// A URL stands wherever a file may be named: `s3://`, `gs://` and `az://`, and for what is read `https://`. Credentials and
/// endpoints are those of the environment, as the tools of each cloud find them; `docs/objects.md` names them.
///
/// ```no_run
/// # async fn example() -> tonnage::Result<()> {
/// let db = tonnage::Database::connect("postgresql://app@db/shop").await?;
/// db.load("s3://lake/orders/2026-*/*.parquet").table("orders").upsert(["id"]).new_files().run().await?;
/// db.exec("update stock set quantity = quantity - :sold where id = :id")
///     .from("https://example.org/sold.csv.gz")
///     .touches(["id"])
///     .run()
///     .await?;
/// db.unload("orders").to("gs://export/orders/").manifest().run().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database(Connected);

impl Database {
    /// Connects to what `url` names: see [`targets::DRIVERS`]. `Config` where it names no database, `Unsent` where
    /// nothing answers.
    pub async fn connect(url: &str) -> Result<Self> {
        let target = targets::connect(url).await?;
        Ok(Self(Connected::new(target, targets::redact(url))))
    }

    /// Connects to databases of one kind that hold tables together: [`targets::connect_sharded`].
    pub async fn connect_sharded<M: Into<String>, S: Into<String>>(
        members: impl IntoIterator<Item = M>,
        shard_by: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        let members: Vec<String> = members.into_iter().map(Into::into).collect();
        let shard_by: Vec<String> = shard_by.into_iter().map(Into::into).collect();
        let shown: Vec<_> = members.iter().map(|member| targets::redact(member)).collect();
        let target = targets::connect_sharded(&members, &shard_by, None).await?;
        Ok(Self(Connected::new(target, shown.join(", "))))
    }

    /// A database that is connected already. `url` is only shown, and must have no [password](targets::redact) in it.
    pub fn with_target(target: std::sync::Arc<dyn Target>, url: impl Into<String>) -> Self {
        Self(Connected::new(target, url))
    }
}

impl Deref for Database {
    type Target = Connected;

    fn deref(&self) -> &Connected {
        &self.0
    }
}
