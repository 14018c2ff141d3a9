//! Who may send what: keys, rates, parallel requests and budgets.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use homeostat_core::SimTime;
use http::StatusCode;
use sha2::{Digest, Sha256};

use crate::api_error::ApiError;
use crate::budgets::UsedBudgets;
use crate::settings::Key;

const NOT_POISONED: &str = "no code panics while it holds this lock";
const DAY_S: u64 = 86_400;

/// When a request comes.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// On the gateway's own clock, which never jumps.
    pub monotonic: SimTime,
    /// Seconds since 1970; only days are read from it.
    pub unix_s: u64,
}

/// The keys and what they used.
#[derive(Debug, Default)]
pub struct Admission {
    accounts: Mutex<BTreeMap<[u8; 32], Arc<Account>>>,
}

#[derive(Debug)]
struct Account {
    key: Key,
    used: Mutex<Used>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Used {
    in_flight: u64,
    requests: Bucket,
    tokens: Bucket,
    day: u64,
    tokens_today: u64,
}

/// Fills by its limit in a minute, up to its limit. What is taken afterwards can make it negative.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    missing: f64,
    at: SimTime,
}

impl Bucket {
    fn refill(&mut self, per_minute: u64, now: SimTime) {
        let gained = now.saturating_since(self.at).seconds() * per_minute as f64 / 60.0;
        self.missing = (self.missing - gained).max(0.0);
        self.at = now;
    }

    /// How long until there is one.
    fn wait(&self, per_minute: u64) -> Option<Duration> {
        let short = self.missing + 1.0 - per_minute as f64;
        // Rounding must not refuse what is there.
        (short > 1e-9).then(|| Duration::from_secs_f64(short * 60.0 / per_minute as f64))
    }
}

/// An admitted request of a key; dropping it ends the request.
#[derive(Debug, Default)]
pub struct Admitted {
    account: Option<Arc<Account>>,
}

impl Admitted {
    /// The name of the key, or none if everybody is admitted.
    pub fn key_name(&self) -> &str {
        self.account.as_ref().map_or("", |account| &account.key.name)
    }

    /// Whether the key may use a model, by the name that clients use.
    pub fn may_use(&self, model: &str) -> bool {
        let models = self.account.as_ref().and_then(|account| account.key.models.as_ref());
        models.is_none_or(|models| models.contains(model))
    }

    /// Takes note of what the request used.
    pub fn spend(&self, tokens: u64) {
        if let Some(account) = &self.account {
            let mut used = account.used.lock().expect(NOT_POISONED);
            used.tokens.missing += tokens as f64;
            used.tokens_today = used.tokens_today.saturating_add(tokens);
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.used.lock().expect(NOT_POISONED).in_flight -= 1;
        }
    }
}

impl Admission {
    /// Takes over keys; one that stays keeps what it used.
    pub fn configure(&self, keys: &[Key]) {
        let mut accounts = self.accounts.lock().expect(NOT_POISONED);
        let before = std::mem::take(&mut *accounts);
        for key in keys {
            let same = before.get(&key.sha256);
            let account = match same {
                Some(account) if account.key == *key => account.clone(),
                _ => {
                    let mut used = same
                        .map(|account| *account.used.lock().expect(NOT_POISONED))
                        .unwrap_or_default();
                    // Requests of before give their places back to the account that they came with.
                    used.in_flight = 0;
                    Arc::new(Account { key: key.clone(), used: Mutex::new(used) })
                }
            };
            accounts.insert(key.sha256, account);
        }
    }

    /// Whether the request with this `Authorization` header may go on.
    pub fn admit(&self, authorization: Option<&str>, now: Now) -> Result<Admitted, ApiError> {
        let account = self.account(authorization)?;
        let Some(account) = account else { return Ok(Admitted { account: None }) };
        account.admit(now)?;
        Ok(Admitted { account: Some(account) })
    }

