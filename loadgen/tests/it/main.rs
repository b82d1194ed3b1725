//! The command against a small gateway that can misbehave.

#[cfg(test)]
mod baseline;
#[cfg(test)]
mod gateway;
#[cfg(test)]
mod run;
