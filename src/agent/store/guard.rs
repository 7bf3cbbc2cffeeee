//! Runs foreign code that may panic on damaged data.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The value of `work`, or what it panicked with. The panic is not printed: it
/// is an expected outcome here and is reported by whoever handles it. Panics
/// elsewhere are printed as before.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(outer);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        text.or(payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_and_a_value_passes() {
        assert_eq!(catch(|| 3), Ok(3));
        let message = catch(|| panic!("at {}", 7)).unwrap_err();
        assert_eq!(message, "at 7");
        assert_eq!(catch(|| std::panic::panic_any(1_u8)), Err("panic".to_owned()));
    }
}
