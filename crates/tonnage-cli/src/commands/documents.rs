//! `tonnage completions` and `tonnage man`: made from the definitions of the commands.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use clap::{Args, Command};
use clap_complete::Shell;
use tonnage::{Error, ErrorKind, Result};

/// Print a shell's completions: source them, or put them where the shell looks for them
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the manual page, or write one a command
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The directory for the pages, tonnage.1 and one a command
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints completions of `command`.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<()> {
    let name = command.get_name().to_owned();
    // Into memory first: the generator does not survive a reader that closes the pipe.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut text);
    print(&text)
}

/// Prints or writes the pages of `command`.
pub fn man(args: &ManArgs, command: Command) -> Result<()> {
    let Some(directory) = &args.output else {
        let mut text = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut text);
        rendered.map_err(|e| Error::bug(format!("the page cannot be made: {e}")))?;
        return print(&text);
    };
    std::fs::create_dir_all(directory).map_err(|e| refused(directory, &e))?;
    clap_mangen::generate_to(command, directory).map_err(|e| refused(directory, &e))
}

fn refused(directory: &Path, error: &std::io::Error) -> Error {
    let shown = directory.display();
    Error::new(
        ErrorKind::Refused,
        format!("cannot write the pages to {shown}: {error}"),
    )
}

/// To standard output; a reader that has read enough is no failure.
fn print(text: &[u8]) -> Result<()> {
    match std::io::stdout().write_all(text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::new(
            ErrorKind::Refused,
            format!("standard output: {error}"),
        )),
        _ => Ok(()),
    }
}
