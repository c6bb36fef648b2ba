//! Reads folders of agent definitions as tools write them.

use super::*;

struct UserHome(tempfile::TempDir);

impl UserHome {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn with(self, file: &str, text: impl AsRef<[u8]>) -> Self {
        let file = self.0.path().join(file);
        fs::create_dir_all(file.parent().expect("a path with a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
        self
    }

    fn list(&self) -> AgentDefinitions {
        list(&folders(self.0.path(), None), self.0.path())
    }
}

fn definition(id: &str, role: &str) -> String {
    format!("---\nid: {id}\nrole: {role}\ngoal: Tests things\nunknown: 1\n---\nYou test.\n")
}

#[test]
fn all_variants_of_front_matter_are_read() {
    let home = UserHome::new()
        .with(".config/qoder/agents/qa.md", definition("QA-Test", "Tester"))
        .with(
            ".claude/agents/reviewer.markdown",
            "---\nname: code-reviewer\ndescription: Reviews code\ntools: Read, Grep\nmodel: opus\n---\n\nYou review.\n",
        )
        .with(".config/opencode/agent/docs.md", "---\ndescription: Writes docs\nmode: subagent\n---\n");
    let found = home.list();
    assert_eq!(found.skipped, []);
    let read: Vec<[&str; 4]> = found
        .agents
        .iter()
        .map(|agent| [&agent.id, &agent.role, &agent.goal, &agent.instructions].map(String::as_str))
        .collect();
    assert_eq!(
        read,
        [
            ["code-reviewer", "Code Reviewer", "Reviews code", "You review."],
            ["docs", "Docs", "Writes docs", "You are Docs. Writes docs"],
            ["qa-test", "Tester", "Tests things", "You test."],
        ]
    );
    let reviewer = found.find("@Code-Reviewer").expect("an agent with this id");
    assert!(reviewer.is_in(".claude/agents") && !reviewer.is_in(".codex/agents"));
}

#[test]
fn the_first_definition_of_an_id_wins() {
    let home = UserHome::new()
        .with(".codex/agents/a.md", definition("qa-test", "Third"))
        .with(".claude/agents/b.md", definition("qa-test", "Second"))
        .with(".claude/agents/a.md", definition("qa-test", "First"))
        .with(".claude/agents/deeper/a.md", definition("deeper", "Not searched"));
    let found = home.list();
    assert_eq!(found.agents.iter().map(|agent| agent.role.as_str()).collect::<Vec<_>>(), ["First"]);
}

#[test]
fn a_malformed_file_is_skipped_with_a_reason() {
    let home = UserHome::new()
        .with(".claude/agents/README.md", "# Agents\n")
        .with(".claude/agents/bad-id.md", "---\nid: No Good\ngoal: x\n---\n")
        .with(".claude/agents/bad-yaml.md", "---\nid: [\n---\n")
        .with(".claude/agents/bytes.md", b"---\nid: \xff\n---\n")
        .with(".claude/agents/no-goal.md", "---\nid: lost\n---\n")
        .with(".claude/agents/notes.txt", "not read")
        .with(".claude/agents/valid.md", definition("valid", "Valid"));
    let folder = home.0.path().join(".claude/agents");
    fs::create_dir(folder.join("folder.md")).expect("a folder");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("fifo.md"), mode).expect("a fifo");
    fs::File::create(folder.join("huge.md")).and_then(|file| file.set_len(1 << 30)).expect("a sparse file");
    let found = home.list();
    assert_eq!(found.agents.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>(), ["valid"]);
    let skipped: Vec<String> = found.skipped.iter().map(ToString::to_string).collect();
    for (name, why) in [
        ("README.md", "front matter"),
        ("bad-id.md", "hyphens"),
        ("bad-yaml.md", ""),
        ("bytes.md", "is not valid UTF-8"),
        ("fifo.md", "is a fifo"),
        ("folder.md", "is a folder"),
        ("huge.md", "is larger than 1 MiB, the limit for an agent definition"),
        ("no-goal.md", "neither goal"),
    ] {
        assert!(skipped.iter().any(|line| line.contains(name) && line.contains(why)), "{name}: {skipped:#?}");
    }
    assert_eq!(skipped.len(), 8);
}

#[test]
fn an_unknown_agent_is_reported_with_similar_names() {
    let home = UserHome::new()
        .with(".claude/agents/a.md", definition("qa-test", "Tester"))
        .with(".claude/agents/b.md", definition("architect", "Architect"));
    let error = home.list().find("qa-tets").expect_err("a typo").to_string();
    assert_eq!(error, "unknown agent 'qa-tets'; did you mean qa-test?");
    let error = home.list().find("zzzzz").expect_err("an unknown name").to_string();
    assert_eq!(error, "unknown agent 'zzzzz'");
}

#[test]
fn configured_folders_replace_the_default_ones() {
    let home = UserHome::new()
        .with(".claude/agents/a.md", definition("hidden", "Hidden"))
        .with("mine/a.md", definition("mine", "Mine"));
    let folders = folders(home.0.path(), Some(&["~/mine".to_owned(), "/nowhere".to_owned()]));
    let found = list(&folders, home.0.path());
    assert_eq!(found.agents.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>(), ["mine"]);
}

#[test]
fn a_long_description_is_shortened() {
    let text = format!("---\nname: long\ndescription: {}\n---\n", "word ".repeat(1000));
    let found = UserHome::new().with(".claude/agents/long.md", text).list();
    assert_eq!(found.agents[0].goal.chars().count(), MAX_GOAL_CHARS);
}
