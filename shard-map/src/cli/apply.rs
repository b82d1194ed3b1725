//! `shard-map apply`, `pause`, `resume` and `rollback`: what writes a rollout's record.

use super::args::{ApplyArgs, Output, RolloutArgs};
use super::checks::check;
use super::connection::Connection;
use super::home::{ClusterLinks, HomeLink, call};
use super::plan::{read_plan, summary, unreachable};
use super::show::{cut, pretty};
use super::{Failure, Printed, clock, status};
use serde_json::json;
use shard_map::init::{identified, identify};
use shard_map::plan::Plan;
use shard_map::records::Identity;
use shard_map::rollout::{Direction, Home, Rollout, RunState};
use shard_map::{ShardId, ShardRanges, limits};

pub(super) async fn apply(args: &ApplyArgs) -> Result<Printed, Failure> {
    let plan = read_plan(&args.plan)?;
    let canary = canary(args, &plan)?;
    if args.reason.len() > limits::REASON_BYTES_MAX {
        return Err(Failure::Usage(format!(
            "--reason: at most {} bytes",
            limits::REASON_BYTES_MAX
        )));
    }
    let connection = Connection::new(&args.connection)?;
    let link = HomeLink::new(&connection)?;
    let home = link.look().await?;
    let during = plan.during().map_err(|error| {
        Failure::Refused(format!(
            "the plan's map is none: {error}\nMake the plan anew."
        ))
    })?;
    let passed = check(&connection, &link, &home, &plan, &during).await?;
    if args.dry_run {
        return Ok(dry_run(args, &plan, &passed));
    }
    let rollout = Rollout {
        max_moving: args.max_moving,
        canary,
        who: args.who.clone(),
        reason: args.reason.clone(),
        began_unix_ms: clock::unix_ms(),
        ..Rollout::of(&plan)
    };
    name_added(&connection, &plan).await?;
    let begin = home
        .begin(&plan, &rollout)
        .map_err(|error| Failure::Refused(format!("the plan's map is none: {error}")))?;
    changed(link.write(begin).await?)?;
    let moves = during.moving().next().is_some();
    if moves && args.wait {
        return status::watch(&connection, &link, args.connection.output).await;
    }
    let text = match moves {
        true => "The rollout has begun; gateways carry it out. To watch: shard-map status --watch",
        false => "The map is published; nothing had to move.",
    };
    Ok(told(
        args.connection.output,
        if moves { "begun" } else { "published" },
        text,
    ))
}

fn dry_run(args: &ApplyArgs, plan: &Plan, passed: &[String]) -> Printed {
    match args.connection.output {
        Output::Json => pretty(&json!({"outcome": "checked", "passed": passed})).into(),
        Output::Text => {
            let passed = passed.iter().map(|one| format!("passed: {one}\n"));
            let passed: String = passed.collect();
            format!("{}\n{passed}\nNothing was changed.\n", summary(plan)).into()
        }
    }
}

fn canary(args: &ApplyArgs, plan: &Plan) -> Result<Option<ShardRanges>, Failure> {
    let Some(canary) = &args.canary else {
        return Ok(None);
    };
    let moving = plan.moving();
    let stays = |shard: &ShardId| !moving.iter().any(|it| it == *shard);
    match canary.iter().find(stays) {
        Some(shard) if moving.count() == 0 => Err(Failure::Usage(format!(
            "--canary: shard {shard} does not move in this plan, nor does any other"
        ))),
        Some(shard) => Err(Failure::Usage(format!(
            "--canary: shard {shard} does not move in this plan\nThese do: {}",
            cut(&moving.to_string())
        ))),
        None if canary.count() == 0 => Err(Failure::Usage("--canary: no shard is named".into())),
        None => Ok(Some(canary.clone())),
    }
}

