//! Every bound of the program, with its reason. What happens when a bound is
//! reached is said at the place that enforces it.

use super::time::Span;

/// Bytes of a device id. Longer ones are rejected and counted.
pub const DEVICE_ID_BYTES: usize = 128;
/// Bytes of a configured name.
pub const NAME_BYTES: usize = 64;
/// Bytes of one MQTT payload. Larger ones are counted and dropped: a message
/// the client library refuses would be redelivered for ever.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;
/// Nesting of a JSON payload. Deeper ones are counted and dropped: the walk recurses.
pub const PAYLOAD_DEPTH_MAX: usize = 128;
/// Edge nodes of one Sparkplug session. What further ones send is read as far as it needs no
/// birth: metrics that are named.
pub const SPARKPLUG_EDGES_MAX: usize = 256;
/// Metrics of one edge node and all its devices whose names are kept for their aliases.
/// Those of further ones stay unknown.
pub const SPARKPLUG_METRICS_MAX: usize = 4_096;
/// Bytes of the name of a group, edge node, device or metric that is kept. Metric names are
/// paths, and longer than the names of fields.
pub const SPARKPLUG_NAME_BYTES: usize = 128;
/// What all Sparkplug sessions together may take, in memory and stored, by their own estimate:
/// 40,000 metrics with names of 30 bytes. Each stream of that format has an equal share. Full:
/// further births are not kept.
pub const SPARKPLUG_BYTES_MAX: usize = 4 * 1_024 * 1_024;
/// Edge nodes for which it is remembered when they were asked for their births, and requests
/// that wait for a commit. Full: no other is asked until one may be asked again.
pub const REBIRTHS_LEN: usize = 1_024;
/// How long an edge node is not asked again for its births: the answer is all of them. While
/// that does not help, twice as long each time, up to the second.
pub const REBIRTH_PAUSE: Span = Span::from_secs(30);
/// See `REBIRTH_PAUSE`.
pub const REBIRTH_PAUSE_MAX: Span = Span::from_secs(8 * 60);
/// Fields of one stream. Further ones in a payload are counted and left out.
pub const FIELDS_MAX: usize = 64;
/// Texts of a payload that the templates of one stream take: device, labels, group.
pub const TEXTS_MAX: usize = 16;
/// Topics of one stream, and of those that it ignores, and that say who is there.
pub const TOPICS_MAX: usize = 32;
/// Labels of one stream.
pub const LABELS_MAX: usize = 8;
/// Entries of one table that turns texts into labels.
pub const LABEL_MAP_MAX: usize = 10_000;
/// Places of a payload at which records of their own begin.
pub const RECORD_PATTERNS_MAX: usize = 8;
/// Places of a payload that may hold the value of one field: aliases.
pub const ALIASES_MAX: usize = 8;
/// The same for its time.
pub const TIME_CANDIDATES_MAX: usize = 8;
/// Distinct states (texts of fields of type `state`) of one stream. Modes and alarms of
/// devices are a handful of words; a field with more is text that is not a state. Further
/// ones are counted and left out.
pub const STATES_MAX: usize = 64;
/// Points of one field that an order-dependent aggregate keeps in order, at most. One
/// reading a second for an hour; beyond it the older half is folded into a summary.
pub const POINTS_MAX: usize = 4_096;
/// Buckets of one quantile sketch, for each sign. 64 lie between two powers of two, so
/// with all of them in use the largest value is 2^32 times the smallest; beyond it the
/// values nearest to zero share a bucket.
pub const QUANTILE_BUCKETS_MAX: usize = 2_048;
/// Quantiles of one window: each is a number per field in every pane.
pub const QUANTILES_MAX: usize = 16;
/// Bounds of a histogram: each is a number per field in every pane.
pub const HISTOGRAM_BOUNDS_MAX: usize = 32;
/// Values that `distinct` keeps apart exactly: as many as take the room of the sketch
/// that follows.
pub const DISTINCT_EXACT_MAX: usize = 256;
/// Devices of one stream when the configuration says nothing. A wildcard must
/// not let a stranger exhaust memory: records of further devices are rejected.
pub const DEVICES_DEFAULT: usize = 10_000;
/// The largest `devices_max` that a configuration may ask for.
pub const DEVICES_MAX: usize = 100_000;
/// The largest `devices_max` with strategy `adaptive` for each device. What is measured
/// takes some 300 bytes each in memory, and typically 60, at most 430, of a snapshot.
pub const ADAPTIVE_DEVICES_MAX: usize = 20_000;
/// What all devices together, without their windows, and the tombstones of others may take of a snapshot, by the
/// estimate of `devices::cost_of`: 100,000 with names of 40 bytes. Beyond it records of
/// further devices are rejected as `too_many_devices`.
pub const DEVICES_COST_MAX: usize = 10 * 1024 * 1024;
/// Streams of one configuration.
pub const STREAMS_MAX: usize = 256;
/// Windows of one stream.
pub const WINDOWS_MAX: usize = 8;
/// Open windows of one device. A device whose clock runs wild could open one per
/// record; beyond the bound its records go to lane `late` as `too_many_windows`.
pub const OPEN_WINDOWS_MAX: usize = 1_024;
/// What all open windows together may take of a snapshot, by the estimate of
/// `Pane::cost`. Readings that wait for ordered output count too. Beyond it a record
/// that needs another window goes to lane `late` as `too_many_windows`, a field that is
/// new to its window is left out, and readings leave early.
pub const OPEN_COST_MAX: usize = 22 * 1024 * 1024;
/// Readings of one stream that may wait for ordered output when the configuration says
/// nothing, and at most. They count in `OPEN_COST_MAX` too. Full: one leaves early.
pub const ORDERED_DEFAULT: usize = 10_000;
/// See `ORDERED_DEFAULT`.
pub const ORDERED_MAX: usize = 100_000;
/// Readings of one device by which copies are recognised when the configuration says
/// nothing. Covers what a device, or a second gateway, sends again after a lost connection.
pub const DEDUP_HORIZON_DEFAULT: usize = 128;
/// The largest horizon that a configuration may ask for: each reading is compared with it.
pub const DEDUP_HORIZON_MAX: usize = 1_024;
/// What the memory of copies of all streams may take of a snapshot: fingerprints cannot
/// be compressed. The configuration is checked against it.
pub const DEDUP_BYTES_MAX: usize = 2 * 1024 * 1024;
/// What the last values of devices, for `carry_forward`, may take of a snapshot in all
/// streams together: 10,000 devices with 20 fields. Full: fields that are new to a device
/// are not carried, and counted.
pub const CARRY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What is left of devices whose state was freed: four for each device that a stream may
/// have, and never more than this, because their names cannot be compressed and all of
/// them are in every snapshot. Full: the oldest goes, and its device begins anew.
pub const TOMBSTONES_MAX: usize = 65_536;
/// Windows of one device and definition that late records are gathered for. Beyond it
/// what was gathered is emitted, so that only the number of rows grows.
pub const BACKFILL_WINDOWS_MAX: usize = 256;
/// Sketches and ordered points grow only while all open windows together take less than
/// this, so that they never keep a window from being opened. Beyond it they go on with
/// what they have, and say that they are approximate where that makes a difference.
pub const GROWTH_COST_MAX: usize = OPEN_COST_MAX / 2;
/// What keeps ids of windows from being used twice when the configuration changes, for all
/// streams together: one changed window of 100,000 devices. Full: see `engine::fit::borders`.
pub const BORDERS_COST_MAX: usize = 8 * 1024 * 1024;
/// What the sessions, queues and retained messages of the listener may take of a snapshot, by
/// `BrokerLimits::cost`. The configuration is checked against it.
pub const LISTENER_COST_MAX: usize = 52 * 1024 * 1024;
/// Messages at `QoS` 2 of all clients of MQTT 3.1.1 together that may be between PUBREC and
/// PUBREL beyond what each may have in flight. Full: such a client is sent away.
pub const INBOUND_MAX: usize = 256 * 1024;
/// Sliding windows that hold one record, at most: each is updated by it.
pub const SLIDES_MAX: u64 = 1_000;
/// Joins of one configuration.
pub const JOINS_MAX: usize = 16;
/// Windows that one join brings together.
pub const JOIN_SIDES_MAX: usize = 8;
/// What waits in all joins together, in bytes as estimated; each join has an equal
/// share. It lies in memory and in every snapshot. Full: the oldest goes, is
/// counted as `evicted`, and an outer join shows what it has.
pub const JOINS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Records of one key that wait in an interval join. A device that sends without
/// end must not push out all others; full: the oldest goes and is counted.
pub const JOIN_RECORDS_PER_KEY_MAX: usize = 1_024;
/// Keys of one join for which it is remembered up to where it is closed. Full: the
/// lowest one holds for every key from then on.
pub const JOIN_FENCES_MAX: usize = 4_096;
/// Longest window.
pub const WINDOW_SIZE_MAX: Span = Span::from_secs(366 * 86_400);
/// Longest disorder, lateness or idle timeout.
pub const SPAN_MAX: Span = Span::from_secs(366 * 86_400);
/// Messages between the MQTT client and the engine. Full: the client stops
/// reading, TCP pushes back, the broker queues.
pub const INBOX_LEN: usize = 4_096;
/// Bytes of messages waiting in the inbox: a message counts as at least 1 KiB, so
/// this and `INBOX_LEN` are one bound. A larger message takes all of it, alone.
pub const INBOX_BYTES_MAX: usize = INBOX_LEN * 1_024;
/// Messages handed to the inbox in one piece, when they arrived in one piece.
pub const BURST_LEN: usize = 64;
/// Bytes of one MQTT packet, in and out. Far above `PAYLOAD_BYTES_MAX`, because a
/// packet above it ends the connection and comes again after the reconnect.
pub const PACKET_BYTES_MAX: usize = 8 * 1_024 * 1_024;
/// Connections served by the control socket at once; more wait in the backlog.
pub const CONTROL_CONNECTIONS_MAX: usize = 4;
/// Bytes of one request line on the control socket; longer ones are refused.
pub const CONTROL_REQUEST_BYTES_MAX: usize = 256;
/// Events taken from the inbox before deadlines are looked at again.
pub const BATCH_MAX: usize = 1_024;
/// Packet ids remembered for recognising redelivery. Above any burst of
/// unacknowledged messages: the inbox and the largest commit batch.
pub const REDELIVERY_LEN: usize = 16_384;
/// Unacknowledged messages of one commit. At the bound a commit is due at once.
pub const COMMIT_MESSAGES_MAX: usize = 8_192;
/// Bytes of one row of a window join as stored: several panes make it. Larger ones are
/// counted as `too_large`. Panes themselves are bounded by their fields and sketches.
pub const JOIN_ROW_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a payload that a broker may ask for at least, in its CONNACK: a gap record without its devices
/// has less.
pub const UPLINK_TERMS_MIN: usize = 1_024;
/// Bytes of a payload that every uplink has to take: less than any record needs is a mistake of
/// the broker's configuration, and no reason to give records up.
pub const UPLINK_PAYLOAD_MIN: usize = 4 * 1024;
/// Devices that a gap record names; those beyond it are in its count. So a gap stays a
/// record of ordinary size, whatever it stands for.
pub const GAP_ITEMS_MAX: usize = 64;
/// Gaps, epochs and faults of a lane that an overview of the outbox names: it is one answer on
/// the control socket, whatever has happened.
pub const OUTBOX_OVERVIEW_MAX: usize = 32;
/// Bytes of records that the cloud's broker refuses, kept for a person to look at. Full:
/// the oldest goes.
pub const DEAD_LETTERS_BYTES_MAX: usize = 64 * 1024;
/// Bytes of topic and payload that a sample of a rejected message holds; what is beyond is cut off.
/// What devices send is far smaller, and a person sees what is wrong in the first lines.
pub const SAMPLE_BYTES_MAX: usize = 4 * 1024;
/// Samples of one stream and reason that are taken at once; see `engine::samples` for those after.
pub const SAMPLES_FIRST: u32 = 4;
/// Samples of one stream and reason that are kept on disk. Full: the oldest goes.
pub const SAMPLES_KEPT: usize = 16;
/// Samples that wait in the engine for somebody to keep them, and then as many on their way to
/// the disk. Full: further ones are dropped and counted.
pub const SAMPLES_PENDING_MAX: usize = 16;
/// Bytes on disk of all samples together. Full: the fullest stream and reason gives up the older half.
pub const SAMPLES_DISK_MAX: u64 = 1024 * 1024;
/// Batches published and not yet acknowledged by the cloud.
pub const UPLINK_WINDOW: usize = 32;
/// Results on their way to the devices' own broker. Best effort: full, or without a
/// connection, they are dropped and counted.
pub const LOCAL_LEN: usize = 256;
/// Commands on their way to the devices' broker. Best effort, as results there.
pub const COMMANDS_LEN: usize = 256;
/// Records in one uplink batch.
pub const BATCH_RECORDS_MAX: usize = 256;
/// Stored bytes at which an uplink batch is closed.
pub const BATCH_BYTES_MAX: usize = 48 * 1024;
/// Bytes of one uplink payload, which may be a multiple of what is stored. Cloud
/// brokers drop the connection over a larger one, for ever (`AWS IoT Core`: 128 KiB).
pub const BATCH_PAYLOAD_BYTES_MAX: usize = 112 * 1024;
/// Stored bytes of one value in the page ring (notes on sled: a value over a
/// quarter of its 256 KiB segment becomes a file that is never fsynced).
pub const PAGE_BYTES_MAX: usize = 48 * 1024;
/// Page slots in one set; a snapshot is due before they run out.
pub const PAGE_SLOTS_MAX: usize = 256;
/// Additions to windows that are noted for one page, and values in them; some 1 MiB.
/// Beyond it the windows are written whole. Above what one commit acknowledges.
pub const ADDITIONS_MAX: usize = 16_384;
/// Bytes of one configuration document.
pub const CONFIG_BYTES_MAX: usize = 1024 * 1024;
/// The least and the most that the outbox may be given, as stored. Each block of some
/// 44 KiB of rows takes 100 bytes in memory and 20 in every snapshot.
pub const OUTBOX_BYTES: core::ops::RangeInclusive<u64> = 64 * 1024..=4 * 1024 * 1024 * 1024;
/// What it is given when the configuration says nothing.
pub const OUTBOX_BYTES_DEFAULT: u64 = 256 * 1024 * 1024;
/// Bytes of rows in memory, and so in every snapshot, while the disk does not take
/// them. Full: the oldest of the lowest lane make room.
pub const OUTBOX_MEMORY_MAX: usize = 8 * 1024 * 1024;
/// Bytes of rows in memory at which the older ones move to the disk, before the next
/// snapshot moves them anyway.
pub const OUTBOX_SPILL_BYTES: usize = 512 * 1024;
/// Bytes of new rows at which a commit is due: they lie in memory a second time until then.
pub const OUTBOX_COMMIT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Blocks of the outbox: what their places take in memory and in snapshots is bounded too.
pub const OUTBOX_BLOCKS_MAX: usize = 128 * 1024;
/// Bytes that the outbox leaves free on the medium: the least and the most that may be
/// asked for. Pages and snapshots need some MiB of it at any time.
pub const RESERVE_BYTES: core::ops::RangeInclusive<u64> = 8 * 1024 * 1024..=1024 * 1024 * 1024;
/// What is reserved when the configuration says nothing.
pub const RESERVE_DEFAULT: u64 = 32 * 1024 * 1024;
/// Bytes of the file that keeps half of the reserve from other programs: enough for
/// the commits and snapshots of the hours in which somebody makes room.
pub const BALLAST_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of an MQTT client id, of a topic prefix, of a host name.
pub const MQTT_NAME_BYTES: usize = 128;

/// What the state may take of a snapshot, before compression: the sum of all that is
/// bounded by its bytes. The store has room for it (`engine::ring::STATE_BYTES_MAX`), so
/// that whatever the engine may hold can be kept. Whoever adds state adds it here.
pub const STATE_COST_MAX: usize = OPEN_COST_MAX
    + DEVICES_COST_MAX
    + OUTBOX_COST_MAX
    + REDELIVERY_LEN * 8
    + BOOKS_COST_MAX
    + JOINS_BYTES_MAX
    + DEDUP_BYTES_MAX
    + SPARKPLUG_BYTES_MAX
    + CARRY_BYTES_MAX
    + BORDERS_COST_MAX
    + LISTENER_COST_MAX;
/// The outbox in a snapshot: each row behind its length, each block with its place.
const OUTBOX_COST_MAX: usize = OUTBOX_MEMORY_MAX / 8 * 9 + OUTBOX_BLOCKS_MAX * 40 + DEAD_LETTERS_BYTES_MAX * 2;
/// Books, definitions and field names of all streams.
const BOOKS_COST_MAX: usize = STREAMS_MAX * FIELDS_MAX * (NAME_BYTES + 64);
