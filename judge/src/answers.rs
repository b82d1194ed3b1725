//! What an answer must be, given what was told before its request was sent.

use crate::{Client, Hold, HoldNo, Judge, PartyClock, Real, Rule};

/// An answer's request, as the client knows it.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Who asked.
    pub client: Client,
    /// Its clock.
    pub clock: PartyClock,
    /// When it sent the request, or earlier.
    pub sent: Real,
    /// When the gateway gave its answer, or later.
    pub answered: Real,
    /// The number of the lock's name.
    pub name: usize,
    /// The name's shard.
    pub shard: u32,
    /// So long would it wait in line, in milliseconds; 0: not at all.
    pub wait_ms: u64,
}

impl Asked {
    /// How long the answer took at most, by the client's clock.
    fn took_ms(&self) -> u64 {
        let (sent, answered) = (self.clock.read(self.sent), self.clock.read(self.answered));
        answered.saturating_sub(sent)
    }
}

/// What a client is told of its hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// The hold lasts so long from when the request was sent.
    pub ttl_ms: u64,
    /// The client should renew after this.
    pub renew_after_ms: u64,
}

/// A hold that an acquire is answered with.
#[derive(Debug, Clone, Copy)]
pub struct Grant<'a> {
    /// The handle.
    pub lock_id: &'a str,
    /// The fencing token.
    pub token: u64,
    /// How long it lasts.
    pub promise: Promise,
    /// The client is told that it held the name already.
    pub already_held: bool,
    /// The client is told that it waited so long: its hold lasts that much longer.
    pub waited_ms: u64,
}

/// An answer to an acquire that is not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The name is free after so long, if nobody renews.
    pub free_in_ms: u64,
    /// The client is told that its time to wait is over.
    pub timed_out: bool,
}

/// A name that is held is told to be so a little longer than it is; clocks may differ so much.
const DRIFT_PER_MILLE: u64 = 20;

/// How much two clocks may differ over a time, rounded up.
fn drift(ms: u64) -> u64 {
    ms * DRIFT_PER_MILLE / 1000 + 5
}

impl Judge {
    /// An acquire was answered with a hold.
    pub fn granted(&mut self, now: Real, asked: &Asked, ttl_ms: u64, grant: &Grant<'_>) -> HoldNo {
        let name = Some(asked.name);
        self.check_wait(now, asked, grant.waited_ms);
        let known = self.by_lock_id.get(grant.lock_id).copied();
        let no = known.unwrap_or(HoldNo(self.holds.len()));
        if known.is_none() {
            self.check_first(now, asked, no, grant);
            let hold = Hold::new(asked.name, asked.client, grant.token, now, asked.clock);
            self.holds.push(hold);
            self.by_lock_id.insert(grant.lock_id.to_owned(), no);
            self.by_name.entry(asked.name).or_default().insert(no);
        }
        let hold = &self.holds[no.0];
        let wrong = if hold.client != asked.client || hold.name != asked.name {
            Some("the hold of another client or name is given out")
        } else if hold.token != grant.token {
            Some("one hold has two tokens")
        } else if known.is_some() && !grant.already_held {
            Some("a hold that was told before is told as if it were granted anew")
        } else if hold
            .released_at
            .is_some_and(|released| released < asked.sent)
        {
            Some("a hold is given back whose release was confirmed before")
        } else if hold.ended_at.is_some_and(|ended| ended < asked.sent) {
            Some("a hold is given back that was said to be over before")
        } else if hold.closed_at.is_some_and(|closed| closed < asked.sent) {
            Some("a hold is given back that was force-released before")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            self.find(Rule::OneAnswer, now, name, wrong.to_owned());
        }
        let asked = Asked {
            sent: asked.sent + grant.waited_ms,
            ..*asked
        };
        self.told(now, &asked, no, ttl_ms, grant.promise);
        no
    }

    /// A hold is promised from when its client had waited, so nobody may be told of a longer wait than
    /// there was.
    fn check_wait(&mut self, now: Real, asked: &Asked, waited_ms: u64) {
        if waited_ms == 0 || !self.terms.one_holder {
            return;
        }
        let took = asked.took_ms();
        let wrong = match asked.wait_ms {
            0 => "which it did not want to".to_owned(),
            _ if waited_ms > took + drift(took) => format!("and asked {took} ms ago"),
            _ => return,
        };
        let text = format!("told to have waited for {waited_ms} ms, {wrong}");
        self.find(Rule::OneAnswer, now, Some(asked.name), text);
    }

