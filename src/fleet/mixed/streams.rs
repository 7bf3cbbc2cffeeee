//! The streams of the fleet's systems, as a configuration has them.

use super::ALL;
use super::books::Rules;

impl Rules {
    /// One stream for each system, as TOML, with the `idle_timeout` that is given for it.
    pub fn streams(&self, idle_timeout: impl Fn(&str) -> &'static str) -> String {
        let disorder = self.disorder.as_millis();
        let mut text = String::new();
        for system in ALL {
            let (name, keys, idle) = (system.name(), system.keys(), idle_timeout(system.name()));
            let stream = format!(
                "[[streams]]\nname = \"{name}\"\npreset = \"{name}\"\n{keys}\ndisorder = \"{disorder}ms\"\n\
                 idle_timeout = \"{idle}\"\n"
            );
            text.push_str(&stream);
            for (window, size) in self.windows {
                let (size, lateness) = (size.as_millis(), self.lateness.as_millis());
                let window = format!(
                    "[[streams.windows]]\nname = \"{window}\"\nsize = \"{size}ms\"\nlateness = \"{lateness}ms\"\n\
                     aggregates = [\"count\", \"sum\", \"min\", \"max\"]\n"
                );
                text.push_str(&window);
            }
        }
        text
    }
}
