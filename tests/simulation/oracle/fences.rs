//! Windows that stay shut after a change of the configuration, because they may have
//! been reported under the definition of before.

use tidegate::engine::spec::{WindowKind, WindowSpec};

use super::marks::Owner;
use super::windows::windows_of;

#[derive(Clone, Debug, Default)]
pub(crate) struct Fences(Vec<(String, Owner, i64)>);

impl Fences {
    /// Those that begin at `until` or before.
    pub(crate) fn shut(&mut self, window: &str, owner: &Owner, until: i64) {
        self.0.push((window.to_owned(), owner.clone(), until));
    }

    /// Those that have expired.
    pub(crate) fn shut_expired(&mut self, window: &WindowSpec, owner: &Owner, watermark: i64) {
        let reached = watermark + 1 - window.lateness.as_i64();
        let until = match window.kind {
            WindowKind::Tumbling { size, .. } | WindowKind::Sliding { size, .. } => reached - size.as_i64(),
            WindowKind::Session { gap, max_length: None } => reached - gap.as_i64(),
            // May have been cut short.
            WindowKind::Session { max_length: Some(_), .. } => reached - 1,
            WindowKind::Calendar { .. } => windows_of(window.kind, reached)[0].0 - 1,
        };
        self.shut(window.name.as_str(), owner, until);
    }

    /// The last start that is shut.
    pub(crate) fn last(&self, window: &str, owner: &Owner) -> Option<i64> {
        self.0.iter().filter(|(name, shut, _)| name == window && shut == owner).map(|(_, _, until)| *until).max()
    }

    /// A window of that name may not be opened.
    pub(crate) fn stop(&self, window: &str, owner: &Owner, start: i64) -> bool {
        self.0.iter().any(|(name, shut, until)| name == window && shut == owner && start <= *until)
    }
}
