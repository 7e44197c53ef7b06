//! What waits for a client's next request: queries, prepared statements, transactions.
//!
//! - Each has a name that cannot be guessed, and an owner, who alone gets it.
//! - There are so many at most. What was not asked for in a while is dropped when the next one comes; what drops it undoes
//!   it: a query ends, rows of a transaction are gone with their file.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use tonic::Status;
use tonnage_core::sync::Lock;
use uuid::Uuid;

/// Things of one kind, by their names.
pub(crate) struct Held<T> {
    /// What messages call one.
    what: &'static str,
    most: usize,
    idle_max: Duration,
    all: Mutex<HashMap<String, One<T>>>,
}

struct One<T> {
    owner: String,
    used: Instant,
    it: T,
}

impl<T> Held<T> {
    pub(crate) fn new(what: &'static str, most: usize, idle_max: Duration) -> Self {
        Self {
            what,
            most,
            idle_max,
            all: Mutex::default(),
        }
    }

    /// Keeps `it` for `owner`; its name. `ResourceExhausted` where there are too many.
    pub(crate) fn put(&self, owner: &str, it: T) -> Result<String, Status> {
        let now = Instant::now();
        let one = One {
            owner: owner.to_owned(),
            used: now,
            it,
        };
        let mut all = self.all.locked();
        let is_old = |one: &One<T>| now.duration_since(one.used) > self.idle_max;
        let old: Vec<_> = all.extract_if(|_, one| is_old(one)).collect();
        let put = match all.len() < self.most {
            true => {
                let name = Uuid::new_v4().to_string();
                all.insert(name.clone(), one);
                Ok(name)
            }
            false => Err(Status::resource_exhausted(format!(
                "{} {}s are open, which is the most there may be\nhint: close those that are done, or try again later",
                self.most, self.what
            ))),
        };
        drop(all);
        // What they hold is let go without holding others up.
        drop(old);
        put
    }

    /// What is kept under a name, looked at in place.
    pub(crate) fn with<R>(
        &self,
        owner: &str,
        name: &[u8],
        look: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Status> {
        let mut all = self.all.locked();
        let found = str::from_utf8(name).ok().and_then(|name| all.get_mut(name));
        match found.filter(|one| one.owner == owner) {
            Some(one) => {
                one.used = Instant::now();
                Ok(look(&mut one.it))
            }
            None => Err(self.unknown()),
        }
    }

    /// What was kept under a name, which is forgotten.
    pub(crate) fn take(&self, owner: &str, name: &[u8]) -> Result<T, Status> {
        let mut all = self.all.locked();
        let name = str::from_utf8(name).unwrap_or_default();
        match all.get(name).is_some_and(|one| one.owner == owner) {
            true => all.remove(name).map(|one| one.it).ok_or_else(|| self.unknown()),
            false => Err(self.unknown()),
        }
    }

    fn unknown(&self) -> Status {
        Status::not_found(format!(
            "there is no such {0}\nhint: a {0} ends with its use, or after {1} seconds without one",
            self.what,
            self.idle_max.as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_its_owners_once_and_bounded() {
        let held = Held::new("query", 2, Duration::from_secs(60));
        let first = held.put("ada", 1).expect("room");
        let second = held.put("grace", 2).expect("room");
        let full = held.put("ada", 3).expect_err("no room");
        assert_eq!(full.code(), tonic::Code::ResourceExhausted);
        assert_eq!(
            held.take("grace", first.as_bytes())
                .expect_err("another's")
                .code(),
            tonic::Code::NotFound
        );
        assert!(held.with("ada", b"\xff", |_| ()).is_err());
        assert_eq!(held.take("ada", first.as_bytes()).expect("it"), 1);
        assert!(held.take("ada", first.as_bytes()).is_err());
        assert_eq!(held.with("grace", second.as_bytes(), |it| *it).expect("it"), 2);
    }

    #[test]
    fn what_nobody_asks_for_makes_room() {
        let held = Held::new("query", 1, Duration::ZERO);
        let first = held.put("ada", 1).expect("room");
        std::thread::sleep(Duration::from_millis(2));
        held.put("ada", 2).expect("room again");
        assert!(held.take("ada", first.as_bytes()).is_err());
    }
}
