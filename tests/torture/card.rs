//! A memory card whose every request the test sees: a block device in user space.
//!
//! One file, served over FUSE, is the backing store of a loop device; ext4 lies on that.
//! Requests are answered one by one, so a power cut is an instant between two of them:
//! nothing can be half in the image by accident. The card has a volatile cache as real
//! ones do: a write is durable only after the next FLUSH, and of the writes since then a
//! cut keeps what chance keeps, block by block, in any order ([`Kept`]).
//!
//! The other ways of a card to fail are here too: it refuses writes, refuses everything,
//! or takes its time to flush.
//!
//! Only the few requests are understood that a single regular file needs; layouts as in
//! `linux/fuse.h`.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;
use tidegate::model::rng::Rng;

/// What a card writes in one piece. Torn smaller, ext4's own superblock would fail its
/// checksum: no file system is made for that.
const PIECE: usize = 4_096;
/// The unit of a file's size in blocks.
const SECTOR: u64 = 512;
/// The longest write in one request; the kernel's own bound for this version.
const WRITE_MAX: u32 = 128 * 1024;

/// Which of the writes since the last FLUSH are on the card after a cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    /// The card had no cache.
    All,
    /// It wrote nothing before it was told to.
    None,
    /// It wrote in order, and was in the middle of one.
    First,
    /// It wrote whole requests in any order.
    Some,
    /// It wrote blocks in any order.
    Blocks,
}

impl Kept {
    pub(crate) fn any(rng: &mut Rng) -> Kept {
        [Kept::All, Kept::None, Kept::First, Kept::Some, Kept::Blocks][usize::try_from(rng.below(5)).unwrap()]
    }
}

/// How the card serves from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Good,
    /// Writes and flushes fail.
    WritesFail,
    /// Each flush takes this long.
    SlowFlush(Duration),
}

/// The card, as long as this value lives.
pub(crate) struct Card {
    shared: Arc<Shared>,
    dir: TempDir,
    server: Option<JoinHandle<()>>,
}

type Shared = Mutex<Medium>;

struct Medium {
    /// What a read gives.
    bytes: Vec<u8>,
    /// What is there after a cut in any case.
    durable: Vec<u8>,
    /// Writes since the last flush.
    cached: Vec<(usize, Vec<u8>)>,
    health: Health,
    planned: Option<Cut>,
    image: Option<Vec<u8>>,
}

struct Cut {
    /// Writes and flushes that still come before it.
    requests: u64,
    kept: Kept,
    rng: Rng,
    /// Runs at that very instant.
    then: Box<dyn FnOnce() + Send>,
}

impl Card {
    /// A card with this on it.
    pub(crate) fn with_image(image: Vec<u8>) -> Card {
        let medium = Medium {
            durable: image.clone(),
            bytes: image,
            cached: Vec::new(),
            health: Health::Good,
            planned: None,
            image: None,
        };
        let shared = Arc::new(Mutex::new(medium));
        let dir = tempfile::tempdir().unwrap();
        let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let place = dir.path().join("card");
        File::create(&place).unwrap();
        // `-i`: without the helper program that would serve it by itself.
        let mut mount = Command::new("mount");
        mount.args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=100000,user_id=0,group_id=0", "tidegate-card"]);
        crate::mounted::run(mount.arg(&place).stdin(Stdio::from(device.try_clone().unwrap())));
        let serving = Arc::clone(&shared);
        let server = thread::spawn(move || serve(device, &serving));
        Card { shared, dir, server: Some(server) }
    }

    /// The file that is the card.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("card")
    }

    /// Plans a cut after so many more writes and flushes; `then` runs at that instant.
    pub(crate) fn plan_cut(&self, requests: u64, kept: Kept, rng: Rng, then: impl FnOnce() + Send + 'static) {
        let mut medium = self.shared.lock().unwrap();
        medium.image = None;
        medium.planned = Some(Cut { requests, kept, rng, then: Box::new(then) });
    }

    /// Whether the planned cut has happened.
    pub(crate) fn is_cut(&self) -> bool {
        self.shared.lock().unwrap().image.is_some()
    }

    /// Cuts now if the planned cut has not happened yet. What is on the card after it.
    pub(crate) fn cut(&self) -> Vec<u8> {
        let mut medium = self.shared.lock().unwrap();
        if let Some(cut) = medium.planned.take() {
            medium.cut(cut);
        }
        medium.image.take().expect("a cut was planned")
    }

    /// How it serves from now on.
    pub(crate) fn set_health(&self, health: Health) {
        self.shared.lock().unwrap().health = health;
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        self.set_health(Health::Good);
        if crate::mounted::unmount(&self.path())
            && let Some(server) = self.server.take()
        {
            // It ends when the mount is gone; its panic was printed.
            let _ = server.join();
        }
    }
}

impl Medium {
    /// Before the next write or flush.
    fn count(&mut self) {
        if let Some(cut) = &mut self.planned {
            if cut.requests > 0 {
                cut.requests -= 1;
            } else if let Some(cut) = self.planned.take() {
                self.cut(cut);
            }
        }
    }

