//! Replays on their way through the engine: who is told, once everything of theirs is durable.

use tokio::sync::oneshot;

use crate::engine::samples::{Replayed, Verdict};

/// Those whose commit is still to come. As many as samples are marked as in doubt meanwhile, so
/// bounded by what is kept on disk.
#[derive(Debug, Default)]
pub(super) struct Replays {
    /// The id of the next sample.
    next: u64,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// The id of its first sample.
    first: u64,
    verdicts: Vec<Option<Verdict>>,
    answer: oneshot::Sender<Vec<Verdict>>,
}

impl Replays {
    /// The id of the first of `count` samples, those of the others follow. `answer` is given what became of
    /// each.
    pub(super) fn handle_begin(&mut self, count: usize, answer: oneshot::Sender<Vec<Verdict>>) -> u64 {
        let first = self.next;
        self.next += count as u64;
        self.waiting.push(Waiting { first, verdicts: vec![None; count], answer });
        first
    }

    /// One is durable. The last one of those that were begun together tells of all.
    pub(super) fn handle_replayed(&mut self, replayed: Replayed) {
        let place = |waiting: &Waiting| usize::try_from(replayed.id.checked_sub(waiting.first)?).ok();
        let found =
            self.waiting.iter().position(|waiting| place(waiting).is_some_and(|at| at < waiting.verdicts.len()));
        let Some(at) = found else { return };
        let waiting = &mut self.waiting[at];
        if let Some(slot) = place(waiting).and_then(|at| waiting.verdicts.get_mut(at)) {
            *slot = Some(replayed.verdict);
        }
        if waiting.verdicts.iter().all(Option::is_some) {
            let Waiting { verdicts, answer, .. } = self.waiting.remove(at);
            // Whoever asked may have gone.
            let _ = answer.send(verdicts.into_iter().flatten().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_when_the_last_of_its_own_is_durable() {
        let mut replays = Replays::default();
        let (first_in, mut first) = oneshot::channel();
        let (second_in, mut second) = oneshot::channel();
        assert_eq!(replays.handle_begin(2, first_in), 0);
        assert_eq!(replays.handle_begin(1, second_in), 2);
        replays.handle_replayed(Replayed { id: 1, verdict: Verdict::NoStream });
        assert!(first.try_recv().is_err());
        replays.handle_replayed(Replayed { id: 2, verdict: Verdict::OtherRecords });
        assert_eq!(second.try_recv(), Ok(vec![Verdict::OtherRecords]));
        replays.handle_replayed(Replayed { id: 0, verdict: Verdict::OtherRecords });
        assert_eq!(first.try_recv(), Ok(vec![Verdict::OtherRecords, Verdict::NoStream]));
        replays.handle_replayed(Replayed { id: 7, verdict: Verdict::NoStream });
        assert!(replays.waiting.is_empty());
    }
}
