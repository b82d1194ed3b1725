//! The checks, by what they look at.

mod alarms;
mod compares;
mod headers;
mod leases;
mod limits;
mod reads;
mod transactions;
mod watches;

use crate::fixture::Fixture;
use futures::future::BoxFuture;

/// Panics when the contract is broken.
type Check = fn(Fixture) -> BoxFuture<'static, ()>;

macro_rules! checks {
    ($($module:ident { $($name:ident)* })*) => {
        /// Every check with its name. A check that is not listed is dead code, which the lints refuse.
        pub(crate) const CHECKS: &[(&str, Check)] = &[
            $($((stringify!($name), |fixture| Box::pin($module::$name(fixture))),)*)*
        ];
    };
}

checks! {
    transactions {
        a_key_knows_when_it_was_created_and_written_and_how_often
        all_writes_of_a_transaction_share_its_revision
        a_transaction_that_changes_nothing_leaves_the_revision
        a_read_sees_what_was_written_before_it_in_the_same_transaction
        a_nested_compare_sees_the_state_before_the_transaction
        one_failing_nested_transaction_does_not_fail_the_batch
        a_bundle_that_is_refused_fails_its_own_grants_only
        an_outer_compare_that_fails_stops_everything_inside
        a_delete_says_how_many_keys_there_were
    }
    compares {
        every_condition_holds_for_a_key_as_it_should
        an_absent_key_compares_as_zero_and_has_no_value
        a_range_compare_must_hold_for_every_key
        an_empty_range_compares_as_an_absent_key
        all_compares_must_hold
    }
    reads {
        keys_only_leaves_out_the_value_and_nothing_else
        a_limit_cuts_the_keys_and_not_the_count
        a_range_is_read_in_key_order_up_to_but_without_its_end
        a_range_that_ends_where_it_starts_or_before_is_empty
        several_ranges_are_read_at_one_revision
        values_of_any_bytes_read_back_as_they_were_written
    }
    limits {
        the_longest_list_of_a_transaction_has_at_most_128_entries
        nested_transactions_share_the_limit_with_those_around_them
        no_key_is_put_twice
        branches_of_one_nested_transaction_may_put_the_same_key
        no_key_is_put_and_deleted
        a_later_nested_transaction_may_delete_what_an_earlier_one_puts
        an_empty_key_is_refused
        a_transaction_that_is_too_large_is_refused
    }
    leases {
        a_lease_is_granted_with_the_chosen_id_once
        a_short_lease_is_lengthened_to_2_seconds
        revoking_a_lease_deletes_its_keys_in_one_revision
        revoking_a_missing_lease_is_definite
        a_put_on_a_missing_lease_fails_the_whole_transaction
        a_put_on_a_missing_lease_in_a_branch_not_taken_does_not_matter
        a_put_moves_a_key_to_another_lease
        a_put_without_a_lease_and_a_delete_take_a_key_off_its_lease
        a_missing_lease_has_no_keys_and_minus_1_seconds
        a_lease_that_nobody_renews_ends_and_deletes_its_keys
        a_keepalive_starts_the_time_again
        a_burst_of_keepalives_answers_every_lease_with_0_for_missing_ones
    }
    watches {
        a_watch_tells_puts_and_deletes_in_order
        a_watch_begins_with_the_asked_revision
        a_watch_tells_nothing_of_other_keys
        a_watch_from_now_on_tells_nothing_of_the_past
        a_watch_tells_the_end_of_a_lease_key_by_key
        a_watch_from_a_compacted_revision_ends
        the_end_of_a_key_is_told_whether_it_comes_or_was_before
        what_was_deleted_before_the_asked_revision_is_awaited_anew
    }
    alarms {
        without_space_direct_puts_and_grants_are_ambiguous_and_all_else_passes
    }
    headers {
        every_reply_says_who_answered_in_which_state
    }
}
