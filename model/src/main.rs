//! Searches the models within bounds of your choice.

use anyhow::ensure;
use clap::{Args, Parser};
use holdfast_model::Ownership;
use holdfast_model::bounds::{Bounds, Often};
use holdfast_model::moves::{self, Moves};
use holdfast_model::mutation::Mutation;
use holdfast_model::properties::names;
use holdfast_model::scenes;
use holdfast_model::search::{Found, hunt, search};
use holdfast_model::state::Left;
use std::io::Write as _;

const THREADS: usize = 2;

/// Searches every state of the model of ownership.
#[derive(Debug, Parser)]
enum Command {
    /// Within the bounds of the named scenes; without names, of the large ones.
    Scenes {
        /// Their names.
        names: Vec<String>,
    },
    /// Within bounds of your own.
    Search(Options),
    /// Not ownership, but a shard that moves between two clusters, within bounds of your own.
    Moves(MovesOptions),
}

#[derive(Debug, Args)]
struct MovesOptions {
    /// How often the goal of the rollout turns.
    #[arg(long, default_value_t = 1)]
    turns: u8,
    /// How often a gateway loses a session, or dies.
    #[arg(long, default_value_t = 1)]
    losses: u8,
    /// How often a driver takes long over a turn: between its reads, and before its write arrives.
    #[arg(long, default_value_t = 1)]
    slow_turns: u8,
    /// Every write of a gateway is answered.
    #[arg(long)]
    all_heard: bool,
    /// How often the name is granted again: 0 to 3.
    #[arg(long, default_value_t = 1)]
    grants: u8,
    /// Has the gateways make this mistake.
    #[arg(long)]
    mutation: Option<moves::mutation::Mutation>,
    /// Goes on until this property is broken, instead of any.
    #[arg(long, value_parser = property_of_moves)]
    until: Option<&'static str>,
    /// Threads that search.
    #[arg(long, default_value_t = THREADS)]
    threads: usize,
}

#[derive(Debug, Args)]
struct Options {
    /// Gateways: 1 to 3.
    #[arg(long, default_value_t = 2)]
    gateways: u8,
    /// Clients: 1 or 2.
    #[arg(long, default_value_t = 2)]
    clients: u8,
    /// A session's TTL in ticks.
    #[arg(long, default_value_t = 2)]
    session_ttl: u8,
    /// The lock's TTL in ticks.
    #[arg(long, default_value_t = 2)]
    lock_ttl: u8,
    /// Late copies of writes at a time: 0 to 2.
    #[arg(long, default_value_t = 1)]
    late_writes: u8,
    /// How often a session is revoked although it was kept alive: a number, or `always`.
    #[arg(long, default_value = "0", value_parser = often)]
    wrong_revokes: Often,
    /// How often a gateway dies: a number, or `always`.
    #[arg(long, default_value = "0", value_parser = often)]
    kills: Often,
    /// How often the shard's guard changes: a number, or `always`.
    #[arg(long, default_value = "0", value_parser = often)]
    guard_changes: Often,
    /// Has the gateways make this mistake.
    #[arg(long)]
    mutation: Option<Mutation>,
    /// Goes on until this property is broken, instead of any.
    #[arg(long, value_parser = property)]
    until: Option<&'static str>,
    /// Keeps gateways and clients that are alike apart, so that a way is easier to read.
    #[arg(long)]
    no_symmetry: bool,
    /// Threads that search.
    #[arg(long, default_value_t = THREADS)]
    threads: usize,
}

fn often(text: &str) -> Result<Often, String> {
    match text {
        "always" => Ok(Often::Always),
        _ => text
            .parse()
            .map(Often::Times)
            .map_err(|_| "a number up to 255, or `always`".to_owned()),
    }
}

fn property(text: &str) -> Result<&'static str, String> {
    one_of(names::ALL, text)
}

fn property_of_moves(text: &str) -> Result<&'static str, String> {
    one_of(moves::properties::names::ALL, text)
}

fn one_of(known: &[&'static str], text: &str) -> Result<&'static str, String> {
    let found = known.iter().find(|name| **name == text);
    found
        .copied()
        .ok_or_else(|| format!("one of {}", known.join(", ")))
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Scenes { names } => scenes_named(&names),
        Command::Search(options) => own_bounds(&options),
        Command::Moves(options) => moves_within(&options),
    }
}

fn moves_within(options: &MovesOptions) -> anyhow::Result<()> {
    let model = Moves {
        bounds: moves::Bounds {
            turns: options.turns,
            losses: options.losses,
            slow_turns: options.slow_turns,
            unheard: !options.all_heard,
            grants: options.grants,
        },
        mutation: options.mutation,
    };
    judged(&match options.until {
        Some(property) => hunt(model, options.threads, property),
        None => search(model, options.threads),
    })
}

fn scenes_named(names: &[String]) -> anyhow::Result<()> {
    let known = || scenes::QUICK.iter().chain(scenes::LARGE);
    for name in names {
        ensure!(
            known().any(|scene| scene.name == name),
            "no scene is called {name}; there are {}",
            known()
                .map(|scene| scene.name)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    let mut broken = 0;
    for scene in known() {
        let is_large = scenes::LARGE.iter().any(|large| large.name == scene.name);
        let wanted = names.is_empty() && is_large || names.iter().any(|name| name == scene.name);
        if wanted {
            writeln!(std::io::stdout(), "{}", scene.name)?;
            let found = search(Ownership::within(scene.bounds), THREADS);
            broken += found.broken.len() + found.not_reached.len();
            show(&found)?;
        }
    }
    ensure!(broken == 0, "the model is not as it must be");
    Ok(())
}

fn own_bounds(options: &Options) -> anyhow::Result<()> {
    let bounds = Bounds {
        gateways: options.gateways,
        clients: options.clients,
        session_ttl: Left(options.session_ttl),
        lock_ttl: Left(options.lock_ttl),
        late_writes: options.late_writes,
        wrong_revokes: options.wrong_revokes,
        kills: options.kills,
        guard_changes: options.guard_changes,
    };
    ensure!(
        bounds.are_possible(),
        "no model has these bounds: see --help"
    );
    let model = Ownership {
        bounds,
        mutation: options.mutation,
        symmetry: !options.no_symmetry,
    };
    let found = match options.until {
        Some(property) => hunt(model, options.threads, property),
        None => search(model, options.threads),
    };
    judged(&found)
}

fn judged(found: &Found) -> anyhow::Result<()> {
    show(found)?;
    ensure!(
        found.broken.is_empty(),
        "something that must hold is broken"
    );
    Ok(())
}

fn show(found: &Found) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for way in &found.broken {
        writeln!(out, "  BROKEN {way}")?;
    }
    for name in &found.not_reached {
        writeln!(out, "  not reached: {name}")?;
    }
    writeln!(
        out,
        "  {} states, {} steps, depth {}",
        found.states, found.steps, found.depth
    )
}
