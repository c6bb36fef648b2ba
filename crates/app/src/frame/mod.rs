//! What all views share: text, colours, the editor, lists, the help page and the palette.

pub mod canvas;
pub mod editor;
pub mod keymap;
pub mod list;
pub mod markdown;
pub mod text;
pub mod theme;
