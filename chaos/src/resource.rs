//! What the locks protect: a table of the highest token seen for each name.

use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Resource(BTreeMap<usize, u64>);

impl Resource {
    /// A write with a token.
    ///
    /// # Errors
    /// The highest token seen, if it is higher: the write is refused.
    pub(crate) fn write(&mut self, name: usize, token: u64) -> Result<(), u64> {
        let highest = self.0.entry(name).or_default();
        if token < *highest {
            return Err(*highest);
        }
        *highest = token;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_with_an_older_token_is_refused() {
        let mut resource = Resource::default();
        assert_eq!(resource.write(1, 7), Ok(()));
        assert_eq!(resource.write(1, 7), Ok(()));
        assert_eq!(resource.write(1, 6), Err(7));
        assert_eq!(resource.write(2, 6), Ok(()));
    }
}
