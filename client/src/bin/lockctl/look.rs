//! `lockctl show` and `lockctl list`.

use crate::args::{ListArgs, ShowArgs};
use crate::asking::Asking;
use crate::failure::Failure;
use crate::limits::{LIST_MAX, PAGE};
use crate::{complain, json, print};
use holdfast_client::{Error, LockInfo};
use holdfast_console::{Align, Format, table};
use std::time::Duration;

pub(crate) async fn show(args: &ShowArgs) -> Result<(), Failure> {
    let asking = Asking::new(&args.connection, None)?;
    let mut locks = Vec::new();
    for name in &args.names {
        locks.push(asking.ask(|| asking.client.inspect(name)).await?);
    }
    print(&text(&locks, args.output.format()))
}

pub(crate) async fn list(args: &ListArgs) -> Result<(), Failure> {
    if !(1..=LIST_MAX).contains(&args.limit) {
        return Err(Failure::Usage(format!(
            "--limit: wanted is 1 to {LIST_MAX}"
        )));
    }
    let asking = Asking::new(&args.connection, None)?;
    let (locks, more) = gather(&asking, &args.prefix, args.limit).await?;
    if more {
        complain(format_args!(
            "there are more than {}; --limit shows more",
            args.limit
        ));
    }
    print(&text(&locks, args.output.format()))
}

/// At most `limit` locks, and whether there are more.
async fn gather(
    asking: &Asking,
    prefix: &str,
    limit: usize,
) -> Result<(Vec<LockInfo>, bool), Error> {
    let (mut locks, mut cursor) = (Vec::new(), None);
    loop {
        let size = PAGE.min(limit - locks.len());
        let cursor_now: Option<&str> = cursor.as_deref();
        let asked = asking.ask(|| asking.client.list(prefix, size, cursor_now));
        let page = asked.await?;
        locks.extend(page.locks);
        // A gateway that gives more than was asked for is not believed.
        locks.truncate(limit);
        cursor = page.next_cursor;
        if cursor.is_none() || locks.len() >= limit {
            return Ok((locks, cursor.is_some()));
        }
    }
}

fn text(locks: &[LockInfo], format: Format) -> String {
    match format {
        Format::Json => json(&locks),
        Format::Table => table(&COLUMNS, locks.iter().map(row)),
    }
}

const COLUMNS: [(&str, Align); 9] = [
    ("NAME", Align::Left),
    ("STATE", Align::Left),
    ("CLIENT", Align::Left),
    ("FENCING TOKEN", Align::Right),
    ("HELD FOR", Align::Right),
    ("ENDS UNLESS RENEWED", Align::Left),
    ("WAITERS", Align::Right),
    ("SHARD", Align::Right),
    ("CLUSTER", Align::Left),
];

fn row(lock: &LockInfo) -> Vec<String> {
    let state = match (lock.held, lock.force_released) {
        (false, _) => "free",
        (true, Some(true)) => "ended by force",
        (true, _) => "held",
    };
    let held_for = lock.held_for_ms.map(|ms| {
        // Nobody wants the milliseconds of days.
        let secs = Duration::from_secs(ms / 1000);
        humantime::format_duration(secs).to_string()
    });
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    vec![
        // A name has no control characters, so it stays on its line.
        lock.name.clone(),
        state.to_owned(),
        text(&lock.client_id),
        lock.fencing_token
            .map(|token| token.to_string())
            .unwrap_or_default(),
        held_for.unwrap_or_default(),
        text(&lock.expires_at),
        lock.waiters.to_string(),
        lock.shard.to_string(),
        lock.cluster.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(held: bool) -> LockInfo {
        LockInfo {
            name: "process_order:42".into(),
            held,
            client_id: held.then(|| "worker-7".into()),
            fencing_token: held.then_some(4711),
            expires_at: held.then(|| "2026-01-01T12:00:30.000Z".into()),
            held_for_ms: held.then_some(3_723_456),
            metadata: None,
            force_released: None,
            waiters: 0,
            shard: 17,
            cluster: "a".into(),
        }
    }

    #[test]
    fn people_see_a_line_per_lock() {
        let ended = LockInfo {
            force_released: Some(true),
            ..lock(true)
        };
        let shown = text(&[lock(true), lock(false), ended], Format::Table);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].starts_with("NAME") && lines.len() == 4, "{shown}");
        assert!(
            lines[1].contains("held") && lines[1].contains("1h 2m 3s"),
            "{shown}"
        );
        assert!(
            lines[2].contains("free") && lines[2].ends_with("17  a"),
            "{shown}"
        );
        assert!(lines[3].contains("ended by force"), "{shown}");
    }

    #[test]
    fn programs_get_what_the_gateway_said() {
        let shown = text(&[lock(true)], Format::Json);
        let read: Vec<LockInfo> = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, [lock(true)]);
    }
}
