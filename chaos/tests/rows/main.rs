//! What must not break Holdfast, one situation each: real gateways and real etcd, judged by the
//! judge that the simulator uses. `make chaos` draws the same faults at random.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod etcd;
#[cfg(test)]
mod forced;
#[cfg(test)]
mod gateways;
#[cfg(test)]
mod keepalives;
#[cfg(test)]
mod leaders;
#[cfg(test)]
mod restored;
#[cfg(test)]
mod rollouts;
#[cfg(test)]
mod scan;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod waiting;
