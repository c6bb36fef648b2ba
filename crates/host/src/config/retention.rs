//! Converts the configured retention periods to cutoff times.

use std::time::Duration;

use coven_domain::Timestamp;
use coven_domain::retention::Cutoffs;

use super::StoreConfig;

impl StoreConfig {
    pub fn cutoffs(&self, now: Timestamp) -> Cutoffs {
        const HOUR: f64 = 3600.0;
        const DAY: f64 = 24.0 * HOUR;
        let before = |period: Option<f64>, unit: f64| {
            period.map(|count| now.before(Duration::try_from_secs_f64(count * unit).unwrap_or(Duration::MAX)))
        };
        Cutoffs {
            closed_tasks: before(self.task_retention_days, DAY),
            deleted_tasks: before(self.task_soft_delete_days, DAY),
            completed_workflows: before(self.workflow_retention_days, DAY),
            events: before(self.event_retention_hours, HOUR),
        }
    }

    /// Interval between sweeps: one hour, or the shortest configured period if that is less.
    pub fn sweep_every(&self) -> Duration {
        const DAY: f64 = 86_400.0;
        [
            self.event_retention_hours.map(|hours| hours * 3600.0),
            self.task_retention_days.map(|days| days * DAY),
            self.task_soft_delete_days.map(|days| days * DAY),
            self.workflow_retention_days.map(|days| days * DAY),
        ]
        .into_iter()
        .flatten()
        .fold(Duration::from_secs(3600), |shortest, seconds| {
            shortest.min(Duration::from_secs_f64(seconds.clamp(1.0, 3600.0)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(100 * 86_400_000);

    #[test]
    fn store_17_the_defaults_are_the_specified_periods() {
        let cutoffs = StoreConfig::default().cutoffs(NOW);
        assert_eq!(cutoffs.closed_tasks, Some(Timestamp::from_millis(70 * 86_400_000)));
        assert_eq!(cutoffs.deleted_tasks, Some(Timestamp::from_millis(93 * 86_400_000)));
        assert_eq!(cutoffs.completed_workflows, Some(Timestamp::from_millis(93 * 86_400_000)));
        assert_eq!(cutoffs.events, Some(Timestamp::from_millis(99 * 86_400_000)));
        assert_eq!(StoreConfig::default().sweep_every(), Duration::from_secs(3600));
    }

    #[test]
    fn store_18_zero_means_immediately_null_means_never_and_fractions_count() {
        let config = StoreConfig {
            event_retention_hours: Some(0.5),
            task_retention_days: None,
            task_soft_delete_days: Some(0.0),
            ..StoreConfig::default()
        };
        let cutoffs = config.cutoffs(NOW);
        assert_eq!(cutoffs.events, Some(NOW.before(Duration::from_secs(1800))));
        assert_eq!(cutoffs.closed_tasks, None);
        assert_eq!(cutoffs.deleted_tasks, Some(NOW));
        assert_eq!(config.sweep_every(), Duration::from_secs(1));
    }
}
