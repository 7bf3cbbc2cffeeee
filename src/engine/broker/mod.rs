//! The broker behind the listener: sessions, subscriptions, retained messages, last wills.
//!
//! Pure, and part of the state: what a client was promised is in the same commit as what its
//! messages did to the windows.

pub mod limits;
pub mod packet;

use std::sync::Arc;

use crate::model::time::{Now, ProcTime};

use super::wire::{Damaged, Reader};
use limits::BrokerLimits;
use packet::{ClientEvent, Message, Publish, ToClient};

/// STUB
#[derive(Debug)]
pub struct Broker;

/// STUB
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// a
    New,
    /// b
    Known,
}

/// STUB
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct BrokerStatus {}

#[allow(missing_docs, unused_variables, clippy::all, clippy::pedantic)]
impl Broker {
    pub fn new(limits: BrokerLimits) -> Broker {
        Broker
    }
    pub fn set_limits(&mut self, limits: BrokerLimits) {}
    pub fn handle(&mut self, now: Now, connection: u32, event: ClientEvent<'_>) {}
    pub fn take_publish(&mut self, connection: u32, publish: &Publish<'_>) -> Seen {
        Seen::New
    }
    pub fn route(&mut self, now: Now, connection: u32, publish: &Publish<'_>) {}
    pub fn publish_own(&mut self, now: Now, message: Message) {}
    pub fn take_wills(&mut self) -> Vec<Arc<Message>> {
        Vec::new()
    }
    pub fn tick(&mut self, now: Now) {}
    pub fn next_deadline(&self) -> Option<ProcTime> {
        None
    }
    pub fn take_ready(&mut self, perform: &mut dyn FnMut(u32, ToClient)) {}
    pub fn waits_for_commit(&self) -> bool {
        false
    }
    pub fn is_committed(&self) -> bool {
        true
    }
    pub fn write_changes(&self, now: Now, out: &mut Vec<u8>) {}
    pub fn write_all(&self, now: Now, out: &mut Vec<u8>, hand_over: &mut dyn FnMut(&mut Vec<u8>)) {}
    pub fn mark_committed(&mut self) {}
    pub fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        Ok(())
    }
    pub fn after_restore(&mut self, now: Now) {}
    pub fn status(&self) -> BrokerStatus {
        BrokerStatus {}
    }
    pub fn note_dropped(&mut self, n: u64) {}
}
