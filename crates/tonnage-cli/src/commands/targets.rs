//! `tonnage targets`: the databases there are, or what one can do.

use clap::Args;
use tonnage::{Result, targets::DRIVERS};

use crate::{Ending, connection::ConnectionArgs};

/// List the databases that tonnage knows, or what one of them can do
#[derive(Debug, Args)]
pub struct TargetsArgs {
    /// A database to connect to
    #[arg(value_name = "URL")]
    url: Option<String>,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Lists.
pub async fn run(args: &TargetsArgs) -> Result<Ending> {
    let Some(url) = &args.url else {
        for driver in DRIVERS {
            println!("{:<12} {}", driver.name, driver.example);
        }
        return Ok(Ending::Done);
    };
    let target = args.connection.connect(url).await?;
    let capabilities = target.capabilities();
    let names = |items: Vec<String>| items.join(", ");
    println!("database     {}", capabilities.product);
    println!(
        "methods      {}",
        names(capabilities.methods.iter().map(ToString::to_string).collect())
    );
    println!(
        "durability   {}",
        names(capabilities.durability.iter().map(ToString::to_string).collect())
    );
    match capabilities.writers_max {
        Some(writers) => println!("writers      {writers}"),
        None => println!("writers      as many as connections"),
    }
    Ok(Ending::Done)
}
