//! Ways of different lengths to the database, and the database at the end of each.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tonnage_core::{error::Result, target::Target};

use super::instruments;
use crate::measure::{
    latency_proxy::{LatencyProxy, Length},
    setting::Setting,
};

/// The database by a longer way.
pub(super) struct Remote {
    micros: u64,
    pub(super) way: LatencyProxy,
    /// Connects by that way.
    pub(super) target: Arc<dyn Target>,
}

/// One for each length that is not that of the way as it is.
#[derive(Default)]
pub(super) struct Ways(Vec<Remote>);

impl Ways {
    /// Opens those that `settings` need.
    pub(super) async fn open(
        target: &dyn Target,
        settings: &[Setting],
        bandwidth: Option<u64>,
    ) -> Result<Self> {
        let lengths: BTreeSet<u64> = settings.iter().map(|s| s.round_trip_micros).collect();
        let mut ways = Self::default();
        for micros in lengths {
            if micros == 0 && bandwidth.is_none() {
                continue;
            }
            let length = Length {
                round_trip: Duration::from_micros(micros),
                bandwidth,
            };
            let instruments = instruments(target)?;
            let way = LatencyProxy::open(instruments.address()?, length)?;
            let target = instruments.through_proxy(way.local()).await?;
            ways.0.push(Remote { micros, way, target });
        }
        Ok(ways)
    }

    /// That of a setting; none for the way as it is.
    pub(super) fn of(&self, setting: &Setting) -> Option<&Remote> {
        self.0
            .iter()
            .find(|remote| remote.micros == setting.round_trip_micros)
    }
}
