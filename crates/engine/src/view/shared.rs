//! The last rendering of a session's screen for subscribers that jump: many of them jump at the same time.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use super::ScreenView;

#[derive(Debug, Default)]
pub(crate) struct SharedScreen(Mutex<Option<(Instant, ScreenView)>>);

impl SharedScreen {
    /// Returns the last rendering if it is after byte `sent` of the log and not older than `since`, else a new one.
    pub fn get(
        &self,
        since: Option<Instant>,
        sent: u64,
        render: impl FnOnce() -> Option<ScreenView>,
    ) -> Option<ScreenView> {
        // Held while rendering: the others wait for this one instead of rendering the same screen.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, screen)) = last.as_ref()
            && Some(*at) >= since
            && screen.offset > sent
        {
            return Some(screen.clone());
        }
        let screen = render()?;
        *last = Some((Instant::now(), screen.clone()));
        Some(screen)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use coven_screen::Screen;

    use super::*;
    use crate::view::ViewMode;

    #[test]
    fn a_rendering_is_shared_until_it_is_too_old_or_too_early_in_the_log() {
        let (shared, start) = (SharedScreen::default(), Instant::now());
        let screen = |offset| Some(ScreenView::of(&mut Screen::new(2, 10), offset, ViewMode::Bytes));
        let offset = |got: Option<ScreenView>| got.map(|screen| screen.offset);
        assert_eq!(offset(shared.get(Some(start), 0, || None)), None);
        assert_eq!(offset(shared.get(Some(start), 0, || screen(10))), Some(10));
        assert_eq!(offset(shared.get(Some(start), 9, || unreachable!("it is shared"))), Some(10));
        assert_eq!(offset(shared.get(Some(start), 10, || screen(20))), Some(20));
        let later = Instant::now() + Duration::from_secs(1);
        assert_eq!(offset(shared.get(Some(later), 0, || screen(30))), Some(30));
    }
}
