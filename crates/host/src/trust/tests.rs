use std::os::unix::fs::PermissionsExt;

use super::*;

fn fixture() -> (tempfile::TempDir, TrustStore, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let home = folder.path().join("p/.coven");
    fs::create_dir_all(&home).expect("room on disk");
    let store = TrustStore::at(&folder.path().join("state/coven"));
    (folder, store, home)
}

#[test]
fn a_record_holds_for_one_path_and_the_id_in_it() {
    let (folder, store, home) = fixture();
    assert_eq!(store.home(&home), None);
    let record = store.record_home(&home, Origin::Made).expect("room on disk");
    assert_eq!(store.home(&home), Some(record.clone()));
    assert_eq!(store.record_home(&home, Origin::Found).expect("recorded"), record, "it stays as it is");

    let copy = folder.path().join("copy");
    fs::create_dir(&copy).expect("room on disk");
    fs::copy(home.join(HOME_ID), copy.join(HOME_ID)).expect("room on disk");
    assert_eq!(store.home(&copy), None, "a copy of the id is not enough");
    fs::write(home.join(HOME_ID), Uuid::new_v4().to_string()).expect("room on disk");
    assert_eq!(store.home(&home), None, "neither is the path");
}

#[test]
fn records_are_private_and_those_in_a_folder_of_others_do_not_count() {
    let (_folder, store, home) = fixture();
    store.record_home(&home, Origin::Made).expect("room on disk");
    let file = store.home_file(store.homes()[0].id);
    assert_eq!(fs::metadata(&file).expect("written").mode() & 0o777, 0o600);
    fs::set_permissions(&store.folder, fs::Permissions::from_mode(0o777)).expect("ours");
    assert_eq!(store.home(&home), None);
}

#[test]
fn an_agreement_covers_exactly_the_content_that_was_shown() {
    let (_folder, store, home) = fixture();
    let (old, new) = (Part::new("http", "listens", b"1"), Part::new("http", "listens", b"2"));
    store.decline(&home, std::slice::from_ref(&old)).expect("room on disk");
    assert!(store.agreement(&home).declines(&old) && !store.agreement(&home).declines(&new));
    store.agree(&home, std::slice::from_ref(&old)).expect("room on disk");
    let agreement = store.agreement(&home);
    assert!(agreement.covers(&old) && !agreement.covers(&new) && !agreement.declines(&old));
    assert!(store.revoke(&home).expect("ours"));
    assert_eq!(store.agreement(&home), Agreement::default());
    assert!(!store.revoke(&home).expect("ours"), "nothing is left");
}

#[test]
fn a_folder_that_others_can_write_is_recognised() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("ours");
    mode(0o755);
    assert!(!others_can_write(folder.path()));
    mode(0o1777);
    assert!(others_can_write(folder.path()));
    assert!(others_can_write(&folder.path().join("missing")));
}
