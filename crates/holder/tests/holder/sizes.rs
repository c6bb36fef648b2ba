//! Viewers whose terminals have different sizes.

use coven_holder::client::HolderClient;
use coven_holder::journal::Record;
use coven_holder::wire::Request;

use crate::stand::{Given, Holder, eventually};

/// Every size that the session took, in order.
fn sizes(holder: &Holder) -> Vec<(u16, u16)> {
    let size = |record| if let Record::Resize { rows, cols } = record { Some((rows, cols)) } else { None };
    holder.records().into_iter().filter_map(|it| size(it.record)).collect()
}

fn has_size(holder: &Holder, size: (u16, u16)) {
    eventually(&format!("{size:?}"), || (sizes(holder).last() == Some(&size)).then_some(()));
}

/// An attached terminal of this size.
fn viewer(holder: &Holder, rows: u16, cols: u16) -> HolderClient {
    let mut client = holder.client();
    client.send(&Request::Resize { rows, cols }).expect("the holder listens");
    client.request(&Request::Follow { from: 0 }).expect("the holder takes it");
    client
}

fn type_in(client: &mut HolderClient, text: &str) {
    client.request(&Request::Input(text.into())).expect("the holder takes it");
}

#[test]
fn the_size_follows_the_viewer_that_was_active_last_and_falls_back_when_it_leaves() {
    let holder = Given::program(&["cat"]).start();
    let mut small = viewer(&holder, 20, 60);
    let mut large = viewer(&holder, 50, 132);
    assert_eq!(sizes(&holder), [(20, 60), (50, 132)]);
    type_in(&mut small, "a");
    has_size(&holder, (20, 60));
    type_in(&mut large, "b");
    has_size(&holder, (50, 132));
    drop(large);
    has_size(&holder, (20, 60));
    let third = viewer(&holder, 30, 90);
    has_size(&holder, (30, 90));
    drop(small);
    // One that leaves without having set the size changes nothing.
    holder.ask(&Request::Sync);
    let fourth = viewer(&holder, 31, 91);
    drop(third);
    drop(fourth);
    assert_eq!(sizes(&holder)[4..], [(20, 60), (30, 90), (31, 91)]);
}

#[test]
fn the_answer_of_a_terminal_and_input_from_elsewhere_do_not_change_the_size() {
    let holder = Given::program(&["cat"]).start();
    let mut small = viewer(&holder, 20, 60);
    let _large = viewer(&holder, 50, 132);
    type_in(&mut small, "\x1b[?62;4c");
    holder.type_in("from elsewhere");
    assert_eq!(sizes(&holder), [(20, 60), (50, 132)]);
}

#[test]
fn a_size_that_is_asked_for_without_viewing_stays_when_the_asker_leaves() {
    let holder = Given::program(&["cat"]).start();
    let mut viewing = viewer(&holder, 20, 60);
    holder.ask(&Request::Resize { rows: 40, cols: 100 });
    has_size(&holder, (40, 100));
    holder.ask(&Request::Sync);
    assert_eq!(sizes(&holder), [(20, 60), (40, 100)]);
    type_in(&mut viewing, "a");
    has_size(&holder, (20, 60));
}
