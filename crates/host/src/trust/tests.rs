use std::os::unix::fs::PermissionsExt;

use super::*;

fn fixture() -> (tempfile::TempDir, TrustStore, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let home = folder.path().join("p/.coven");
    fs::create_dir_all(&home).expect("a writable disk");
    let store = TrustStore::at(&folder.path().join("state/coven"));
    (folder, store, home)
}

#[test]
fn a_record_is_valid_only_for_its_path_and_id() {
    let (folder, store, home) = fixture();
    assert_eq!(store.home(&home), None);
    let record = store.record_home(&home, Origin::Made).expect("a writable disk");
    assert_eq!(store.home(&home), Some(record.clone()));
    assert_eq!(store.record_home(&home, Origin::Found).expect("a record"), record, "the first record is kept");

    let copy = folder.path().join("copy");
    fs::create_dir(&copy).expect("a writable disk");
    fs::copy(home.join(HOME_ID), copy.join(HOME_ID)).expect("a writable disk");
    assert_eq!(store.home(&copy), None, "a copy of the id is not enough");
    fs::write(home.join(HOME_ID), Uuid::new_v4().to_string()).expect("a writable disk");
    assert_eq!(store.home(&home), None, "the path is not enough either");
}

#[test]
fn records_are_private_and_ignored_in_a_folder_that_others_can_write_to() {
    let (_folder, store, home) = fixture();
    store.record_home(&home, Origin::Made).expect("a writable disk");
    let file = store.home_file(store.homes()[0].id);
    assert_eq!(fs::metadata(&file).expect("the record exists").mode() & 0o777, 0o600);
    fs::set_permissions(&store.folder, fs::Permissions::from_mode(0o777)).expect("permissions are set");
    assert_eq!(store.home(&home), None);
}

#[test]
fn an_agreement_covers_exactly_the_content_that_was_shown() {
    let (_folder, store, home) = fixture();
    let (old, new) = (Part::new("http", "listens", b"1"), Part::new("http", "listens", b"2"));
    store.decline(&home, std::slice::from_ref(&old)).expect("a writable disk");
    assert!(store.agreement(&home).declines(&old) && !store.agreement(&home).declines(&new));
    store.agree(&home, std::slice::from_ref(&old)).expect("a writable disk");
    let agreement = store.agreement(&home);
    assert!(agreement.covers(&old) && !agreement.covers(&new) && !agreement.declines(&old));
    assert!(store.revoke(&home).expect("a writable disk"));
    assert_eq!(store.agreement(&home), Agreement::default());
    assert!(!store.revoke(&home).expect("a writable disk"), "already revoked");
}

#[test]
fn a_folder_that_others_can_write_to_is_detected() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mode =
        |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("permissions are set");
    mode(0o755);
    assert!(!others_can_write(folder.path()));
    mode(0o1777);
    assert!(others_can_write(folder.path()));
    assert!(others_can_write(&folder.path().join("missing")));
}
