//! The names of the slots of a stream, side by side in one text: as long as they are,
//! where a [`DeviceId`](crate::model::ids::DeviceId) has room for the longest, and in
//! the order in which devices first came, which is often the order in which they come
//! again.

/// Names by slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    text: String,
    /// Where each name ends, and the next one starts.
    ends: Vec<u32>,
}

impl Names {
    /// Appends a name. `limits::DEVICES_MAX` names of `limits::DEVICE_ID_BYTES` fit.
    pub(super) fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(u32::try_from(self.text.len()).expect("the number of names and their length are bounded"));
    }

    /// Names in it.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The name of a slot.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> &str {
        let slot = slot as usize;
        let start = slot.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[slot] as usize]
    }

    /// All, by slot.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..).take(self.len()).map(|slot| self.get(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_as_they_are() {
        let mut names = Names::default();
        for name in ["a", "grün", "z"] {
            names.push(name);
        }
        assert_eq!((names.get(0), names.get(1), names.get(2), names.len()), ("a", "grün", "z", 3));
        assert_eq!(names.iter().collect::<String>(), "agrünz");
    }
}
