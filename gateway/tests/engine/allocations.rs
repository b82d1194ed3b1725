//! The renew path allocates nothing.

use crate::world::{World, wish};
use holdfast_gateway::lock_id::LockId;
use holdfast_gateway::service::Renew;
use holdfast_gateway::time::Instant;

#[test]
fn a_renewal_from_memory_allocates_nothing() {
    let mut world = World::ready();
    let holds: Vec<_> = (0..1500)
        .map(|n| world.hold(0, wish("c", &format!("process_order:{n}"))))
        .map(|grant| (grant.lock_id.to_text(), grant.token))
        .collect();
    world.run(1_000);
    let (table, now) = (world.table(0), Instant::from_ms(world.now));
    let mut renewed = 0;
    let counted = allocation_counter::measure(|| {
        for (text, token) in &holds {
            let renew = Renew {
                lock_id: LockId::parse(text).unwrap(),
                token: *token,
                ttl: None,
                principal: None,
            };
            let answer = table.renew(now, &renew);
            renewed += usize::from(matches!(answer, Some(Ok(_))));
        }
    });
    assert_eq!(renewed, holds.len());
    assert_eq!(counted.count_total, 0);
}

#[test]
fn an_allocation_is_counted() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1);
}
