//! `lockctl force-release`

use crate::args::ForceArgs;
use crate::asking::Asking;
use crate::failure::Failure;
use crate::{json, print};
use holdfast_client::ForceReleaseReply;
use holdfast_console::Format;

pub(crate) async fn run(args: &ForceArgs) -> Result<(), Failure> {
    let asking = Asking::new(&args.connection, None)?;
    let (name, reason) = (&args.name, &args.reason);
    let forcing = asking.ask(|| asking.client.force_release(name, reason, args.immediate));
    let reply = forcing.await?;
    match args.output.format() {
        Format::Json => print(&json(&reply))?,
        Format::Table if reply.released => print(&text(&reply))?,
        Format::Table => {}
    }
    match reply.released {
        true => Ok(()),
        false => Err(Failure::Refused(format!("nobody holds {name}"))),
    }
}

fn text(reply: &ForceReleaseReply) -> String {
    let token = reply.fencing_token.unwrap_or_default();
    let free_at = reply.free_at.as_deref().unwrap_or("once");
    format!("released: the hold with fencing token {token}; the name is free at {free_at}\n")
}