/// Clusters that are added get their identity before a map names them.
async fn name_added(connection: &Connection<'_>, plan: &Plan) -> Result<(), Failure> {
    let added: Vec<_> = plan
        .added()
        .filter_map(|name| plan.after().cluster(name))
        .cloned()
        .collect();
    for (name, store) in ClusterLinks::new(connection, &added)?.iter() {
        let identity = Identity {
            deployment: plan.after().deployment(),
            cluster: name.clone(),
            beacon: None,
        };
        let reply = call(store, identify(&identity))
            .await
            .map_err(|error| unreachable(name, &error))?;
        if identified(&identity, &reply).is_none() {
            return Err(Failure::Refused(format!(
                "cluster {name} has keys of locks, or belongs to another deployment\nUse an etcd cluster of its own; if \
                 nobody needs the keys: etcdctl del --prefix /locks/ and etcdctl del --prefix /holdfast/ (there)."
            )));
        }
    }
    Ok(())
}

pub(super) async fn pause(args: &RolloutArgs) -> Result<Printed, Failure> {
    set_state(args, |rollout| match rollout.state {
        RunState::Running => Ok(RunState::Paused),
        RunState::Paused => Err("the rollout is paused already\nTo go on: shard-map resume".into()),
        RunState::Failed => Err(
            "the rollout has failed, and does not go on by itself\nSee: shard-map status".into(),
        ),
    })
    .await?;
    let text = "Paused: no further shard begins, and the guards of those that are moving stay as they are; their locks are \
                served.\nTo go on: shard-map resume; to take it back: shard-map rollback";
    Ok(told(args.connection.output, "paused", text))
}

pub(super) async fn resume(args: &RolloutArgs) -> Result<Printed, Failure> {
    set_state(args, |rollout| match rollout.state {
        RunState::Running => Err("the rollout is running already\nSee: shard-map status".into()),
        RunState::Paused | RunState::Failed => Ok(RunState::Running),
    })
    .await?;
    Ok(told(
        args.connection.output,
        "resumed",
        "The rollout goes on. To watch: shard-map status --watch",
    ))
}

async fn set_state(
    args: &RolloutArgs,
    next: impl Fn(&Rollout) -> Result<RunState, String>,
) -> Result<(), Failure> {
    let connection = Connection::new(&args.connection)?;
    let link = HomeLink::new(&connection)?;
    let home = link.look().await?;
    let rollout = running(&home)?;
    let state = next(rollout).map_err(Failure::Refused)?;
    let rollout = Rollout {
        state,
        problem: None,
        ..rollout.clone()
    };
    changed(link.write(home.set(&rollout)).await?)
}

pub(super) async fn rollback(args: &RolloutArgs) -> Result<Printed, Failure> {
    let connection = Connection::new(&args.connection)?;
    let link = HomeLink::new(&connection)?;
    let home = link.look().await?;
    let rollout = running(&home)?;
    if rollout.direction == Direction::Back {
        return Err(Failure::Refused(
            "the rollout is being taken back already\nIf it is paused or has failed: shard-map resume".into(),
        ));
    }
    let before = link.map_of(rollout.before).await?;
    let back = home
        .turn_back(&before, rollout)
        .map_err(|error| Failure::Refused(format!("the map to go back to is none: {error}")))?;
    changed(link.write(back).await?)?;
    let text = "The rollout is taken back: every shard returns to where it was. To watch: shard-map status --watch";
    Ok(told(args.connection.output, "turned_back", text))
}

fn running(home: &Home) -> Result<&Rollout, Failure> {
    home.rollout.as_ref().ok_or_else(|| {
        Failure::Refused(
            "no rollout runs\nTo begin one: shard-map plan, shard-map apply; to undo one that has ended: shard-map plan \
             --undo"
                .into(),
        )
    })
}

fn changed(written: bool) -> Result<(), Failure> {
    match written {
        true => Ok(()),
        false => Err(Failure::Refused(
            "home has changed in the meantime; nothing was done\nSee: shard-map status".into(),
        )),
    }
}

fn told(output: Output, outcome: &str, text: &str) -> Printed {
    match output {
        Output::Json => pretty(&json!({ "outcome": outcome })).into(),
        Output::Text => format!("{text}\n").into(),
    }
}
