//! `tonnage targets`: the databases there are, or what one can do.

use std::fmt::Display;

use clap::Args;
use serde_json::json;
use tonnage::{
    Result,
    operation::Method,
    targets::{DRIVERS, Driver},
};

use crate::{
    Ending,
    connection::ConnectionArgs,
    output::{out, outln},
};

/// List the databases and what they can do; with a URL, what that one can do
#[derive(Debug, Args)]
pub struct TargetsArgs {
    /// A database to connect to
    #[arg(value_name = "URL")]
    url: Option<String>,

    /// Print the list as a table in Markdown
    #[arg(long, conflicts_with = "url")]
    markdown: bool,

    /// Print JSON: an object a database
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Lists.
pub async fn run(args: &TargetsArgs) -> Result<Ending> {
    let Some(url) = &args.url else {
        match (args.json, args.markdown) {
            (true, _) => out!("{}", objects())?,
            (false, true) => out!("{}", markdown())?,
            (false, false) => out!("{}", list())?,
        }
        return Ok(Ending::Done);
    };
    let target = args.connection.connect(url).await?;
    let capabilities = target.capabilities();
    if args.json {
        let object = json!({
            "database": capabilities.product,
            "methods": names(capabilities.methods),
            "durability": names(capabilities.durability),
            "writers_max": capabilities.writers_max,
        });
        outln!("{object}")?;
        return Ok(Ending::Done);
    }
    outln!("database     {}", capabilities.product)?;
    outln!("methods      {}", listed(capabilities.methods))?;
    outln!("durability   {}", listed(capabilities.durability))?;
    match capabilities.writers_max {
        Some(writers) => outln!("writers      {writers}")?,
        None => outln!("writers      as many as connections")?,
    }
    Ok(Ending::Done)
}

fn names<T: Display>(items: &[T]) -> Vec<String> {
    items.iter().map(T::to_string).collect()
}

fn listed<T: Display>(items: &[T]) -> String {
    names(items).join(", ")
}

/// A property of every database, by its name in the table.
type Property = (&'static str, fn(&Driver) -> String);

/// What the table says; the first column is the database's name.
const PROPERTIES: &[Property] = &[
    ("Named as", |driver| {
        let mut names = vec![format!("`{}`", driver.example)];
        names.extend(driver.extensions.iter().map(|ending| format!("`*.{ending}`")));
        names.join(", ")
    }),
    ("Operations", |driver| listed(driver.operations)),
    ("Methods", |driver| {
        let described = |method: &Method| match method {
            Method::Native => format!("{method} ({})", driver.native),
            method => method.to_string(),
        };
        let methods: Vec<_> = driver.methods.iter().map(described).collect();
        methods.join(", ")
    }),
    ("Durability", |driver| listed(driver.durability)),
    ("Tested against", |driver| driver.verified.to_owned()),
];

fn list() -> String {
    let mut text = String::new();
    for driver in DRIVERS {
        text.push_str(&format!("{}\n", driver.name));
        for (name, property) in PROPERTIES {
            let value = property(driver).replace('`', "");
            text.push_str(&format!("  {:<15} {value}\n", name.to_lowercase()));
        }
    }
    text
}

/// An object a database, each on a line of its own.
fn objects() -> String {
    let object = |driver: &Driver| {
        json!({
            "name": driver.name,
            "named_as": driver.example,
            "endings": driver.extensions,
            "operations": names(driver.operations),
            "methods": names(driver.methods),
            "native": driver.native,
            "durability": names(driver.durability),
            "tested_against": driver.verified,
        })
    };
    DRIVERS
        .iter()
        .map(|driver| format!("{}\n", object(driver)))
        .collect()
}

fn markdown() -> String {
    let mut text = "| Target |".to_owned();
    for (name, _) in PROPERTIES {
        text.push_str(&format!(" {name} |"));
    }
    text.push_str(&format!("\n|{}\n", "---|".repeat(PROPERTIES.len() + 1)));
    for driver in DRIVERS {
        text.push_str(&format!("| {} |", driver.name));
        for (_, property) in PROPERTIES {
            text.push_str(&format!(" {} |", property(driver)));
        }
        text.push('\n');
    }
    text
}
