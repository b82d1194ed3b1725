//! `lockctl acquire`, `renew`, `release`.

use crate::args::{AcquireArgs, ReleaseArgs, RenewArgs};
use crate::asking::Asking;
use crate::failure::Failure;
use crate::hold_file::{Held, HoldText, NewFile};
use crate::{json, print};
use holdfast_client::{Acquire, BootClock, Clock as _, Error, Granted, Refused};
use holdfast_console::{Align, Format, table};
use serde_json::json;
use std::time::Duration;

pub(crate) async fn acquire(args: &AcquireArgs) -> Result<(), Failure> {
    let format = args.output.format();
    let asking = Asking::new(&args.connection, args.wanted.client_id.as_deref())?;
    let name = &args.wanted.name;
    let file = args.hold.as_deref();
    let file = file.map(|path| NewFile::create(path, name)).transpose()?;
    let wanted = Acquire {
        request_id: args.request_id.clone(),
        ..args.wanted.acquire()
    };
    let granted = match asking.acquire(&wanted).await {
        Ok(granted) => granted,
        Err(error) => return Err(refused(error, format, "acquired")),
    };
    let Some(file) = file else {
        return print(&text(&HoldText::new(&wanted.name, &granted), format));
    };
    let mut hold = HoldText::new(&wanted.name, &granted);
    if let Err(failure) = file.keep(&hold) {
        give_back(&asking, &granted).await;
        return Err(failure);
    }
    hold.lock_id = None;
    print(&text(&hold, format))
}

/// Nobody will know the hold's id. If this fails, it ends by its TTL.
async fn give_back(asking: &Asking, granted: &Granted) {
    let releasing = || asking.client.release(&granted.lock_id, granted.token);
    let _unreleased = asking.ask(releasing).await;
}

pub(crate) async fn renew(args: &RenewArgs) -> Result<(), Failure> {
    let format = args.output.format();
    let held = Held::read(&args.hold)?;
    let asking = Asking::new(&args.connection, None)?;
    let (lock_id, token) = (held.lock_id(), held.token());
    let ttl = args.ttl.map(|ttl| *ttl);
    let renewing = asking.ask(|| asking.client.renew(&lock_id, token, ttl));
    let promise = match renewing.await {
        Ok(promise) => promise,
        Err(error) => return Err(refused(error, format, "renewed")),
    };
    let now = BootClock.now();
    let (lasts, renew_after) = (promise.until.since(now), promise.renew_at.since(now));
    print(&match format {
        Format::Table => format!("renewed: lasts {}\n", seconds(lasts)),
        Format::Json => json(&json!({
            "renewed": true, "ttlMs": millis(lasts), "renewAfterMs": millis(renew_after),
        })),
    })
}

pub(crate) async fn release(args: &ReleaseArgs) -> Result<(), Failure> {
    let format = args.output.format();
    let held = Held::read(&args.hold)?;
    let asking = Asking::new(&args.connection, None)?;
    let (lock_id, token) = (held.lock_id(), held.token());
    let releasing = asking.ask(|| asking.client.release(&lock_id, token));
    releasing
        .await
        .map_err(|error| refused(error, format, "released"))?;
    print(&match format {
        Format::Table => "released\n".to_owned(),
        Format::Json => json(&json!({ "released": true })),
    })
}

/// A definite no is a result too, for programs.
fn refused(error: Error, format: Format, what: &str) -> Failure {
    if let (Error::Refused(refused), Format::Json) = (&error, format) {
        let reason = match refused {
            Refused::Taken(reason) => json!(reason),
            Refused::Ended(reason) => json!(reason),
            Refused::TokenMismatch => json!("token_mismatch"),
        };
        let printed = print(&json(&json!({ what: false, "reason": reason })));
        if let Err(failure) = printed {
            return failure;
        }
    }
    error.into()
}

fn text(hold: &HoldText<'_>, format: Format) -> String {
    if format == Format::Json {
        return json(hold);
    }
    let mut columns = vec![("FENCING TOKEN", Align::Right), ("LASTS", Align::Right)];
    let lasts = Duration::from_millis(hold.ttl_ms);
    let mut row = vec![hold.fencing_token.to_string(), seconds(lasts)];
    if let Some(lock_id) = hold.lock_id {
        columns.push(("LOCK ID", Align::Left));
        row.push(lock_id.to_owned());
    }
    table(&columns, [row])
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn seconds(duration: Duration) -> String {
    format!("{:.1}s", duration.as_secs_f64())
}
