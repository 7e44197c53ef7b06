use clap::{Parser, Subcommand};

mod commands {
    pub mod generate;
}

#[derive(Parser)]
#[command(name = "tonnage")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Generate(commands::generate::GenerateArgs),
}

fn main() -> std::process::ExitCode {
    let Command::Generate(args) = Cli::parse().command;
    match commands::generate::run(&args) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            if let Some(hint) = e.hint_text() {
                eprintln!("hint: {hint}");
            }
            std::process::ExitCode::FAILURE
        }
    }
}
