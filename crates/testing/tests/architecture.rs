//! ARCHITECTURE.md matches the code: its table of crates matches cargo, and every named file exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates that are not shipped. Their dependencies are not restricted.
const NOT_SHIPPED: [&str; 4] = ["testing", "trials", "fuzz", "xtask"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders below the workspace").to_owned()
}

fn text() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page is there")
}

/// Runs cargo and returns its output.
fn cargo(args: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO")).args(args).current_dir(root()).output().expect("cargo is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn metadata() -> Value {
    let version = String::from_utf8(cargo(&["-vV"])).expect("text");
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("cargo names its host");
    // A fresh machine has only the packages for its platform.
    let output = cargo(&["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host]);
    serde_json::from_slice(&output).expect("JSON")
}

/// Returns the folder of a package. The package of the binary is called coven; its folder is cli.
fn short(package: &str) -> String {
    match package {
        "coven" => "cli".to_owned(),
        other => other.trim_start_matches("coven-").to_owned(),
    }
}

fn members(metadata: &Value) -> Vec<&Value> {
    let members: Vec<&str> =
        metadata["workspace_members"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let packages = metadata["packages"].as_array().expect("a list").iter();
    packages.filter(|it| it["id"].as_str().is_some_and(|id| members.contains(&id))).collect()
}

/// Returns the names of the normal dependencies of a package.
fn normal_dependencies(package: &Value) -> impl Iterator<Item = &str> {
    let all = package["dependencies"].as_array().expect("a list").iter();
    all.filter(|it| it["kind"].is_null()).filter_map(|it| it["name"].as_str())
}

#[test]
fn the_table_of_crates_matches_the_dependencies_of_cargo() {
    let metadata = metadata();
    let is_ours = |name: &&str| *name == "coven" || name.starts_with("coven-");
    let seen: BTreeMap<String, BTreeSet<String>> = members(&metadata)
        .into_iter()
        .map(|it| {
            (short(it["name"].as_str().expect("a name")), normal_dependencies(it).filter(is_ours).map(short).collect())
        })
        .filter(|(name, _): &(String, BTreeSet<String>)| !NOT_SHIPPED.contains(&name.as_str()))
        .collect();
    let table: BTreeMap<String, BTreeSet<String>> = text()
        .lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let uses = cells[2].split(',').map(str::trim).filter(|name| !name.is_empty());
            (cells[0].to_owned(), uses.map(str::to_owned).collect())
        })
        .collect();
    assert_eq!(table, seen, "left: ARCHITECTURE.md, right: cargo");
}

/// Returns all direct and indirect dependencies of a package.
fn closure(metadata: &Value, package: &str) -> BTreeSet<String> {
    let nodes = metadata["resolve"]["nodes"].as_array().expect("a list");
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| Some((it["id"].as_str()?, it["name"].as_str()?)))
        .collect();
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&str> = names.iter().filter(|(_, name)| **name == package).map(|(id, _)| *id).collect();
    while let Some(id) = waiting.pop() {
        let Some(node) = nodes.iter().find(|node| node["id"] == *id) else { continue };
        for dependency in node["deps"].as_array().expect("a list") {
            let is_normal = dependency["dep_kinds"].as_array().expect("a list").iter().any(|it| it["kind"].is_null());
            let id = dependency["pkg"].as_str().expect("an id");
            if is_normal && found.insert(names[id].to_owned()) {
                waiting.push(id);
            }
        }
    }
    found
}

#[test]
fn crates_do_not_have_forbidden_dependencies() {
    let metadata = metadata();
    for (package, forbidden) in [
        ("coven-holder", &["minijinja", "schemars", "serde-saphyr", "tokio", "hyper"][..]),
        ("coven-domain", &["minijinja", "schemars", "serde-saphyr", "tokio", "rustix"]),
        ("coven-engine", &["coven-api", "axum", "hyper"]),
        ("coven-acp", &["tokio"]),
        ("coven-api", &["tokio", "hyper", "rustix"]),
        ("coven-client", &["coven-host", "coven-holder", "coven-engine", "axum"]),
    ] {
        let needs = closure(&metadata, package);
        let found: Vec<&&str> = forbidden.iter().filter(|name| needs.contains(**name)).collect();
        assert!(found.is_empty(), "{package} depends on {found:?}");
    }
    let server = members(&metadata).into_iter().find(|it| it["name"] == "coven-server").expect("there is a server");
    let direct: BTreeSet<&str> = normal_dependencies(server).collect();
    for forbidden in ["coven-store", "coven-host", "coven-holder", "rusqlite"] {
        assert!(!direct.contains(forbidden), "the server must not use {forbidden}");
    }
}

/// Finds the Rust files in a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|it| it == "rs") => found.push(path),
            false => {}
        }
    }
}

/// Returns whether only tests use the file. Tests contain literal paths because they check the interface.
fn is_test(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with("tests.rs") || name == "scripted_daemon.rs" || path.components().any(|it| it.as_os_str() == "tests")
}

#[test]
fn paths_of_routes_are_in_the_table_only() {
    let mut files = Vec::new();
    for member in fs::read_dir(root().join("crates")).expect("a folder").flatten() {
        sources(&member.path().join("src"), &mut files);
    }
    let table = root().join("crates/api/src/routes.rs");
    assert!(files.contains(&table), "the table has moved");
    let mut literals = Vec::new();
    for file in files.iter().filter(|file| !is_test(file)) {
        let text = fs::read_to_string(file).expect("text");
        let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        // The rows of the table are the last lines of its file, before its tests.
        let product = if *file == table { product.split("\nroutes! {").next().unwrap_or_default() } else { product };
        let code = product.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (number, line) in code {
            if ["/api/", "api/v1", "\"/state", "\"/events"].iter().any(|path| line.contains(path)) {
                literals.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(literals.is_empty(), "name the route's type instead:\n{}", literals.join("\n"));
}

#[test]
fn every_crate_warns_about_dependencies_that_it_does_not_use() {
    let metadata = metadata();
    for package in members(&metadata) {
        let folder =
            Path::new(package["manifest_path"].as_str().expect("a path")).parent().expect("a folder").to_owned();
        let main = ["src/lib.rs", "src/main.rs"].map(|name| folder.join(name)).into_iter().find(|path| path.exists());
        let text = fs::read_to_string(main.expect("a crate has a root")).expect("text");
        assert!(text.contains("warn(unused_crate_dependencies)"), "{}", folder.display());
    }
}

#[test]
fn every_named_file_exists() {
    let text = text();
    let named: Vec<&str> =
        text.split('`').skip(1).step_by(2).filter(|it| it.starts_with("crates/") || it.starts_with("docs/")).collect();
    assert!(named.len() > 30, "{named:?}");
    let missing: Vec<&&str> = named.iter().filter(|it| !root().join(it).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
