//! Searches through the whole of a model's states.

use crate::Ownership;
use crate::moves::Moves;
use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;

/// What a search has found.
#[derive(Debug)]
pub struct Found {
    /// Different states.
    pub states: usize,
    /// Steps between them that were tried.
    pub steps: usize,
    /// The longest of the shortest ways to a state, about.
    pub depth: usize,
    /// What must hold and does not, each with the way there.
    pub broken: Vec<Way>,
    /// What must be reached and is.
    pub reached: Vec<Way>,
    /// What must be reached and is not. Means nothing where a search ended early.
    pub not_reached: Vec<&'static str>,
}

impl Found {
    /// Whether a state was found in which this does not hold.
    pub fn breaks(&self, property: &str) -> bool {
        self.broken.iter().any(|way| way.name == property)
    }
}

/// The way to a state that shows something.
#[derive(Debug)]
pub struct Way {
    /// What it shows.
    pub name: &'static str,
    /// The actions that lead there.
    pub actions: Vec<String>,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, after {} steps:", self.name, self.actions.len())?;
        self.actions
            .iter()
            .try_for_each(|action| writeln!(f, "  {action}"))
    }
}

/// A model that can be searched, and whose ways can be shown.
pub trait Searched:
    Model<State = Self::St, Action = Self::Act> + Clone + Send + Sync + 'static
{
    /// Its states.
    type St: Clone + PartialEq + Hash + fmt::Debug + Send + Sync;
    /// Its actions.
    type Act: Clone + PartialEq + fmt::Debug + Send + Sync;
}

impl Searched for Ownership {
    type St = crate::state::State;
    type Act = crate::actions::Action;
}

impl Searched for Moves {
    type St = crate::moves::state::State;
    type Act = crate::moves::actions::Action;
}

/// Searches breadth first, to the end of the states or to the first one that breaks something.
///
/// On several threads a way is a short one, on one thread the shortest, give or take a few steps.
pub fn search<M: Searched>(model: M, threads: usize) -> Found {
    run(model, threads, HasDiscoveries::AnyFailures)
}

/// Searches breadth first until something breaks this property.
pub fn hunt<M: Searched>(model: M, threads: usize, property: &'static str) -> Found {
    run(
        model,
        threads,
        HasDiscoveries::AnyOf(BTreeSet::from([property])),
    )
}

fn run<M: Searched>(model: M, threads: usize, until: HasDiscoveries) -> Found {
    let properties = model.properties();
    let builder = model.checker().threads(threads).finish_when(until);
    let checker = builder.spawn_bfs().join();
    let mut found = Found {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        broken: Vec::new(),
        reached: Vec::new(),
        not_reached: Vec::new(),
    };
    let must_hold = |name| {
        let mut named = properties.iter().filter(|property| property.name == name);
        named.any(|property| property.expectation == Expectation::Always)
    };
    for (name, path) in checker.discoveries() {
        let actions = path
            .into_actions()
            .iter()
            .map(|action| format!("{action:?}"))
            .collect();
        let way = Way { name, actions };
        match must_hold(name) {
            true => found.broken.push(way),
            false => found.reached.push(way),
        }
    }
    let reached: BTreeSet<_> = found.reached.iter().map(|way| way.name).collect();
    let names = properties.iter().map(|property| property.name);
    let wanted = names.filter(|name| !must_hold(name));
    found.not_reached = wanted.filter(|name| !reached.contains(name)).collect();
    found
}
