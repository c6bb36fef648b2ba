//! `coven completions`: completion scripts for shells. They call `coven complete` for every word.

use std::process::ExitCode;

use clap::ValueEnum;

use crate::command_line::Place;
use crate::failure::Failure;
use crate::output;

const BASH: &str = r#"_coven() {
    local IFS=$'\n'
    COMPREPLY=($(command coven complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _coven coven
"#;

const ZSH: &str = r#"#compdef coven
_coven() {
    local -a found
    found=("${(@f)$(command coven complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then
        _describe 'coven' found
    else
        _files
    fi
}
compdef _coven coven
"#;

const FISH: &str = r#"function __coven_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (command coven complete fish $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c coven -f -a '(__coven_complete)'
"#;

/// Prints a shell completion script for verbs, flags, ids and titles
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven completions bash > ~/.local/share/bash-completion/completions/coven
  coven completions zsh > ~/.zfunc/_coven
  coven completions fish > ~/.config/fish/completions/coven.fish")]
pub struct Args {
    /// Shell to write the script for
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub fn run(args: Args, _place: &Place) -> Result<ExitCode, Failure> {
    let script = match args.shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
    };
    output::bytes(script.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
