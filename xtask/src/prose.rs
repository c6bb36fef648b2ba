//! `cargo xtask prose`: counts of wordings that are often unclear, and the files and lines with the most of them.
//!
//! It reports and never fails a build: most patterns also have good uses.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use crate::test::root;

const SHOWN_PLACES: usize = 20;

struct Pattern {
    name: &'static str,
    regex: &'static str,
    ignores_case: bool,
    /// Lines of code that match but are not prose.
    except: Option<&'static str>,
    /// The number of lines at commit c49db7f, before the texts were edited.
    before: usize,
}

const fn pattern(name: &'static str, regex: &'static str, ignores_case: bool, before: usize) -> Pattern {
    Pattern { name, regex, ignores_case, except: None, before }
}

/// A transaction starts with the method `begin` of the store and with SQL's `BEGIN`: names, not wording. The number at
/// c49db7f leaves the same lines out.
const BEGIN: Pattern = Pattern {
    except: Some(r#"[.:]begin\(|fn begin\(|"BEGIN( IMMEDIATE)?[";]"#),
    ..pattern("begin", r"\b(begins?|began|begun|beginning)\b", true, 387)
};

const PATTERNS: [Pattern; 15] = [
    pattern("-body pronouns", r"\b(no|some|any|every)body\b", true, 470),
    pattern("-ever relatives", r"\b(who|what|where|which)ever\b", true, 250),
    pattern("tell for data", r"\b(told|tells? (of|it|the|what|who|how|why|whether|every|a|an))\b", false, 596),
    pattern("go on", r"\b(go|goes|going|gone|went) on\b", true, 240),
    pattern("stand for state", r"\b(stands?|stood) [a-z]", true, 193),
    pattern("is no", r"\b(is|are|was|were) no [a-z]", true, 148),
    pattern("any more", r"\bany more\b", true, 91),
    BEGIN,
    pattern("of its own", r"\bof (its|their|our|his) own\b", true, 138),
    pattern("what-clauses", r"\bwhat (is|was|it|came|comes|went|goes|waits|stands|they|becomes|became)\b", true, 855),
    pattern("message with it", r#""[Ii]ts? [a-z]+ [a-z]"#, false, 433),
    pattern("at once", r"\bat once\b", true, 113),
    pattern("metaphors", r"\b(speaks?|hears?|heard|family|goodbye|last words|first words?|born)\b", true, 267),
    pattern(
        "constant names",
        r"const (MOST_|LONGEST|SHORTEST|SELDOM|PATIENCE|BETWEEN|AT_ONCE|[A-Z_]*_AGAIN)[A-Z_]*:",
        false,
        74,
    ),
    pattern(
        "function names",
        r"fn (tell|told|said|say|look|heed|settle|take_up|take_in|let_go|give_back)(_[a-z_]+)?[(<]",
        false,
        133,
    ),
];

#[derive(Debug, clap::Args)]
pub struct ProseArgs {
    /// Print every line that matches, not only the counts
    #[arg(long)]
    lines: bool,
    /// Only files whose path starts with this
    path: Option<String>,
}

pub fn run(args: &ProseArgs) -> ExitCode {
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = 0;
    println!("{:<18} {:>6} {:>8}", "pattern", "lines", "c49db7f");
    for pattern in &PATTERNS {
        let hits = match matching_lines(pattern, args.path.as_deref()) {
            Ok(hits) => hits,
            Err(error) => {
                eprintln!("xtask: could not run git grep: {error}");
                return ExitCode::FAILURE;
            }
        };
        println!("{:<18} {:>6} {:>8}", pattern.name, hits.len(), pattern.before);
        total += hits.len();
        for hit in hits {
            if args.lines {
                println!("    {hit}");
            }
            let file = hit.split(':').next().unwrap_or_default();
            *files.entry(file.to_owned()).or_default() += 1;
        }
    }
    let before: usize = PATTERNS.iter().map(|pattern| pattern.before).sum();
    println!("{:<18} {total:>6} {before:>8}\n", "all");
    println!("`begin` is counted without calls of a method `begin` and without SQL.\n");
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    println!("The files with the most of them:");
    for (file, count) in files.into_iter().take(SHOWN_PLACES) {
        println!("{count:>6} {file}");
    }
    ExitCode::SUCCESS
}

/// Each as `FILE:LINE:TEXT`. This file is left out, because it contains the patterns.
fn matching_lines(pattern: &Pattern, path: Option<&str>) -> std::io::Result<Vec<String>> {
    let mut command = Command::new("git");
    command.args(["grep", "-nE"]).args(pattern.ignores_case.then_some("-i")).args(["-e", pattern.regex]);
    if let Some(except) = pattern.except {
        command.args(["--and", "--not", "-e", except]);
    }
    command.arg("--");
    let within = path.map(|path| path.trim_end_matches('/').to_owned() + "/").unwrap_or_default();
    command.args([format!("{within}*.rs"), format!("{within}*.md"), ":!xtask/src/prose.rs".to_owned()]);
    let output = command.current_dir(root()).output()?;
    // 1 means that nothing matches.
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(std::io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}