    /// A hold that was not told before.
    fn check_first(&mut self, now: Real, asked: &Asked, no: HoldNo, grant: &Grant<'_>) {
        let of_name = self.by_name.get(&asked.name).into_iter().flatten();
        let worse = of_name.map(|other| self.hold(*other)).find(|other| {
            let before = other.told_at < asked.sent && other.token >= grant.token;
            before && !grant.already_held || other.token == grant.token
        });
        if let Some(other) = worse {
            let text = format!(
                "hold {} has token {} after {}",
                no.0, grant.token, other.token
            );
            self.find(Rule::Fence, now, Some(asked.name), text);
        }
        if let Some((from, until)) = self.guard_gone.get(&asked.shard)
            && *from < asked.sent
            && asked.answered < *until
            && !grant.already_held
        {
            let text = "a grant while the shard has no guard".to_owned();
            self.find(Rule::Epoch, now, Some(asked.name), text);
        }
    }

    /// A renewal was answered with a promise.
    pub fn renewed(&mut self, now: Real, asked: &Asked, no: HoldNo, ttl_ms: u64, told: Promise) {
        let hold = self.hold(no);
        let (name, token) = (hold.name, hold.token);
        let of_name = self.by_name.get(&name).into_iter().flatten();
        let heir = of_name
            .map(|other| self.hold(*other))
            .find(|other| other.token > token && other.told_at < asked.sent);
        let wrong = if hold
            .released_at
            .is_some_and(|released| released < asked.sent)
        {
            Some("a hold is renewed whose release was confirmed before".to_owned())
        } else if hold.ended_at.is_some_and(|ended| ended < asked.sent) {
            Some("a hold is renewed that was said to be over before".to_owned())
        } else if hold.closed_at.is_some_and(|closed| closed < asked.sent) {
            Some("a hold is renewed that was force-released before".to_owned())
        } else {
            let text = |heir: &Hold| format!("token {token} is renewed after {}", heir.token);
            heir.map(text)
        };
        if let Some(wrong) = wrong.filter(|_| self.terms.one_holder) {
            self.find(Rule::OneAnswer, now, Some(name), wrong);
        }
        self.told(now, asked, no, ttl_ms, told);
    }

    fn told(&mut self, now: Real, asked: &Asked, no: HoldNo, ttl_ms: u64, told: Promise) {
        let name = Some(asked.name);
        let told_ms = told.ttl_ms;
        if told_ms > ttl_ms * 99 / 100 || told.renew_after_ms > told_ms {
            let text = format!("told {told:?} where {ttl_ms} ms was asked for");
            self.find(Rule::OneAnswer, now, name, text);
        }
        self.holds[no.0].promise(now, asked.sent, told_ms);
        if !self.hold(no).is_promised(now)
            || !self.terms.one_holder
            || self.is_forced_at_once(asked.name)
        {
            return;
        }
        let others = self.promised(asked.name, now);
        if let Some(other) = others.into_iter().find(|other| *other != no) {
            let (one, two) = (self.hold(no), self.hold(other));
            let text = format!(
                "token {} of client {:?} is promised for {} ms, and token {} of client {:?} for \
                 {} ms",
                one.token,
                one.client,
                one.left_ms(now),
                two.token,
                two.client,
                two.left_ms(now)
            );
            self.find(Rule::OneHolder, now, name, text);
        }
    }

    /// An acquire was refused: the name is held, and not free for so long.
    pub fn refused(&mut self, now: Real, asked: &Asked, refused: Refused) {
        if !self.terms.one_holder {
            return;
        }
        let took = asked.took_ms();
        if refused.timed_out && took + drift(took) < asked.wait_ms {
            let wait = asked.wait_ms;
            let text =
                format!("told that its {wait} ms of waiting are over, {took} ms after it asked");
            self.find(Rule::OneAnswer, now, Some(asked.name), text);
        }
        if self.is_forced_at_once(asked.name) {
            return;
        }
        let free_in_ms = refused.free_in_ms;
        for hold in self.promised(asked.name, now) {
            let hold = self.hold(hold);
            // What is still promised now was promised then, if it was told before.
            let left = hold.left_ms(asked.answered);
            if hold.last_told_before(asked.sent) && left > free_in_ms + drift(left) {
                let text = format!(
                    "said to be free in {free_in_ms} ms, and token {} is promised for {left} ms",
                    hold.token
                );
                self.find(Rule::OneAnswer, now, Some(asked.name), text);
                return;
            }
        }
    }

    /// A renewal was answered with the end of its hold.
    pub fn ended(&mut self, now: Real, no: HoldNo, why: &str) {
        let hold = self.hold(no);
        if self.is_forced(hold.name) {
            // It may be.
        } else if hold.is_promised(now) && self.terms.one_holder {
            let text = format!(
                "told {why}, and token {} is promised for {} ms",
                hold.token,
                hold.left_ms(now)
            );
            self.find(Rule::OneAnswer, now, Some(hold.name), text);
        } else if hold.given_up_at.is_none() && self.terms.no_loss {
            let text = format!(
                "token {} ended ({why}), and was renewed all the time",
                hold.token
            );
            self.find(Rule::LiveLock, now, Some(hold.name), text);
        }
        let hold = &mut self.holds[no.0];
        hold.ended_at = hold.ended_at.or(Some(now));
    }

