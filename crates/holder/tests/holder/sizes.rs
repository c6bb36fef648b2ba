//! Viewers whose terminals have different sizes.

use coven_holder::client::HolderClient;
use coven_holder::journal::Record;
use coven_holder::wire::Request;

use crate::fixture::{Given, Holder, eventually};

/// Returns every size of the session in order, with the records that were not in the journal yet.
fn sizes(holder: &Holder) -> Vec<(u16, u16)> {
    holder.ask(&Request::Sync);
    let size = |record| if let Record::Resize { rows, cols } = record { Some((rows, cols)) } else { None };
    holder.records().into_iter().filter_map(|it| size(it.record)).collect()
}

fn has_size(holder: &Holder, size: (u16, u16)) {
    eventually(&format!("{size:?}"), || (sizes(holder).last() == Some(&size)).then_some(()));
}

/// Attaches a terminal of this size.
fn viewer(holder: &Holder, rows: u16, cols: u16) -> HolderClient {
    let mut client = holder.client();
    client.send(&Request::Resize { rows, cols }).expect("the holder accepts requests");
    client.request(&Request::Follow { from: 0 }).expect("the holder accepts the request");
    client
}

fn type_in(client: &mut HolderClient, text: &str) {
    client.request(&Request::Input(text.into())).expect("the holder accepts the request");
}

#[test]
fn the_size_follows_the_last_active_viewer_and_falls_back_when_it_leaves() {
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
    // A viewer that leaves without having set the size changes nothing.
    holder.ask(&Request::Sync);
    let fourth = viewer(&holder, 31, 91);
    assert_eq!(sizes(&holder)[4..], [(20, 60), (30, 90), (31, 91)]);
    drop((third, fourth));
}

#[test]
fn terminal_answers_and_input_from_other_clients_do_not_change_the_size() {
    let holder = Given::program(&["cat"]).start();
    let mut small = viewer(&holder, 20, 60);
    let _large = viewer(&holder, 50, 132);
    type_in(&mut small, "\x1b[?62;4c");
    holder.type_in("from elsewhere");
    assert_eq!(sizes(&holder), [(20, 60), (50, 132)]);
}

#[test]
fn a_size_set_by_a_client_that_does_not_view_stays_when_it_disconnects() {
    let holder = Given::program(&["cat"]).start();
    let mut viewing = viewer(&holder, 20, 60);
    holder.ask(&Request::Resize { rows: 40, cols: 100 });
    has_size(&holder, (40, 100));
    holder.ask(&Request::Sync);
    assert_eq!(sizes(&holder), [(20, 60), (40, 100)]);
    type_in(&mut viewing, "a");
    has_size(&holder, (20, 60));
}
