//! The names of the slots of a stream, side by side in one text: as long as they are,
//! where a [`DeviceId`](crate::model::ids::DeviceId) has room for the longest, and in
//! the order in which devices first came, which is often the order in which they come
//! again.

/// Names by slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    text: String,
    places: Vec<Place>,
    /// Bytes of the text that are no name any more.
    dead: usize,
}

/// Where a name is.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    len: u8,
}

/// Dead bytes that are not worth the work of moving the others.
const DEAD_MIN: usize = 4_096;

impl Names {
    /// A slot more, without a name.
    pub(super) fn push_empty(&mut self) {
        self.places.push(Place { start: 0, len: 0 });
    }

    /// The name of a slot from now on; empty: none. At most `limits::DEVICE_ID_BYTES`.
    pub(super) fn set(&mut self, slot: u32, name: &str) {
        let place = &mut self.places[slot as usize];
        self.dead += usize::from(place.len);
        let start = u32::try_from(self.text.len()).expect("the number of names and their length are bounded");
        *place = Place { start, len: u8::try_from(name.len()).expect("bounded") };
        self.text.push_str(name);
        if self.dead > DEAD_MIN && self.dead > self.text.len() / 2 {
            self.close_up();
        }
    }

    /// The name of a slot.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> &str {
        let Place { start, len } = self.places[slot as usize];
        &self.text[start as usize..][..usize::from(len)]
    }

    /// All, by slot.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        (0..).take(self.places.len()).map(|slot| self.get(slot))
    }

    #[cold]
    fn close_up(&mut self) {
        let before = core::mem::take(&mut self.text);
        for place in &mut self.places {
            let name = &before[place.start as usize..][..usize::from(place.len)];
            place.start = u32::try_from(self.text.len()).expect("it is not longer than before");
            self.text.push_str(name);
        }
        self.dead = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_as_they_are_and_those_that_are_gone_take_no_room_for_long() {
        let mut names = Names::default();
        for (slot, name) in (0..).zip(["a", "grün", "z"]) {
            names.push_empty();
            names.set(slot, name);
        }
        for number in 0..10_000 {
            names.set(1, &format!("name-{number}"));
        }
        names.set(0, "");
        assert_eq!(names.iter().collect::<Vec<_>>(), ["", "name-9999", "z"]);
        assert!(names.text.len() < 3 * DEAD_MIN, "{}", names.text.len());
    }
}
