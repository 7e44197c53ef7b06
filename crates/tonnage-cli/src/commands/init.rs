//! `tonnage init`: what makes a ledger, and lets roles use it that may make none.

use clap::Args;
use serde_json::json;
use tonnage::Result;

use crate::{
    Ending,
    connection::{ConnectionArgs, ShardArgs},
    output::outln,
    paths::Paths,
};

/// Print what makes the ledger of a database and lets roles use it
#[derive(Debug, Args)]
#[command(
    after_help = "The ledger is made where a load would look for it: in the schema (in MariaDB the database) that
?ledger_schema=NAME of the URL names, else where there is one, else in one called tonnage. What is
there already is left as it is.

Examples:
  tonnage init postgresql://owner@db/shop --grant loader | psql postgresql://owner@db/shop
  tonnage init postgresql://owner@db/shop --grant loader --execute
  tonnage init 'mariadb://root@db/shop?ledger_schema=etl' --grant loader@%"
)]
pub struct InitArgs {
    /// The database; several with --shard-by
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<String>,

    /// Let ROLE use the ledger, to load, to resume, and to list and forget runs; may be given several times
    #[arg(long, value_name = "ROLE")]
    grant: Vec<String>,

    /// Run the statements, instead of printing them
    #[arg(long)]
    execute: bool,

    /// Print JSON: an object a ledger, with its place, statements and notes
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(flatten)]
    shards: ShardArgs,
}

/// Prints, or executes.
pub async fn run(args: &InitArgs) -> Result<Ending> {
    let place = args.shards.place(&args.targets)?;
    let mut paths = Paths::default();
    paths.databases(&args.targets);
    paths.check()?;
    let target = place.connect(args.connection.password(place.first())?).await?;
    let ledger = target.ledger();
    if args.execute {
        ledger.set_up(&args.grant).await?;
    }
    for setup in ledger.setup(&args.grant).await? {
        if args.json {
            let object = json!({
                "place": setup.place,
                "statements": setup.statements,
                "notes": setup.notes,
                "executed": args.execute,
            });
            outln!("{object}")?;
            continue;
        }
        match args.execute {
            true => eprintln!("the ledger is in {}", setup.place),
            false => eprintln!("the ledger in {}", setup.place),
        }
        for note in &setup.notes {
            eprintln!("note: {note}");
        }
        if !args.execute {
            for statement in &setup.statements {
                outln!("{statement};")?;
            }
        }
    }
    Ok(Ending::Done)
}
