//! One target under libFuzzer; which one stands in the environment. Built and run by `scripts/fuzz`.
#![no_main]

use holdfast_fuzz::find;
use std::sync::OnceLock;

static CHECK: OnceLock<fn(&[u8])> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let check = CHECK.get_or_init(|| {
        #[expect(
            clippy::disallowed_methods,
            reason = "libFuzzer takes the command line for itself"
        )]
        let name = std::env::var("HOLDFAST_FUZZ_TARGET").unwrap_or_default();
        find(&name)
            .expect("HOLDFAST_FUZZ_TARGET names no target")
            .check
    });
    check(bytes);
});
