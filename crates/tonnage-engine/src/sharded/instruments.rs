//! What measuring needs: scratch tables in every member, and what these report together.
//!
//! What a table takes is added up. Members' logs are not: whether two of them are the same is not known here.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use tonnage_core::{
    error::{Error, Result},
    instruments::{
        Address, Cause, Copied, Disk, Instruments, Keys, LogMark, Making, Measured, Records, ScratchPlace,
        Servers, TableForm, Triggers, Work, no_way_to, not_by_tcp,
    },
    operation::{Method, Mode},
    table::{Table, TableName},
    target::Target,
};

use super::{Member, ShardedTarget};

/// The gauge of a member.
fn instruments<'a>(member: &Member, target: &'a dyn Target) -> Result<&'a dyn Instruments> {
    target
        .instruments()
        .ok_or_else(|| Error::config(format!("{} cannot be measured yet", member.name)))
}

#[async_trait]
impl Instruments for ShardedTarget {
    async fn through_proxy(&self, _: SocketAddr) -> Result<Arc<dyn Target>> {
        Err(no_way_to(self.address()))
    }

    async fn keep_log(&self) -> Result<Option<Box<dyn Send + Sync>>> {
        // What several logs say together is not read.
        Ok(None)
    }

    fn place(&self, prefix: &str) -> ScratchPlace {
        ScratchPlace {
            shown: format!("tables {prefix}_* in each of {} databases", self.members.len()),
            outside_database: false,
        }
    }

    async fn scratch(&self, name: &str, _: Option<u32>) -> Result<Option<Arc<dyn Target>>> {
        for member in &self.members {
            let target = member.target().await?;
            if instruments(member, &*target)?.place(name).outside_database {
                return Err(Error::config(format!(
                    "{} is measured beside itself, and several such cannot be measured together",
                    member.name
                ))
                .hint("measure one of them, by its own name"));
            }
        }
        Ok(None)
    }

    fn address(&self) -> Result<Address> {
        Err(not_by_tcp("several databases are reached by as many ways"))
    }

    async fn obstacle(&self, form: &TableForm) -> Result<Option<String>> {
        if form.keys == Keys::Generated {
            return Ok(Some(
                "rows go to the database that their key says, so they must bring it".to_owned(),
            ));
        }
        if form.partitions > 0 {
            return Ok(Some(
                "rows go to the database that their key says, and are not partitioned by time as well"
                    .to_owned(),
            ));
        }
        let members = self
            .all(async |at, target| instruments(&self.members[at], &*target)?.obstacle(form).await)
            .await?;
        let mut named = self.members.iter().zip(members);
        Ok(named.find_map(|(member, why)| Some(format!("{}: {}", member.name, why?))))
    }

    async fn make(&self, making: &Making) -> Result<()> {
        // Refuses what cannot be sharded.
        self.create_statement(&making.spec)?;
        self.all(async |at, target| instruments(&self.members[at], &*target)?.make(making).await)
            .await?;
        Ok(())
    }

    async fn servers(&self) -> Result<Measured<Servers>> {
        let members = self
            .all(async |at, target| instruments(&self.members[at], &*target)?.servers().await)
            .await?;
        let mut all: Option<Servers> = None;
        for member in members {
            let servers = match member {
                Ok(servers) => servers,
                Err(why) => return Ok(Err(why)),
            };
            match &mut all {
                None => all = Some(servers),
                // Members may be databases of one server.
                Some(all) => all.listening.extend(servers.listening),
            }
        }
        Ok(all.ok_or_else(|| "no database is named".to_owned()))
    }

    async fn work(&self, _: Option<&Work>) -> Result<Work> {
        // Members may be databases of one server: a sum would count its log as often.
        Ok(Work::untold("several databases do not tell it together"))
    }

    async fn copy(&self, table: &Table, _: &str, _: Triggers) -> Result<Copied> {
        Err(Error::config(format!(
            "{} lies in several databases, each of which writes its rows by itself",
            table.name
        ))
        .hint("look at one of them, by its own name"))
    }

    async fn samples(&self, _: &Table) -> Result<BTreeMap<String, String>> {
        Ok(BTreeMap::new())
    }

    async fn discard(&self, name: &str) -> Result<()> {
        self.all(async |at, target| instruments(&self.members[at], &*target)?.discard(name).await)
            .await?;
        Ok(())
    }

    async fn left(&self, prefix: &str) -> Result<Vec<String>> {
        let members = self
            .all(async |at, target| instruments(&self.members[at], &*target)?.left(prefix).await)
            .await?;
        Ok(members.concat())
    }

    async fn disk(&self, table: &TableName) -> Result<Option<Disk>> {
        let members = self
            .all(async |at, target| instruments(&self.members[at], &*target)?.disk(table).await)
            .await?;
        let mut sum: Option<Disk> = None;
        for disk in members {
            let Some(disk) = disk else { return Ok(None) };
            sum = Some(sum.map_or(disk, |sum| Disk {
                rows_bytes: sum.rows_bytes.zip(disk.rows_bytes).map(|(a, b)| a + b),
                bytes: sum.bytes + disk.bytes,
                page_bytes: disk.page_bytes,
            }));
        }
        Ok(sum)
    }

    async fn log(&self) -> Result<Option<LogMark>> {
        // Members may be databases of one server, and then share its log: a sum would count it as often.
        Ok(None)
    }

    async fn records(&self, _: &Table, _: Mode, _: &LogMark, _: &LogMark) -> Result<Records> {
        Ok(Records::Unknown {
            why: "several databases do not tell their logs together: tonnage explain of one of them does"
                .to_owned(),
        })
    }

    async fn causes(&self, _: &Table, _: Mode, _: Method, _: &[String]) -> Result<Vec<Cause>> {
        Ok(Vec::new())
    }
}
