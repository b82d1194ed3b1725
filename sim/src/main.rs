//! `sim`: sweeps of the simulator, and single seeds with their trace.

use clap::Parser;
use holdfast_sim::{Fault, HUNTS, Mutation, Outcome, Plan, Swept, run, sweep};
use std::io::{self, Write};
use std::process::ExitCode;

/// Runs the lease engine on a model of etcd, with faults, and judges it from outside.
#[derive(Debug, Parser)]
struct Args {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Runs this seed alone and shows what happened.
    #[arg(long)]
    seed: Option<u64>,
    /// Shows everything that happened, not only what is about the name of the finding.
    #[arg(long)]
    all: bool,
    /// With a seed: shows what the engines log.
    #[arg(long)]
    logs: bool,
    /// So many lines of the end of the trace; 0 is all of them.
    #[arg(long, default_value_t = 60)]
    lines: usize,
    /// Threads; all processors unless given.
    #[arg(long)]
    threads: Option<usize>,
    /// Ends after so many findings.
    #[arg(long, default_value_t = 10)]
    findings: usize,
    /// Has the engine make a deliberate mistake, by its name.
    #[arg(long)]
    mutation: Option<String>,
    /// Hunts every deliberate mistake that must be found, instead of a sweep.
    #[arg(long)]
    hunt: bool,
    /// Exactly these faults can happen, by their names and with commas between them.
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mutation = args.mutation.as_deref().map(mutation_of).transpose()?;
    let faults = args.faults.iter().map(|name| fault_of(name));
    let focus: Vec<Fault> = faults.collect::<Result<_, _>>()?;
    let plan = Plan {
        mutation,
        focus: focus.leak(),
        ..Plan::default()
    };
    // A panic is a finding, and told as one.
    std::panic::set_hook(Box::new(|_| {}));
    let mut out = io::stdout().lock();
    if args.hunt {
        return hunt_all(&mut out);
    }
    if let Some(seed) = args.seed {
        if args.logs {
            tracing_subscriber::fmt()
                .without_time()
                .with_writer(io::stderr)
                .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
                .init();
        }
        let outcome = run(Plan {
            seed,
            traced: true,
            ..plan
        });
        show(&mut out, seed, &outcome, &args)?;
        return Ok(code(outcome.finding.is_none()));
    }
    let threads = match args.threads {
        Some(threads) => threads,
        None => std::thread::available_parallelism()?.get(),
    };
    let seeds = args.first..args.first + args.seeds;
    let swept = sweep(seeds, threads, args.findings, plan);
    write!(out, "{}", swept.figures)?;
    let never = match args.seeds >= 1_000 && swept.findings.is_empty() {
        true => swept.figures.never_met(),
        false => Vec::new(),
    };
    tell(&mut out, &swept, &args, plan)?;
    for fault in &never {
        writeln!(out, "never met: {fault}")?;
    }
    Ok(code(swept.findings.is_empty() && never.is_empty()))
}

fn hunt_all(out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let mut all = true;
    for hunt in HUNTS {
        let (mutation, found) = (hunt.mutation, hunt.find());
        all &= found.is_some();
        match found {
            Some((seed, finding)) => writeln!(out, "{mutation:?}: seed {seed}: {finding}")?,
            None => writeln!(out, "{mutation:?}: not found in {} seeds", hunt.seeds_max)?,
        }
    }
    Ok(code(all))
}

fn tell(out: &mut impl Write, swept: &Swept, args: &Args, plan: Plan) -> io::Result<()> {
    for (seed, finding) in &swept.findings {
        writeln!(out, "seed {seed}: {finding}")?;
    }
    if let Some((seed, _)) = swept.findings.first() {
        let outcome = run(Plan {
            seed: *seed,
            traced: true,
            ..plan
        });
        show(out, *seed, &outcome, args)?;
    }
    writeln!(
        out,
        "{} seeds, {} findings",
        swept.seeds,
        swept.findings.len()
    )
}

fn show(out: &mut impl Write, seed: u64, outcome: &Outcome, args: &Args) -> io::Result<()> {
    let name = outcome.finding.as_ref().and_then(|finding| finding.name);
    let lines: Vec<_> = outcome
        .trace
        .iter()
        .filter(|line| args.all || name.is_none() || line.name == name)
        .collect();
    let skip = match args.lines {
        0 => 0,
        most => lines.len().saturating_sub(most),
    };
    for line in &lines[skip..] {
        let of = line.name.map_or(String::new(), |name| format!("n{name} "));
        writeln!(out, "{:>9} {of}{}", line.at, line.text)?;
    }
    writeln!(out, "seed {seed}: {}", outcome.options)?;
    match &outcome.finding {
        Some(finding) => writeln!(out, "{finding}\nagain: make sim SEED={seed}"),
        None => writeln!(out, "nothing found; trace {:016x}", outcome.trace_hash),
    }
}

fn mutation_of(name: &str) -> anyhow::Result<Mutation> {
    let known = Mutation::ALL.iter().copied();
    let mut same = known.filter(|mutation| format!("{mutation:?}") == name);
    same.next()
        .ok_or_else(|| anyhow::anyhow!("no such mutation; there are {:?}", Mutation::ALL))
}

fn fault_of(name: &str) -> anyhow::Result<Fault> {
    let known = Fault::ALL.iter().copied();
    let mut same = known.filter(|fault| fault.to_string() == name);
    same.next()
        .ok_or_else(|| anyhow::anyhow!("no such fault; there are {:?}", Fault::ALL))
}

fn code(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
