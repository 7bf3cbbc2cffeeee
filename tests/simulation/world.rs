//! What happens: random actions while there is trouble, then peace until
//! everything has arrived.

use tidegate::engine::outbox::LaneKind;
use tidegate::engine::ring::slots::SlotError;
use tidegate::engine::step::Event;

use super::plan::{as_len, as_ms, pick};
use super::process::World;

/// Rounds in which everything has to have arrived once there is peace. With an
/// in-flight window of 1, each round moves one message.
const ROUNDS_MAX: usize = 20_000;

impl World {
    /// One run from beginning to end, and a look at it.
    pub(crate) fn run(&mut self, checks: bool) -> Result<(), String> {
        for action in 0..self.plan.actions {
            self.act()?;
            if action % 16 == 0 {
                self.check_books()?;
            }
        }
        self.settle()?;
        self.check_books()?;
        if checks {
            self.check_end()?;
            self.count_what_was();
        }
        // What is at the cloud is also what a new process believes to be there.
        self.stop()?;
        self.check_books()
    }

    fn act(&mut self) -> Result<(), String> {
        if !self.broker.is_connected() && self.rng.chance(4) {
            return self.connect_devices();
        }
        if !self.cloud.is_connected() && self.rng.chance(if self.plan.small_outbox() { 40 } else { 10 }) {
            return self.connect_cloud();
        }
        match self.rng.below(100) {
            0..=34 => {
                self.devices_send();
                Ok(())
            }
            35..=59 => self.deliver(),
            60..=74 => {
                let span = pick(&mut self.rng, &[0, 1, 5, 30, 120, 500, 2_000, 6_000]);
                self.pass(span)
            }
            75..=81 => {
                let count = as_len(self.rng.below(30));
                self.broker.take_acks(count);
                Ok(())
            }
            82..=91 => self.cloud_works(),
            92 => {
                let live = self.broker.is_connected() && self.rng.chance(2);
                self.handle(Event::InputLive(live))
            }
            93 => self.handle(Event::Tick),
            94 if self.plan.signals => self.signal(),
            _ => self.trouble(),
        }
    }

    fn devices_send(&mut self) {
        for _ in 0..self.rng.between(1, 6) {
            let wall = self.wall_ms();
            for message in self.fleet.messages(&self.plan.spec, &mut self.rng, wall) {
                let copy = message.keep.then(|| self.fleet.retained(&message));
                self.broker.publish(message, copy);
            }
        }
    }

    fn deliver(&mut self) -> Result<(), String> {
        let count = as_len(self.rng.between(1, 40));
        self.broker.send(count);
        let together = self.rng.chance(2);
        for _ in 0..self.rng.between(0, 40) {
            let Some(delivery) = self.broker.next_arrival() else { break };
            self.take(&delivery);
            if !together {
                self.advance()?;
            }
        }
        self.advance()
    }

    fn cloud_works(&mut self) -> Result<(), String> {
        let (batches, acks) = (as_len(self.rng.below(12)), self.rng.below(12));
        self.cloud.take_batches(batches)?;
        for _ in 0..acks {
            let Some(id) = self.cloud.next_ack(&mut self.rng) else { break };
            self.handle(Event::UplinkAcked(id))?;
        }
        Ok(())
    }

    fn trouble(&mut self) -> Result<(), String> {
        let faults = self.plan.faults;
        match self.rng.below(10) {
            0 | 1 if faults.torn_connections && self.broker.is_connected() => self.tear_devices(),
            2 | 3 if faults.cloud_outages && self.cloud.is_connected() => self.tear_cloud(),
            4 if faults.crashes => {
                let operations = self.rng.between(1, 9);
                self.say(|| format!("the power will go off at operation {operations}"));
                self.disk.crash_after(operations);
                Ok(())
            }
            5 if faults.crashes => {
                self.say(|| "kill -9".to_owned());
                self.restart()
            }
            6 if faults.crashes || self.plan.redefines => self.stop(),
            7 if faults.failed_writes => {
                let operations = self.rng.between(1, 5);
                let error = if self.rng.chance(2) { SlotError::Full } else { SlotError::Failed("a fault".into()) };
                self.say(|| format!("operation {operations} will fail: {error}"));
                self.disk.fail_at(operations, error);
                Ok(())
            }
            9 if self.plan.sets_clock && self.rng.chance(4) => {
                let by = as_ms(self.rng.below(20_000)) - 10_000;
                self.set_clock(by);
                Ok(())
            }
            8 if faults.full_disk || self.disk.is_full() => {
                let full = !self.disk.is_full();
                self.say(|| format!("disk full: {full}"));
                self.disk.set_full(full);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// No more trouble: everything arrives, every window that can fires, every
    /// device falls silent.
    fn settle(&mut self) -> Result<(), String> {
        self.say(|| "peace".to_owned());
        self.disk.set_full(false);
        self.disk.reopen();
        self.drain()?;
        self.handle(Event::InputLive(true))?;
        self.pass(120_000)?;
        let wall = self.wall_ms();
        for message in self.fleet.flush(&self.plan.spec, &mut self.rng, wall) {
            self.broker.publish(message, None);
        }
        self.drain()?;
        self.pass(60_000)?;
        self.drain()
    }

    fn drain(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS_MAX {
            if !self.broker.is_connected() {
                self.connect_devices()?;
            }
            if !self.cloud.is_connected() {
                self.connect_cloud()?;
            }
            self.broker.take_acks(usize::MAX);
            self.broker.send(1_000);
            while let Some(delivery) = self.broker.next_arrival() {
                self.take(&delivery);
                self.advance()?;
            }
            self.cloud.take_batches(usize::MAX)?;
            while let Some(id) = self.cloud.next_ack(&mut self.rng) {
                self.handle(Event::UplinkAcked(id))?;
            }
            let held: u64 = LaneKind::ALL.iter().map(|lane| self.driver.engine().outbox().held(*lane)).sum();
            let committed = self.driver.engine().is_committed();
            if self.broker.is_drained() && held == 0 && committed {
                return Ok(());
            }
            self.pass(if committed { 5 } else { 1_000 })?;
        }
        Err("it does not come to rest".to_owned())
    }
}
