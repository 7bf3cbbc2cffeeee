//! Streams of packets that no client should send: of both versions, mutated and cut at random.
//! The seed is fixed: a failure repeats.

const SEED: u64 = 0x7469_6465_6761_7465;

/// xorshift64*: it has to be the same for ever, not good.
pub(crate) struct Dice(u64);

impl Dice {
    /// One of several that roll differently.
    pub(crate) fn numbered(number: u64) -> Dice {
        Dice(SEED ^ number)
    }

    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll() >> 33).unwrap() % bound
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.roll().to_be_bytes()[0]
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    pub(crate) fn id(&mut self) -> u16 {
        let count = if self.one_in(40) { 0 } else { 1 + self.below(6) };
        u16::try_from(count).unwrap()
    }
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
    out.extend(text);
}

fn length(out: &mut Vec<u8>, len: usize) {
    let mut left = len;
    while left > 0x7f {
        out.push(0x80 | left.to_le_bytes()[0]);
        left >>= 7;
    }
    out.push(left.to_le_bytes()[0]);
}

/// Properties, mostly ones that the packet may have.
fn properties(dice: &mut Dice, out: &mut Vec<u8>, is_v5: bool, of: &[&[u8]]) {
    if !is_v5 {
        return;
    }
    let mut section: Vec<u8> = Vec::new();
    for one in of {
        if dice.one_in(of.len() + 2) {
            section.extend(*one);
        }
    }
    // Twice, or where it does not belong.
    if dice.one_in(30) {
        section.extend(dice.pick(MESSAGE));
    }
    length(out, section.len());
    out.extend(section);
}

const MESSAGE: &[&[u8]] = &[
    b"\x01\x01",
    b"\x02\0\0\0\x05",
    b"\x03\0\x01c",
    b"\x08\0\x01r",
    b"\x09\0\x02\0\xff",
    b"\x26\0\x01k\0\x01v",
    b"\x23\0\x01",
    b"\x23\0\x03",
    b"\x0b\x01",
];
const HELLO: &[&[u8]] = &[
    b"\x11\0\0\0\x05",
    b"\x21\0\x02",
    b"\x22\0\x00",
    b"\x22\0\x02",
    b"\x27\0\0\0\x40",
    b"\x19\x01",
    b"\x17\x00",
    b"\x26\0\x01k\0\x01v",
];
const WILL: &[&[u8]] = &[b"\x18\0\0\0\x05", b"\x01\0", b"\x02\0\0\0\x09", b"\x26\0\0\0\0"];

/// One of these, mostly.
fn topic<'a>(dice: &mut Dice, good: &[&'a [u8]]) -> &'a [u8] {
    const WRONG: &[&[u8]] = &[b"", b"+", b"#/a", b"a/#", b"$share/g", b"a\0", b"\xff"];
    if dice.one_in(20) { dice.pick(WRONG) } else { dice.pick(good) }
}

fn connect(dice: &mut Dice, is_v5: bool) -> Vec<u8> {
    let flags = dice.pick(&[&0x02_u8, &0x00, &0x06, &0x2e, &0xc2, &0xce, &0x82]);
    let flags = if dice.one_in(30) { dice.byte() } else { *flags };
    let mut body = b"\0\x04MQTT".to_vec();
    body.extend([4 + u8::from(is_v5), flags, 0, dice.byte()]);
    properties(dice, &mut body, is_v5, HELLO);
    let id = if dice.one_in(20) {
        dice.pick::<[u8]>(&[b"", b"x\x07", b"\xff"])
    } else {
        dice.pick::<[u8]>(&[b"client", b"a\xc3\xa4"])
    };
    text(&mut body, id);
    if flags & 0x04 != 0 {
        properties(dice, &mut body, is_v5, WILL);
        text(&mut body, b"w");
        text(&mut body, b"gone");
    }
    for flag in [0x80, 0x40] {
        if flags & flag != 0 {
            text(&mut body, b"secret");
        }
    }
    whole(0x10, &body)
}

fn packet(dice: &mut Dice, is_v5: bool) -> Vec<u8> {
    let mut body = Vec::new();
    let first = match dice.below(12) {
        0..=3 => {
            let flags =
                if dice.one_in(40) { dice.byte() & 0x0f } else { *dice.pick(&[&0_u8, &1, &2, &4, &0x0a, &0x0c]) };
            let first = 0x30 | flags;
            let topic = topic(dice, &[b"a", b"a/b", b"t/1", b"a/b/c/d/e/f/g"]);
            text(&mut body, topic);
            if first & 0x06 != 0 {
                body.extend(dice.id().to_be_bytes());
            }
            properties(dice, &mut body, is_v5, MESSAGE);
            let bound = if dice.one_in(30) { 3_000 } else { 40 };
            let len = dice.below(bound);
            body.extend((0..len).map(|_| dice.byte()));
            first
        }
        4 | 5 => {
            body.extend(dice.id().to_be_bytes());
            if is_v5 && dice.one_in(3) {
                body.push(*dice.pick(&[&0_u8, &0x10, &0x92, &0x97]));
            }
            *dice.pick(&[&0x40_u8, &0x50, &0x62, &0x70])
        }
        kind @ (6 | 7) => {
            body.extend(dice.id().to_be_bytes());
            properties(dice, &mut body, is_v5, &[b"\x0b\x07", b"\x26\0\0\0\0"]);
            for _ in 0..(if dice.one_in(30) { 0 } else { 1 + dice.below(3) }) {
                text(&mut body, topic(dice, &[b"a", b"a/b", b"+", b"#", b"a/#", b"$share/g/a"]));
                if kind == 6 {
                    body.push(if dice.one_in(40) { dice.byte() } else { *dice.pick(&[&0_u8, &1, &2]) });
                }
            }
            if kind == 6 { 0x82 } else { 0xa2 }
        }
        10 if dice.one_in(10) => 0xe0,
        11 if dice.one_in(10) => {
            body.extend((0..dice.below(20)).map(|_| dice.byte()));
            dice.byte()
        }
        _ => 0xc0,
    };
    whole(first, &body)
}

fn whole(first: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    length(&mut out, body.len());
    out.extend(body);
    out
}

/// What a client sends on one connection, from its CONNECT on, mostly; then mutated.
pub(crate) fn stream(dice: &mut Dice) -> Vec<u8> {
    let is_v5 = dice.one_in(2);
    let mut out = if dice.one_in(30) { Vec::new() } else { connect(dice, is_v5) };
    for _ in 0..dice.below(24) {
        out.extend(packet(dice, is_v5));
    }
    while !out.is_empty() && dice.one_in(2) {
        let at = dice.below(out.len());
        match dice.below(4) {
            0 => out[at] = dice.byte(),
            1 => out[at] ^= 1 << dice.below(8),
            2 => drop(out.remove(at)),
            _ => out.insert(at, dice.byte()),
        }
    }
    out
}