    /// The account of a key; none if there are no keys.
    fn account(&self, authorization: Option<&str>) -> Result<Option<Arc<Account>>, ApiError> {
        let accounts = self.accounts.lock().expect(NOT_POISONED);
        if accounts.is_empty() {
            return Ok(None);
        }
        let unauthorized =
            |message| ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message);
        let missing = "send your key: Authorization: Bearer KEY";
        let text = authorization.ok_or_else(|| unauthorized(missing))?;
        let (scheme, key) = text.split_once(' ').ok_or_else(|| unauthorized(missing))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(unauthorized(missing));
        }
        // A look-up by hash tells nothing about a key by the time that it takes.
        let found = accounts.get(&hash(key.trim()));
        found.cloned().map(Some).ok_or_else(|| unauthorized("this key is not known here"))
    }

    /// What keys have used on the latest day that one was used.
    pub fn used_budgets(&self) -> UsedBudgets {
        let accounts = self.accounts.lock().expect(NOT_POISONED);
        let used: Vec<_> = accounts
            .iter()
            .map(|(sha256, account)| (sha256, *account.used.lock().expect(NOT_POISONED)))
            .collect();
        let day = used.iter().map(|(_, used)| used.day).max().unwrap_or(0);
        let of_day = used.into_iter().filter(|(_, used)| used.day == day && used.tokens_today > 0);
        let tokens = of_day.map(|(sha256, used)| (hexadecimal(sha256), used.tokens_today));
        UsedBudgets { day, tokens: tokens.collect() }
    }

    /// Goes on from what was used before a restart. A key that is gone is forgotten.
    pub fn restore(&self, before: &UsedBudgets) {
        for (sha256, account) in &*self.accounts.lock().expect(NOT_POISONED) {
            if let Some(tokens) = before.tokens.get(&hexadecimal(sha256)) {
                let mut used = account.used.lock().expect(NOT_POISONED);
                (used.day, used.tokens_today) = (before.day, *tokens);
            }
        }
    }

    /// Whether the key is known, without counting a request.
    pub fn check_key(&self, authorization: Option<&str>) -> Result<(), ApiError> {
        self.account(authorization).map(drop)
    }
}

impl Account {
    fn admit(&self, now: Now) -> Result<(), ApiError> {
        let Key {
            name, max_parallel, requests_per_minute, tokens_per_minute, tokens_per_day, ..
        } = &self.key;
        let mut used = self.used.lock().expect(NOT_POISONED);
        let today = now.unix_s / DAY_S;
        match today.cmp(&used.day) {
            Ordering::Greater => (used.day, used.tokens_today) = (today, 0),
            // The clock was set back: what was used stays used.
            Ordering::Less => used.day = today,
            Ordering::Equal => {}
        }
        let refused = |code, what: String, wait| {
            let message = format!("the key {name} {what}");
            Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, code, message).retry_after(wait))
        };
        if let Some(limit) = tokens_per_day
            && used.tokens_today >= *limit
        {
            let wait = Duration::from_secs(DAY_S - now.unix_s % DAY_S);
            let what = format!("has used its {limit} tokens of today (UTC)");
            return refused("insufficient_quota", what, wait);
        }
        if let Some(limit) = max_parallel
            && used.in_flight >= *limit
        {
            let what = format!("has {limit} requests at once, its limit");
            return refused("rate_limit_exceeded", what, Duration::from_secs(1));
        }
        if let Some(limit) = tokens_per_minute {
            used.tokens.refill(*limit, now.monotonic);
            if let Some(wait) = used.tokens.wait(*limit) {
                let what = format!("has used its {limit} tokens per minute");
                return refused("rate_limit_exceeded", what, wait);
            }
        }
        if let Some(limit) = requests_per_minute {
            used.requests.refill(*limit, now.monotonic);
            if let Some(wait) = used.requests.wait(*limit) {
                let what = format!("has sent its {limit} requests per minute");
                return refused("rate_limit_exceeded", what, wait);
            }
            used.requests.missing += 1.0;
        }
        used.in_flight += 1;
        Ok(())
    }
}

