//! `shard-map history`

use super::args::{Output, RolloutArgs};
use super::connection::{Connection, records};
use super::home::HomeLink;
use super::show::pretty;
use super::{Failure, Printed, clock};
use holdfast_console::{Align, table};
use holdfast_store::{Get, Txn};
use shard_map::records::{Record, keys};
use shard_map::rollout::{Direction, LogEntry};

pub(super) async fn run(args: &RolloutArgs) -> Result<Printed, Failure> {
    let connection = Connection::new(&args.connection)?;
    let link = HomeLink::new(&connection)?;
    let found = records(link.ask(Txn::read([Get::all(keys::map_logs())])).await?);
    let entries = found
        .iter()
        .map(|record| LogEntry::from_value(&record.key, &record.value));
    let entries: Vec<LogEntry> = entries
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::Refused(error.to_string()))?;
    Ok(match args.connection.output {
        Output::Json => pretty(&entries),
        Output::Text if entries.is_empty() => "The map has not changed since init.\n".into(),
        Output::Text => text(&entries),
    }
    .into())
}

fn text(entries: &[LogEntry]) -> String {
    let row = |entry: &LogEntry| {
        vec![
            format!("{} to {}", entry.before, entry.after),
            match entry.direction {
                Direction::Forward => "applied",
                Direction::Back => "taken back",
            }
            .to_owned(),
            entry.shards.to_string(),
            clock::when(entry.began_unix_ms),
            clock::took(entry.ended_unix_ms.saturating_sub(entry.began_unix_ms)),
            entry.who.clone(),
            entry.reason.clone(),
        ]
    };
    let columns = [
        ("MAP", Align::Left),
        ("WHAT", Align::Left),
        ("SHARDS", Align::Right),
        ("BEGAN", Align::Left),
        ("TOOK", Align::Right),
        ("WHO", Align::Left),
        ("WHY", Align::Left),
    ];
    table(&columns, entries.iter().map(row))
}
