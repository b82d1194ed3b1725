//! `shard-map status`

use super::args::{Output, StatusArgs};
use super::connection::Connection;
use super::home::{ClusterLinks, HomeLink, call};
use super::known::Known;
use super::show::pretty;
use super::{Failure, Printed, clock, emit};
use futures::future::join_all;
use holdfast_console::{Align, table};
use serde::Serialize;
use shard_map::rollout::{Direction, Home, RunState, Survey, moving, phase, survey};
use shard_map::{ClusterName, MapVersion, ShardId, limits};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::time::Duration;

/// Between two looks of a watching command.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// In a table, shards that are neither waiting nor done; more than these are counted only.
const SHARDS_SHOWN_MAX: usize = 24;

pub(super) async fn run(args: &StatusArgs) -> Result<Printed, Failure> {
    let connection = Connection::new(&args.connection)?;
    let link = HomeLink::new(&connection)?;
    match args.watch {
        true => watch(&connection, &link, args.connection.output).await,
        false => {
            let view = look(&connection, &link, &mut Known::default()).await?;
            Ok(Printed {
                text: print(&view, args.connection.output),
                code: view.code(),
            })
        }
    }
}

/// Shows the status again and again until no rollout goes on. Ending it changes nothing.
pub(super) async fn watch(
    connection: &Connection<'_>,
    link: &HomeLink,
    output: Output,
) -> Result<Printed, Failure> {
    let screen = output == Output::Text && std::io::stdout().is_terminal();
    let (mut last, mut known) = (String::new(), Known::default());
    loop {
        let view = look(connection, link, &mut known).await?;
        let text = print(&view, output);
        if view.state != State::Moving {
            let code = match view.state {
                State::Failed => view.code(),
                // It has come to where it was sent.
                _ => 0,
            };
            return Ok(Printed { text, code });
        }
        if screen {
            // Home, and clear what is below: the table is drawn over the one before.
            emit(&format!("\x1b[H\x1b[2J{text}"));
        } else if text != last {
            emit(&text);
        }
        last = text;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Settled,
    Moving,
    Paused,
    Failed,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View {
    state: State,
    map_version: MapVersion,
    #[serde(skip_serializing_if = "Option::is_none")]
    rollout: Option<RolloutView>,
    gateways: Vec<GatewayView>,
    driver: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RolloutView {
    direction: Direction,
    who: String,
    reason: String,
    began_unix_ms: u64,
    elapsed_ms: u64,
    /// `null`: none of it is done yet.
    expected_ms_left: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    shards: u64,
    done: u64,
    /// About so many.
    locks_left: u64,
    unreachable: BTreeSet<ClusterName>,
    /// Live gateways that have no session in a cluster where shards go.
    absent: Vec<AbsentView>,
    moving: Vec<ShardView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AbsentView {
    instance: String,
    peer_url: String,
    cluster: ClusterName,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShardView {
    shard: ShardId,
    from: ClusterName,
    to: ClusterName,
    phase: &'static str,
    groups_left: u64,
    groups_arriving: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GatewayView {
    instance: String,
    peer_url: String,
    map: Option<MapVersion>,
    present: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

impl View {
    fn code(&self) -> u8 {
        match self.state {
            State::Settled => 0,
            State::Moving => 5,
            State::Paused => 6,
            State::Failed => 4,
        }
    }
}

async fn look(
    connection: &Connection<'_>,
    link: &HomeLink,
    known: &mut Known,
) -> Result<View, Failure> {
    let home = link.look().await?;
    let present = home.map.version();
    let gateways = home.gateways.iter().map(|it| GatewayView {
        instance: it.instance.clone(),
        peer_url: it.peer_url.clone(),
        map: it.map,
        present: it.map == Some(present) && it.refused.is_none(),
        refused: it.refused.clone(),
    });
    Ok(View {
        state: match home.rollout.as_ref().map(|rollout| rollout.state) {
            None => State::Settled,
            Some(RunState::Running) => State::Moving,
            Some(RunState::Paused) => State::Paused,
            Some(RunState::Failed) => State::Failed,
        },
        map_version: present,
        gateways: gateways.collect(),
        driver: home.driver.clone(),
        rollout: rollout(connection, &home, known).await?,
    })
}

async fn rollout(
    connection: &Connection<'_>,
    home: &Home,
    known: &mut Known,
) -> Result<Option<RolloutView>, Failure> {
    let Some(rollout) = &home.rollout else {
        return Ok(None);
    };
    let links = known.links(connection, &home.map)?;
    let all = moving(&home.map, home.map.moving());
    let surveys = surveys(links, &all).await;
    let mut shards = Vec::new();
    let mut unreachable = BTreeSet::new();
    for it in &all {
        let (left, goal) = (surveys.get(&it.from), surveys.get(&it.to));
        for (name, _) in [(&it.from, left), (&it.to, goal)]
            .iter()
            .filter(|(_, found)| found.is_none())
        {
            unreachable.insert((*name).clone());
        }
        let none = Survey::default();
        let (left, goal) = (left.unwrap_or(&none), goal.unwrap_or(&none));
        shards.push(ShardView {
            shard: it.shard,
            from: it.from.clone(),
            to: it.to.clone(),
            phase: phase(left.guard(it.shard), goal.guard(it.shard)),
            groups_left: left.groups(it.shard).all,
            groups_arriving: goal.groups(it.shard).arriving,
        });
    }
    let mut waiting: BTreeMap<ClusterName, u64> = BTreeMap::new();
    let has_gone = |it: &ShardView| matches!(it.phase, "ends" | "done");
    for it in shards
        .iter()
        .filter(|it| !has_gone(it) && !unreachable.contains(&it.from))
    {
        *waiting.entry(it.from.clone()).or_default() += 1;
    }
    let done = shards.iter().filter(|shard| shard.phase == "done").count() as u64;
    let total = shards.len() as u64;
    let absent = all.iter().map(|it| &it.to).collect::<BTreeSet<_>>();
    let absent = absent
        .into_iter()
        .filter_map(|name| Some((name, surveys.get(name)?)));
    let absent = absent.flat_map(|(name, survey)| {
        let missing = home
            .gateways
            .iter()
            .filter(|it| !survey.has_gateway(&it.instance));
        missing.map(|it| AbsentView {
            instance: it.instance.clone(),
            peer_url: it.peer_url.clone(),
            cluster: name.clone(),
        })
    });
    let elapsed_ms = clock::unix_ms().saturating_sub(rollout.began_unix_ms);
    Ok(Some(RolloutView {
        direction: rollout.direction,
        who: rollout.who.clone(),
        reason: rollout.reason.clone(),
        began_unix_ms: rollout.began_unix_ms,
        elapsed_ms,
        expected_ms_left: (done > 0).then(|| elapsed_ms * (total - done) / done),
        problem: rollout.problem.clone(),
        shards: total,
        done,
        locks_left: known.locks_left(&home.map, waiting).await,
        absent: absent.collect(),
        unreachable,
        moving: shards,
    }))
}

/// What each cluster has of the shards that move; a cluster that does not answer is left out.
async fn surveys(
    links: &ClusterLinks,
    all: &[shard_map::rollout::Moving],
) -> BTreeMap<ClusterName, Survey> {
    let shards: Vec<ShardId> = all.iter().map(|it| it.shard).collect();
    let shards = &shards;
    let asked = links.iter().map(|(name, store)| async move {
        let reply = call(store, survey(shards)).await.ok()?;
        Some((name.clone(), Survey::from_reply(reply)))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

fn print(view: &View, output: Output) -> String {
    match output {
        Output::Json => pretty(view),
        Output::Text => text(view),
    }
}

fn text(view: &View) -> String {
    let mut text = match &view.rollout {
        None => format!("settled: map version {}\n", view.map_version),
        Some(rollout) => rollout_text(view, rollout),
    };
    let row = |gateway: &GatewayView| {
        let map = gateway.map.map_or("none".to_owned(), |map| map.to_string());
        let driver = view.driver.as_ref() == Some(&gateway.instance);
        let note = match (&gateway.refused, gateway.present) {
            (Some(why), _) => format!("refuses the present map: {why}"),
            (None, false) => "not on the present map yet".to_owned(),
            (None, true) => String::new(),
        };
        let short = gateway.instance.chars().take(12).collect();
        vec![
            short,
            gateway.peer_url.clone(),
            map,
            if driver { "drives" } else { "" }.to_owned(),
            note,
        ]
    };
    let columns = [
        ("GATEWAY", Align::Left),
        ("PEER URL", Align::Left),
        ("MAP", Align::Right),
        ("", Align::Left),
        ("", Align::Left),
    ];
    match view.gateways.is_empty() {
        true => text.push_str("\nNo gateway is live.\n"),
        false => text.push_str(&format!(
            "\n{}",
            table(&columns, view.gateways.iter().map(row))
        )),
    }
    text
}

fn rollout_text(view: &View, rollout: &RolloutView) -> String {
    let word = match (view.state, rollout.direction) {
        (State::Paused, _) => "paused",
        (State::Failed, _) => "failed",
        (_, Direction::Forward) => "moving",
        (_, Direction::Back) => "rolling back",
    };
    let left = rollout
        .expected_ms_left
        .filter(|_| view.state == State::Moving);
    let left = left.map_or(String::new(), |ms| {
        format!(", about {} left", clock::took(ms))
    });
    let mut text = format!(
        "{word}: map version {}, {} of {} shards done, about {} locks left to move, {} so far{left}\nbegun by {} at {}{}\n",
        view.map_version,
        rollout.done,
        rollout.shards,
        rollout.locks_left,
        clock::took(rollout.elapsed_ms),
        rollout.who,
        clock::when(rollout.began_unix_ms),
        if rollout.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", rollout.reason)
        },
    );
    if let Some(problem) = &rollout.problem {
        text.push_str(&format!("problem: {problem}\n"));
    }
    for name in &rollout.unreachable {
        text.push_str(&format!(
            "cluster {name} does not answer; its shards wait\n"
        ));
    }
    for AbsentView {
        instance,
        peer_url,
        cluster,
    } in &rollout.absent
    {
        text.push_str(&format!(
            "gateway {instance} ({peer_url}) has not come to cluster {cluster}: see its log, and whether it reaches it\n"
        ));
    }
    let under_way = rollout
        .moving
        .iter()
        .filter(|it| !matches!(it.phase, "done" | "waits"));
    let rows: Vec<_> = under_way
        .map(|it| {
            let (left, arriving) = (it.groups_left.to_string(), it.groups_arriving.to_string());
            let (from, to) = (it.from.to_string(), it.to.to_string());
            vec![
                it.shard.to_string(),
                from,
                to,
                it.phase.to_owned(),
                left,
                arriving,
            ]
        })
        .collect();
    if !rows.is_empty() {
        let columns = [
            ("SHARD", Align::Right),
            ("FROM", Align::Left),
            ("TO", Align::Left),
            ("STATE", Align::Left),
            ("GROUPS LEFT", Align::Right),
            ("ARRIVING", Align::Right),
        ];
        let more = rows.len().saturating_sub(SHARDS_SHOWN_MAX);
        text.push_str(&format!(
            "\n{}",
            table(&columns, rows.into_iter().take(SHARDS_SHOWN_MAX))
        ));
        if more > 0 {
            text.push_str(&format!("and {more} more\n"));
        }
    }
    text
}

const _: () = assert!(SHARDS_SHOWN_MAX >= limits::MAX_MOVING_DEFAULT as usize);