/// As settings and files have a hash.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of a key.
pub fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::SimDuration;

    fn key(change: impl FnOnce(&mut Key)) -> Key {
        let mut key = Key {
            name: "team".to_owned(),
            sha256: hash("secret"),
            models: None,
            max_parallel: None,
            requests_per_minute: None,
            tokens_per_minute: None,
            tokens_per_day: None,
        };
        change(&mut key);
        key
    }

    fn with(key: Key) -> Admission {
        let admission = Admission::default();
        admission.configure(&[key]);
        admission
    }

    fn at(seconds: u64) -> Now {
        Now { monotonic: SimTime::ZERO + SimDuration::from_secs(seconds), unix_s: 1000 + seconds }
    }

    const AUTHORIZATION: Option<&str> = Some("Bearer secret");

    #[test]
    fn only_known_keys_are_admitted_and_without_keys_everybody_is() {
        let admission = with(key(|_| ()));
        assert_eq!(admission.admit(AUTHORIZATION, at(0)).unwrap().key_name(), "team");
        for wrong in [None, Some("secret"), Some("Basic secret"), Some("Bearer other")] {
            assert_eq!(admission.admit(wrong, at(0)).unwrap_err().status, 401, "{wrong:?}");
        }
        assert_eq!(Admission::default().admit(None, at(0)).unwrap().key_name(), "");
    }

    #[test]
    fn requests_per_minute_come_back_at_their_rate() {
        let admission = with(key(|key| key.requests_per_minute = Some(2)));
        drop(admission.admit(AUTHORIZATION, at(0)).unwrap());
        drop(admission.admit(AUTHORIZATION, at(0)).unwrap());
        let error = admission.admit(AUTHORIZATION, at(10)).unwrap_err();
        assert_eq!(
            (error.status, error.code),
            (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded")
        );
        assert_eq!(error.retry_after.unwrap().as_secs_f64().round(), 20.0);
        assert!(admission.admit(AUTHORIZATION, at(30)).is_ok());
        assert!(admission.admit(AUTHORIZATION, at(31)).is_err());
    }

    #[test]
    fn tokens_are_counted_afterwards_and_held_against_later_requests() {
        let admission = with(key(|key| key.tokens_per_minute = Some(60)));
        admission.admit(AUTHORIZATION, at(0)).unwrap().spend(90);
        let error = admission.admit(AUTHORIZATION, at(1)).unwrap_err();
        assert_eq!(error.retry_after.unwrap().as_secs_f64().round(), 30.0);
        assert!(admission.admit(AUTHORIZATION, at(32)).is_ok());
    }

    #[test]
    fn a_budget_ends_at_midnight() {
        let admission = with(key(|key| key.tokens_per_day = Some(10)));
        admission.admit(AUTHORIZATION, at(0)).unwrap().spend(10);
        let error = admission.admit(AUTHORIZATION, at(5)).unwrap_err();
        assert_eq!(error.code, "insufficient_quota");
        assert_eq!(error.retry_after.unwrap().as_secs(), DAY_S - 1005);
        assert!(admission.admit(AUTHORIZATION, at(DAY_S - 1000)).is_ok());
    }

    #[test]
    fn a_clock_that_is_set_back_gives_no_second_budget() {
        let admission = with(key(|key| key.tokens_per_day = Some(10)));
        let on = |day: u64| Now { monotonic: SimTime::ZERO, unix_s: day * DAY_S + 5 };
        admission.admit(AUTHORIZATION, on(7)).unwrap().spend(10);
        assert!(admission.admit(AUTHORIZATION, on(7)).is_err());
        assert!(admission.admit(AUTHORIZATION, on(6)).is_err(), "a day back");
        assert!(admission.admit(AUTHORIZATION, on(7)).is_ok(), "the next midnight of that clock");
    }

    #[test]
    fn a_restart_does_not_forget_what_was_used_today() {
        let limited = || with(key(|key| key.tokens_per_day = Some(10)));
        let admission = limited();
        admission.admit(AUTHORIZATION, at(0)).unwrap().spend(10);
        let used = admission.used_budgets();
        let restarted = limited();
        restarted.restore(&used);
        assert_eq!(restarted.used_budgets(), used);
        assert_eq!(restarted.admit(AUTHORIZATION, at(1)).unwrap_err().code, "insufficient_quota");
        assert!(restarted.admit(AUTHORIZATION, at(DAY_S)).is_ok(), "the next day");
    }

    #[test]
    fn requests_at_once_are_limited_until_one_ends_and_new_settings_keep_what_was_used() {
        let admission = with(key(|key| key.max_parallel = Some(1)));
        let first = admission.admit(AUTHORIZATION, at(0)).unwrap();
        assert!(admission.admit(AUTHORIZATION, at(0)).is_err());
        drop(first);
        let first = admission.admit(AUTHORIZATION, at(0)).unwrap();
        first.spend(10);
        admission.configure(&[key(|key| key.tokens_per_day = Some(10))]);
        drop(first);
        assert_eq!(admission.admit(AUTHORIZATION, at(0)).unwrap_err().code, "insufficient_quota");
    }
}
