//! The modes of a program that decide how keys, the mouse and pasted text are sent to it.

use crate::model::Model;
use crate::modes::APP_CURSOR_KEYS;

/// Which mouse events the program wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MouseEvents {
    #[default]
    None,
    /// Presses only (mode 9).
    Presses,
    /// Presses and releases (mode 1000).
    Buttons,
    /// And movement while a button is down (mode 1002).
    Drags,
    /// And all movement (mode 1003).
    All,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputModes {
    /// Cursor keys are sent as SS3 sequences.
    pub app_cursor_keys: bool,
    /// Pasted text is sent between markers.
    pub bracketed_paste: bool,
    /// The program wants to know whether its terminal has the focus.
    pub focus_events: bool,
    pub mouse: MouseEvents,
    /// Mouse events are sent in the SGR form.
    pub sgr_mouse: bool,
    /// Flags of the kitty keyboard protocol.
    pub keyboard_flags: u8,
}

pub(crate) fn of(model: &Model) -> InputModes {
    let is_on = |number| model.modes.get(number) == Some(true);
    let mouse =
        [(1003, MouseEvents::All), (1002, MouseEvents::Drags), (1000, MouseEvents::Buttons), (9, MouseEvents::Presses)];
    InputModes {
        app_cursor_keys: is_on(APP_CURSOR_KEYS),
        bracketed_paste: is_on(2004),
        focus_events: is_on(1004),
        mouse: mouse.into_iter().find(|(number, _)| is_on(*number)).map_or(MouseEvents::None, |(_, events)| events),
        sgr_mouse: is_on(1006),
        keyboard_flags: model.keyboard[model.active()].flags(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Screen;

    #[test]
    fn the_modes_follow_the_program() {
        let mut screen = Screen::new(4, 20);
        assert_eq!(screen.input_modes(), InputModes::default());
        screen.feed(b"\x1b[?1h\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b[?1004h\x1b[>5u");
        let expected = InputModes {
            app_cursor_keys: true,
            bracketed_paste: true,
            focus_events: true,
            mouse: MouseEvents::Drags,
            sgr_mouse: true,
            keyboard_flags: 5,
        };
        assert_eq!(screen.input_modes(), expected);
        screen.feed(b"\x1b[?1002l\x1b[<u");
        assert_eq!((screen.input_modes().mouse, screen.input_modes().keyboard_flags), (MouseEvents::None, 0));
    }
}
