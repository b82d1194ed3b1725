//! `sim`: sweeps of the simulator, and single seeds with their trace.

use clap::Parser;
use holdfast_sim::{Fault, HUNTS, Mistake, Outcome, Plan, Swept, run, sweep};
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
    /// Hunts every deliberate mistake that must be found, or the one that `--mutation` names, from
    /// the first seed on, instead of a sweep.
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
    if !args.logs {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let mut out = io::stdout().lock();
    let threads = match args.threads {
        Some(threads) => threads,
        None => std::thread::available_parallelism()?.get(),
    };
    if args.hunt {
        return hunt_all(&mut out, args.first, threads, mutation);
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
        show(&mut out, seed, &outcome, &args, plan)?;
        return Ok(code(outcome.finding.is_none()));
    }
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

fn hunt_all(
    out: &mut impl Write,
    first: u64,
    threads: usize,
    only: Option<Mistake>,
) -> anyhow::Result<ExitCode> {
    let mut all = true;
    for hunt in HUNTS {
        let (mutation, most) = (hunt.mutation, hunt.seeds_max);
        if only.is_some_and(|only| only != mutation) {
            continue;
        }
        match hunt.find(first, threads) {
            Some((seed, finding)) => {
                let tried = seed - (hunt.begin + first) + 1;
                writeln!(
                    out,
                    "{mutation:?}: in {tried} of at most {most} seeds: {finding}"
                )?;
                writeln!(out, "again: {}", again(seed, Some(mutation), hunt.focus))?;
            }
            None => {
                all = false;
                writeln!(out, "{mutation:?}: not found in {most} seeds")?;
            }
        }
    }
    Ok(code(all))
}

/// The command that shows a run again.
fn again(seed: u64, mutation: Option<Mistake>, focus: &[Fault]) -> String {
    let mut command = format!("make sim SEED={seed}");
    if let Some(mutation) = mutation {
        command += &format!(" MUTATION={mutation:?}");
    }
    for (at, fault) in focus.iter().enumerate() {
        command += if at == 0 { " FAULTS=" } else { "," };
        command += &fault.to_string();
    }
    command
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
        show(out, *seed, &outcome, args, plan)?;
    }
    writeln!(
        out,
        "{} seeds, {} findings",
        swept.seeds,
        swept.findings.len()
    )
}

fn show(
    out: &mut impl Write,
    seed: u64,
    outcome: &Outcome,
    args: &Args,
    plan: Plan,
) -> io::Result<()> {
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
        Some(finding) => {
            let again = again(seed, plan.mutation, plan.focus);
            writeln!(out, "{finding}\nagain: {again}")?;
        }
        None => writeln!(out, "nothing found")?,
    }
    writeln!(out, "trace {:016x}", outcome.trace_hash)
}

fn mutation_of(name: &str) -> anyhow::Result<Mistake> {
    Mistake::all()
        .find(|mistake| format!("{mistake:?}") == name)
        .ok_or_else(|| anyhow::anyhow!("no such mutation; there are {:?}", all()))
}

fn all() -> Vec<Mistake> {
    Mistake::all().collect()
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
