//! Costs of each program's requests since the mount began.

use mountpoint_client::billing::{BilledBucket, BilledUsage, RequestAccount};

use super::prices::{Cost, StorePrices};

/// Adds up accounts.
#[derive(Clone, Debug, Default)]
pub(in crate::mount) struct CostMeter {
    /// `None` if the prices of the store are not known.
    prices: Option<StorePrices>,
}

/// Requests and bytes that one program caused.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::mount) struct ProgramCost {
    /// Name of the program.
    pub(in crate::mount) program: String,
    /// Requests, to all buckets.
    pub(in crate::mount) requests: u64,
    /// Bytes of bodies that were sent.
    pub(in crate::mount) sent: u64,
    /// Bytes of objects that were received.
    pub(in crate::mount) received: u64,
    /// The cost of that; nothing where prices are not known.
    pub(in crate::mount) cost: Cost,
}

impl CostMeter {
    /// A meter with these prices.
    #[must_use]
    pub(in crate::mount) fn new(prices: Option<StorePrices>) -> Self {
        Self { prices }
    }

    /// Whether the prices are known.
    #[must_use]
    pub(in crate::mount) fn has_prices(&self) -> bool {
        self.prices.is_some()
    }

    /// Where the prices come from.
    #[must_use]
    pub(in crate::mount) fn source(&self) -> Option<&str> {
        self.prices.as_ref().map(|prices| prices.source.as_str())
    }

    /// The cost of all these programs.
    #[must_use]
    pub(in crate::mount) fn total(programs: &[ProgramCost]) -> Cost {
        let mut total = Cost::default();
        for program in programs {
            total += program.cost;
        }
        total
    }

    /// The programs of `accounts`: the dearest first, then those with most requests.
    #[must_use]
    pub(in crate::mount) fn programs(&self, accounts: &[&RequestAccount]) -> Vec<ProgramCost> {
        let programs = accounts.iter().map(|account| {
            let used = [
                (self.prices.as_ref().map(|it| it.bucket), BilledBucket::Main),
                (
                    self.prices.as_ref().map(|it| it.cache_bucket),
                    BilledBucket::Cache,
                ),
            ];
            let mut program = ProgramCost::new(account.name());
            for (prices, bucket) in used {
                let usage = account.usage(bucket);
                program.add(&usage, prices.unwrap_or_default().cost(&usage));
            }
            program
        });
        let mut programs: Vec<_> = programs.filter(|program| program.requests > 0).collect();
        programs.sort_by(|one, other| {
            let cost = other.cost.total().total_cmp(&one.cost.total());
            let requests = other.requests.cmp(&one.requests);
            cost.then(requests)
                .then_with(|| one.program.cmp(&other.program))
        });
        programs
    }

    /// A line for the end of a mount; `None` if nothing was requested.
    #[must_use]
    pub(in crate::mount) fn summary(&self, accounts: &[&RequestAccount]) -> Option<String> {
        let programs = self.programs(accounts);
        if programs.is_empty() {
            return None;
        }
        let sum = |value: fn(&ProgramCost) -> u64| programs.iter().map(value).sum::<u64>();
        let text = |program: &ProgramCost| match self.prices {
            Some(_) => format!("{} {}", program.program, dollars(program.cost.total())),
            None => format!("{} {}", program.program, program.requests),
        };
        let shares: Vec<_> = programs.iter().take(PROGRAMS_SHOWN).map(text).collect();
        let cost = match &self.prices {
            Some(prices) => {
                let total = dollars(Self::total(&programs).total());
                format!("about {total} by the prices of {}", prices.source)
            }
            None => "at prices that are not known (--price-file)".to_owned(),
        };
        Some(format!(
            "{} requests to S3 with {} bytes sent and {} received, {cost}; by program: {}",
            sum(|program| program.requests),
            sum(|program| program.sent),
            sum(|program| program.received),
            shares.join(", ")
        ))
    }
}

impl ProgramCost {
    fn new(program: &str) -> Self {
        Self {
            program: program.to_owned(),
            requests: 0,
            sent: 0,
            received: 0,
            cost: Cost::default(),
        }
    }

    fn add(&mut self, usage: &BilledUsage, cost: Cost) {
        self.requests += usage.requests();
        self.sent += usage.sent;
        self.received += usage.received;
        self.cost += cost;
    }
}

/// A sum of money: small ones with more digits, so that one request is not nothing.
fn dollars(amount: f64) -> String {
    match amount {
        amount if amount >= 1.0 => format!("${amount:.2}"),
        amount => format!("${amount:.6}"),
    }
}

/// Programs that the line at the end names.
const PROGRAMS_SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_requests_there_is_no_summary() {
        let idle = RequestAccount::new("idle");
        assert_eq!(CostMeter::default().summary(&[&idle]), None);
        assert!(!CostMeter::default().has_prices());
    }

    #[test]
    fn money_has_digits_that_matter() {
        assert_eq!(dollars(12.345), "$12.35");
        assert_eq!(dollars(0.0004), "$0.000400");
    }
}
