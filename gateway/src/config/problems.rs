//! What is wrong with a configuration.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key, the variable or the file.
    pub place: String,
    /// What is wrong with it and what is allowed.
    pub text: String,
}

/// Everything that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems(Vec<Problem>);

impl Problem {
    /// Something is wrong at `place`.
    pub fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            text: text.into(),
        }
    }
}

impl Problems {
    /// One problem.
    pub fn of(problem: Problem) -> Self {
        Self(vec![problem])
    }

    /// The problems, in the order in which they were found.
    pub fn list(&self) -> &[Problem] {
        &self.0
    }

    /// Notes one more.
    pub(super) fn add(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.0.push(Problem::new(place, text));
    }

    /// The value, unless there are problems.
    pub(super) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            let line_end = if at == 0 { "" } else { "\n" };
            write!(f, "{line_end}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
