//! What metrics show of a store that other processes use too: connections, and how far behind the others it is.

use std::fmt;
use std::sync::Arc;

use installation::{DatabaseLoad, Health};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::metrics::Metrics;

/// Shows the load of a store whenever metrics are written; nothing of a store that has none.
pub fn register(health: Arc<dyn Health>, metrics: &mut Metrics) {
    if health.load().is_some() {
        let load = Box::new(LoadCollector(health));
        metrics.registry().register_collector(load);
    }
}

struct LoadCollector(Arc<dyn Health>);

impl Collector for LoadCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(load) = self.0.load() else {
            return Ok(());
        };
        let mut show = |name, help, value: f64| {
            let gauge = ConstGauge::new(value);
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)
        };
        show(
            "easel_store_connections_used",
            "Connections to the database that are in use",
            f64::from(load.used),
        )?;
        show(
            "easel_store_connections_idle",
            "Connections to the database that are open and free",
            f64::from(load.idle),
        )?;
        show(
            "easel_store_connections_waiting",
            "Tasks that wait for a connection to the database",
            f64::from(load.waiting),
        )?;
        if let Some(behind) = load.behind {
            show(
                "easel_store_changes_lag_seconds",
                "How long ago all changes of other replicas were known",
                behind.as_secs_f64(),
            )?;
        }
        match load.database {
            Some(database) => show_database(&mut encoder, &database),
            None => Ok(()),
        }
    }
}

fn show_database(
    encoder: &mut DescriptorEncoder<'_>,
    database: &DatabaseLoad,
) -> Result<(), fmt::Error> {
    let written = ConstCounter::new(database.log_bytes);
    let log = encoder.encode_descriptor(
        "easel_store_log_bytes",
        "Bytes of the write-ahead log of the database server, since it was made",
        None,
        written.metric_type(),
    )?;
    written.encode(log)?;
    let mut dead = encoder.encode_descriptor(
        "easel_store_dead_rows",
        "Rows of a table that wait for the vacuum of the database",
        None,
        MetricType::Gauge,
    )?;
    for (table, rows) in database.dead_rows.iter() {
        let rows = ConstGauge::new(i64::try_from(*rows).unwrap_or(i64::MAX));
        rows.encode(dead.encode_family(&[("table", *table)])?)?;
    }
    Ok(())
}

impl fmt::Debug for LoadCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoadCollector")
    }
}
