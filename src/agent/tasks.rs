//! What talks to others over the network: one task per peer, from its configuration.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::boot::{BrokerSpec, Config};
use crate::engine::spec::{PipelineSpec, StreamSpec};
use crate::model::ids::push_escaped;

use super::clock::SystemClock;
use super::inbox::InboxSender;
use super::mqtt::backoff::WAIT_MAX;
use super::mqtt::ingest::{self, IngestSpec};
use super::mqtt::listener::{self, facts::ListenerFacts};
use super::mqtt::local::{self, LocalTask};
use super::uplink::destination::{Destination, StatusAcked};
use super::uplink::mqtt::{self as uplink, ACK_MAX, UplinkSpec};

/// The tasks. Each runs until the stop, also where its peer is not configured.
pub(super) struct Tasks {
    ingest: JoinHandle<()>,
    local: JoinHandle<()>,
    listener: JoinHandle<()>,
    uplink: JoinHandle<()>,
}

impl Tasks {
    /// Starts them. `last_will`: what the uplink's broker says of the agent when it is gone.
    pub(super) fn spawn(
        config: &Config,
        last_will: &[u8],
        facts: Option<Arc<ListenerFacts>>,
        turns: Turns,
        inbox: &InboxSender,
        clock: SystemClock,
        stop: &watch::Receiver<bool>,
    ) -> Tasks {
        let Turns { filters, destination, acked } = turns;
        let ingest = ingest_spec(config);
        let ingest = ingest.map(|spec| ingest::run_following(spec, filters, inbox.clone(), clock, stop.clone()));
        let local = local_task(config).map(|task| local::run(task, inbox.clone(), clock, stop.clone()));
        let uplink = uplink_spec(config, last_will, acked);
        let uplink = uplink
            .zip(destination)
            .map(|(spec, destination)| uplink::run_towards(spec, destination, inbox.clone(), clock, stop.clone()));
        Tasks {
            ingest: tokio::spawn(where_wanted(ingest, stop.clone())),
            local: tokio::spawn(where_wanted(local, stop.clone())),
            listener: tokio::spawn(where_wanted(listener_task(config, facts, inbox, clock, stop), stop.clone())),
            uplink: tokio::spawn(where_wanted(uplink, stop.clone())),
        }
    }

    /// Until one of them has ended, which none does by itself: its name.
    pub(super) async fn ended(&mut self) -> &'static str {
        tokio::select! {
            _ = &mut self.ingest => "the ingest task",
            _ = &mut self.local => "the task for local results",
            _ = &mut self.listener => "the listener",
            _ = &mut self.uplink => "the uplink task",
        }
    }

    /// Until all have said goodbye.
    pub(super) async fn farewell(self) {
        let _ = tokio::join!(self.ingest, self.uplink, self.local, self.listener);
    }
}

/// What is not configured waits for the stop.
async fn where_wanted(task: Option<impl Future<Output = ()>>, mut stop: watch::Receiver<bool>) {
    match task {
        Some(task) => task.await,
        // An error says the same: nobody is left who could stop it.
        None => drop(stop.wait_for(|stop| *stop).await),
    }
}

fn ingest_spec(config: &Config) -> Option<IngestSpec> {
    let broker = config.devices.clone()?;
    Some(IngestSpec { broker, filters: filters(&config.pipeline), retry_max: WAIT_MAX })
}

/// What its streams want to hear, each filter once.
pub(super) fn filters(pipeline: &PipelineSpec) -> Vec<String> {
    let mut filters: Vec<String> = pipeline.streams.iter().flat_map(StreamSpec::filters).collect();
    filters.sort();
    filters.dedup();
    filters
}

fn listener_task(
    config: &Config,
    facts: Option<Arc<ListenerFacts>>,
    inbox: &InboxSender,
    clock: SystemClock,
    stop: &watch::Receiver<bool>,
) -> Option<impl Future<Output = ()> + use<>> {
    let (spec, limits) = (config.listener.clone()?, config.pipeline.broker?);
    Some(listener::run(spec, limits, facts?, inbox.clone(), clock, stop.clone()))
}

/// On a connection of its own, so under a client id of its own.
fn local_task(config: &Config) -> Option<LocalTask> {
    let (devices, spec) = (config.devices.clone()?, config.local?);
    let broker = BrokerSpec { client_id: format!("{}-local", devices.client_id), ..devices };
    Some(LocalTask { broker, spec, retry_max: WAIT_MAX })
}

fn uplink_spec(config: &Config, last_will: &[u8], acked: watch::Sender<StatusAcked>) -> Option<UplinkSpec> {
    let broker = config.uplink.clone()?;
    let status_topic = format!("{}/status", base_topic(&config.pipeline));
    let (will, acked) = (last_will.to_vec(), Some(acked));
    Some(UplinkSpec { broker, status_topic, will, retry_max: WAIT_MAX, ack_max: ACK_MAX, acked })
}

/// `<prefix>/<gw>`: above everything that this gateway publishes.
pub(super) fn base_topic(pipeline: &PipelineSpec) -> String {
    let mut base = format!("{}/", pipeline.topic_prefix);
    push_escaped(&mut base, pipeline.gateway.as_str()).expect("memory does not fail");
    base
}

/// By which the tasks are told of another configuration, and tell what came of it.
pub(super) struct Turns {
    /// What devices' messages are wanted.
    pub(super) filters: watch::Receiver<Vec<String>>,
    /// Where results go; `None`: nowhere.
    pub(super) destination: Option<watch::Receiver<Destination>>,
    /// What was acknowledged there.
    pub(super) acked: watch::Sender<StatusAcked>,
}

/// The other ends.
pub(super) struct Reins {
    pub(super) filters: watch::Sender<Vec<String>>,
    pub(super) destination: Option<watch::Sender<Destination>>,
    pub(super) acked: watch::Receiver<StatusAcked>,
}

/// As the configuration has it.
pub(super) fn turns(config: &Config) -> (Turns, Reins) {
    let (filters_in, filters) = watch::channel(filters(&config.pipeline));
    let first = config.uplink.clone().map(|broker| watch::channel(Destination { number: 0, broker }));
    let (destination_in, destination) = first.unzip();
    let (acked_in, acked) = watch::channel(StatusAcked::default());
    let reins = Reins { filters: filters_in, destination: destination_in, acked };
    (Turns { filters, destination, acked: acked_in }, reins)
}