    /// A client that renews all the time looks at its promise.
    pub fn must_be_promised(&mut self, now: Real, no: HoldNo) {
        let hold = self.hold(no);
        if self.terms.no_loss
            && !self.terms.may_lapse
            && hold.given_up_at.is_none()
            && !hold.is_promised(now)
            && !self.is_forced(hold.name)
        {
            let text = format!("the promise of token {} ended unrenewed", hold.token);
            self.find(Rule::LiveLock, now, Some(hold.name), text);
        }
    }

    /// The hold of this token was said to be force-released.
    pub fn force_released(&mut self, now: Real, name: usize, token: u64) {
        let of_name = self.by_name.get(&name).into_iter().flatten();
        let found = of_name.copied().find(|no| self.hold(*no).token == token);
        // One that nobody was told of is nobody's to renew.
        if let Some(no) = found {
            let hold = &mut self.holds[no.0];
            hold.closed_at = hold.closed_at.or(Some(now));
        }
    }

    /// A release was confirmed.
    pub fn released(&mut self, now: Real, no: HoldNo) {
        let hold = &mut self.holds[no.0];
        hold.released_at = hold.released_at.or(Some(now));
    }

    /// A token was said not to be the hold's.
    pub fn mismatch(&mut self, now: Real, no: HoldNo, was_right: bool) {
        if was_right {
            let name = Some(self.hold(no).name);
            let text = "the right token is said to be a wrong one".to_owned();
            self.find(Rule::OneAnswer, now, name, text);
        }
    }

    /// A wrong token was accepted.
    pub fn wrong_token_renewed(&mut self, now: Real, no: HoldNo) {
        let name = Some(self.hold(no).name);
        let text = "a renewal with a wrong token is answered as renewed".to_owned();
        self.find(Rule::Fence, now, name, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Finding, Terms};

    const ASKED: Asked = Asked {
        client: Client(1, 0),
        clock: PartyClock::new(0, 0),
        sent: 10_000,
        answered: 12_000,
        name: 7,
        shard: 0,
        wait_ms: 2_000,
    };

    fn granted_after(asked: Asked, waited_ms: u64) -> Option<Finding> {
        let grant = Grant {
            lock_id: "lock-1",
            token: 4,
            promise: Promise {
                ttl_ms: 9_900,
                renew_after_ms: 3_000,
            },
            already_held: false,
            waited_ms,
        };
        let mut judge = Judge::new(Terms::default());
        judge.granted(asked.answered, &asked, 10_000, &grant);
        judge.take_finding()
    }

    fn timed_out(asked: Asked) -> Option<Finding> {
        let refused = Refused {
            free_in_ms: 0,
            timed_out: true,
        };
        let mut judge = Judge::new(Terms::default());
        judge.refused(asked.answered, &asked, refused);
        judge.take_finding()
    }

    #[test]
    fn nobody_may_be_told_of_a_longer_wait_than_there_was() {
        assert_eq!(granted_after(ASKED, 2_000), None);
        assert_eq!(granted_after(ASKED, 2_045), None);
        let found = granted_after(ASKED, 2_046).unwrap();
        assert_eq!(found.rule, Rule::OneAnswer);
        let at_once = Asked {
            wait_ms: 0,
            ..ASKED
        };
        assert_eq!(granted_after(at_once, 0), None);
        assert!(granted_after(at_once, 1).is_some());
    }

    #[test]
    fn a_wait_is_not_over_before_its_time() {
        assert_eq!(timed_out(ASKED), None);
        let answered = |answered| Asked { answered, ..ASKED };
        assert_eq!(timed_out(answered(11_957)), None);
        let found = timed_out(answered(11_900)).unwrap();
        assert_eq!(found.rule, Rule::OneAnswer);
    }

    #[test]
    fn a_hold_is_promised_from_the_end_of_the_wait() {
        let mut judge = Judge::new(Terms::default());
        let promise = Promise {
            ttl_ms: 9_900,
            renew_after_ms: 3_000,
        };
        let grant = |lock_id, token, waited_ms| Grant {
            lock_id,
            token,
            promise,
            already_held: false,
            waited_ms,
        };
        let hold = judge.granted(12_000, &ASKED, 10_000, &grant("lock-1", 4, 1_900));
        assert!(judge.hold(hold).is_promised(21_799));
        assert!(!judge.hold(hold).is_promised(21_800));
    }
}