    fn cut(&mut self, cut: Cut) {
        (cut.then)();
        let mut rng = cut.rng;
        let mut image = self.durable.clone();
        let whole = usize::try_from(rng.below(self.cached.len() as u64 + 1)).unwrap();
        for (index, (at, bytes)) in self.cached.iter().enumerate() {
            let chosen = rng.chance(2);
            for (piece, part) in bytes.chunks(PIECE).enumerate() {
                let keep = match cut.kept {
                    Kept::All => true,
                    Kept::None => false,
                    Kept::First => index < whole || (index == whole && piece < bytes.len() / PIECE / 2),
                    Kept::Some => chosen,
                    Kept::Blocks => rng.chance(2),
                };
                if keep {
                    let at = at + piece * PIECE;
                    image[at..at + part.len()].copy_from_slice(part);
                }
            }
        }
        self.image = Some(image);
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Errno> {
        self.count();
        if self.health == Health::WritesFail {
            return Err(EIO);
        }
        let place = self.bytes.get_mut(at..at + bytes.len()).ok_or(EIO)?;
        place.copy_from_slice(bytes);
        self.cached.push((at, bytes.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Errno> {
        self.count();
        if self.health == Health::WritesFail {
            return Err(EIO);
        }
        for (at, bytes) in self.cached.drain(..) {
            self.durable[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }
}

// --- the protocol ------------------------------------------------------------------------

type Errno = i32;
const EIO: Errno = 5;
const ENOSYS: Errno = 38;

const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

const HEADER: usize = 40;
/// Every read and write comes here: no page cache in between.
const FOPEN_DIRECT_IO: u32 = 1;
const BIG_WRITES: u32 = 1 << 5;

/// Answers requests until the file is unmounted.
fn serve(mut device: File, shared: &Shared) {
    let mut request = vec![0; WRITE_MAX as usize + 4_096];
    // An error: unmounted.
    while let Ok(len) = device.read(&mut request) {
        let request = &request[..len];
        let operation = u32_at(request, 4);
        if [FORGET, BATCH_FORGET, INTERRUPT].contains(&operation) {
            continue;
        }
        let answer = answer(operation, &request[HEADER..], shared);
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(errno) => (-errno, Vec::new()),
        };
        let len = u32::try_from(16 + body.len()).unwrap();
        let mut reply = Vec::with_capacity(len as usize);
        reply.extend(len.to_ne_bytes());
        reply.extend(error.to_ne_bytes());
        reply.extend(&request[8..16]);
        reply.extend(body);
        if device.write_all(&reply).is_err() {
            return;
        }
    }
}

fn answer(operation: u32, body: &[u8], shared: &Shared) -> Result<Vec<u8>, Errno> {
    let mut medium = shared.lock().unwrap();
    match operation {
        INIT => Ok(init(u32_at(body, 8))),
        GETATTR | SETATTR => Ok(attributes(medium.bytes.len() as u64)),
        OPEN => Ok([0_u64.to_ne_bytes(), (u64::from(FOPEN_DIRECT_IO)).to_ne_bytes()].concat()),
        RELEASE | FLUSH => Ok(Vec::new()),
        READ => {
            let from = usize::try_from(u64_at(body, 8)).unwrap().min(medium.bytes.len());
            let to = (from + u32_at(body, 16) as usize).min(medium.bytes.len());
            Ok(medium.bytes[from..to].to_vec())
        }
        WRITE => {
            let len = u32_at(body, 16);
            let at = usize::try_from(u64_at(body, 8)).unwrap();
            medium.write(at, &body[40..40 + len as usize])?;
            Ok(u64::from(len).to_ne_bytes().to_vec())
        }
        FSYNC => {
            let slow = if let Health::SlowFlush(span) = medium.health { Some(span) } else { None };
            if let Some(span) = slow {
                drop(medium);
                thread::park_timeout(span);
                medium = shared.lock().unwrap();
            }
            medium.flush()?;
            Ok(Vec::new())
        }
        _ => Err(ENOSYS),
    }
}

/// Version 7.31: the last whose structures are fixed in the sizes below.
fn init(readahead: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for field in [7, 31, readahead, BIG_WRITES, 0, WRITE_MAX, 1] {
        out.extend(u32::to_ne_bytes(field));
    }
    out.resize(64, 0);
    out
}

fn attributes(size: u64) -> Vec<u8> {
    // Valid for an hour: nobody else changes it.
    let mut out = Vec::new();
    for field in [3_600, 0, 1, size, size / SECTOR, 0, 0, 0] {
        out.extend(u64::to_ne_bytes(field));
    }
    // Nanoseconds, mode, links, owner, device, block size, flags.
    for field in [0, 0, 0, 0o100_600, 1, 0, 0, 0, 4_096, 0] {
        out.extend(u32::to_ne_bytes(field));
    }
    out
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}
