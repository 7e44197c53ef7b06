//! The databases: a crate each, one line each in [`DRIVERS`]. Nothing else names a database.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod named;
pub mod tuned;

use std::{path::PathBuf, sync::Arc};

#[cfg(feature = "adbc")]
pub use tonnage_adbc as adbc;
#[cfg(feature = "cassandra")]
pub use tonnage_cassandra as cassandra;
pub use tonnage_core::{
    driver::{Connector, Driver},
    password::{Password, hide},
};
use tonnage_core::{
    error::{Error, Result},
    router::SHARDS_MAX,
    table::nearest,
    target::Target,
};
use tonnage_engine::sharded::ShardedTarget;
#[cfg(feature = "mysql")]
pub use tonnage_mysql as mysql;
#[cfg(feature = "nosql")]
pub use tonnage_nosql as nosql;
#[cfg(feature = "postgres")]
pub use tonnage_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use tonnage_sqlite as sqlite;

use self::named::{Named, NamedPlace};

/// Lets `@NAME/..` be what is in the store that a section of `targets.toml` describes. The command line does so when it
/// starts, a library once before it names files that way.
pub fn use_named_stores() {
    tonnage_places::set_names(named::find_store);
}

/// Every database there is.
pub const DRIVERS: &[Driver] = &[
    #[cfg(feature = "sqlite")]
    sqlite::DRIVER,
    #[cfg(feature = "postgres")]
    postgres::DRIVER,
    #[cfg(feature = "mysql")]
    mysql::DRIVER,
    #[cfg(feature = "cassandra")]
    cassandra::DRIVER,
    #[cfg(feature = "adbc")]
    adbc::DUCKDB,
    #[cfg(feature = "nosql")]
    nosql::DRIVER,
];

/// The database that `target` names: by its scheme, for files by their ending, or as `@name` of a `targets.toml`.
/// `Config` where none does.
///
/// Of several databases that hold tables together it is the one of their kind.
pub fn driver(target: &str) -> Result<&'static Driver> {
    let Some(name) = target.strip_prefix('@') else {
        return driver_of_url(target);
    };
    match named::find(name)?.place {
        NamedPlace::Url(url) => driver_of_url(&url),
        NamedPlace::Sharded { members, .. } => match members.first().map(|first| first.strip_prefix('@')) {
            None => Err(Error::config(format!("{target} has no members"))),
            // Members that are sharded themselves are refused, so this ends.
            Some(Some(member)) => match named::find(member)?.place {
                NamedPlace::Url(url) => driver_of_url(&url),
                NamedPlace::Sharded { .. } => Err(nested(target)),
            },
            Some(None) => driver_of_url(&members[0]),
        },
    }
}

fn nested(target: &str) -> Error {
    Error::config(format!("{target} has a member that is sharded itself")).hint("name its members instead")
}

/// Whether `target` is the name of several databases that hold tables together.
pub fn is_sharded(target: &str) -> Result<bool> {
    let Some(name) = target.strip_prefix('@') else {
        return Ok(false);
    };
    Ok(matches!(named::find(name)?.place, NamedPlace::Sharded { .. }))
}

fn driver_of_url(target: &str) -> Result<&'static Driver> {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme).filter(|scheme| {
        let mut chars = scheme.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic())
            && chars.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && scheme.len() > 1
    });
    if let Some(scheme) = scheme {
        let lower = scheme.to_ascii_lowercase();
        if let Some(driver) = DRIVERS.iter().find(|d| d.schemes.contains(&lower.as_str())) {
            return Ok(driver);
        }
        let error = Error::config(format!("'{scheme}:' is no kind of database that tonnage knows"));
        let known = DRIVERS.iter().flat_map(|d| d.schemes.iter().copied());
        return Err(match nearest(&lower, known).first() {
            Some(close) => error.hint(format!("did you mean '{close}:'?")),
            None => error.hint(format!("databases are named as {}", examples())),
        });
    }
    let names = target
        .split_ascii_whitespace()
        .filter_map(|word| word.split_once('='));
    let means = |driver: &&Driver| names.clone().any(|(name, _)| driver.keywords.contains(&name));
    if let Some(driver) = DRIVERS.iter().find(means) {
        return Ok(driver);
    }
    let ending = target
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_ascii_lowercase())
        .unwrap_or_default();
    DRIVERS
        .iter()
        .find(|d| d.extensions.contains(&ending.as_str()))
        .ok_or_else(|| {
            let hidden = hide(target);
            // Named like one, were it not for its ending.
            let as_file = DRIVERS.iter().find(|driver| !driver.extensions.is_empty());
            let as_file = as_file
                .and_then(|driver| driver.schemes.first())
                .map(|scheme| format!("; if '{hidden}' is to be a file of a database: {scheme}:{hidden}"));
            Error::config(format!("'{hidden}' names no database")).hint(format!(
                "the database comes last, as in cp, and is named as {}{}",
                examples(),
                as_file.unwrap_or_default()
            ))
        })
}

fn examples() -> String {
    DRIVERS.iter().map(|d| d.example).collect::<Vec<_>>().join(" or ")
}

/// Connects to the database that `target` names: a URL, a file, or `@name` of a `targets.toml`.
pub async fn connect(target: &str) -> Result<Arc<dyn Target>> {
    connect_with(target, None).await
}

/// Connects with a password that comes before the URL's and any other. `Config` where the database knows no passwords.
pub async fn connect_with(target: &str, password: Option<Password>) -> Result<Arc<dyn Target>> {
    let Some(name) = target.strip_prefix('@') else {
        return connect_url(target, password).await;
    };
    let named = named::find(name)?;
    let NamedPlace::Sharded { members, shard_by } = &named.place else {
        return connect_one(target, password).await;
    };
    let password = match password {
        Some(password) => Some(password),
        None => named.password()?,
    };
    let connected = connect_sharded(members, shard_by, password).await;
    connected.map_err(|error| error.at(format!("{target} of {}", named.file)))
}

/// Connects to databases of one kind that hold tables together: each row is in the one that its values of the columns
/// `shard_by` say, in a way that never changes (`docs/sharding.md`). It is the order of `members` that counts. Members
/// may be away, but not all of them: what is done with their rows then fails, and what is done with others' goes on.
/// The password is for members that are URLs.
///
/// `Config` for fewer than two members, for members of different kinds, or for one that is there twice.
pub async fn connect_sharded(
    members: &[String],
    shard_by: &[String],
    password: Option<Password>,
) -> Result<Arc<dyn Target>> {
    check_members(members, shard_by)?;
    let members = members.iter().map(|member| {
        let password = password.clone().filter(|_| !member.starts_with('@'));
        let place = member.clone();
        Connector {
            shown: match member.starts_with('@') {
                true => member.clone(),
                false => redact(member),
            },
            connect: Arc::new(move || {
                let (place, password) = (place.clone(), password.clone());
                Box::pin(async move { connect_one(&place, password).await })
            }),
        }
    });
    let target = ShardedTarget::connect(members.collect(), shard_by).await?;
    Ok(Arc::new(target))
}

/// Refuses what cannot be a sharded target, before anything is connected to.
fn check_members(places: &[String], key: &[String]) -> Result<()> {
    let number = places.len();
    if number < 2 {
        return Err(Error::config("a sharded target has at least two members"));
    }
    if number > SHARDS_MAX {
        return Err(Error::config(format!(
            "a sharded target has at most {SHARDS_MAX} members, and these are {number}"
        )));
    }
    if key.is_empty() {
        return Err(Error::config("nothing says by which columns rows are sharded")
            .hint("--shard-by COLUMN, or shard_by = \"column\" in targets.toml"));
    }
    if let Some(column) = key
        .iter()
        .enumerate()
        .find(|(at, column)| key[..*at].contains(column))
    {
        return Err(Error::config(format!("the shard key names '{}' twice", column.1)));
    }
    let mut kind = None;
    for (at, place) in places.iter().enumerate() {
        let shown = || redact(place);
        if places[..at].contains(place) {
            return Err(Error::config(format!("{} is a member twice", shown())));
        }
        if is_sharded(place)? {
            return Err(Error::config(format!(
                "{place} is sharded itself, and cannot be a member"
            )));
        }
        let driver = driver(place)?;
        match kind {
            None => kind = Some((driver.name, shown())),
            Some((name, _)) if name == driver.name => {}
            Some((name, first)) => {
                return Err(Error::config(format!(
                    "{first} is {name} and {} is {}: members are of one kind",
                    shown(),
                    driver.name
                )));
            }
        }
    }
    Ok(())
}

/// Connects to `target` when it is needed, or is back: a URL, a file or `@name`. See [`connect_with`].
pub fn connector(target: impl Into<String>, password: Option<Password>) -> Connector {
    let target = target.into();
    Connector {
        shown: redact(&target),
        connect: Arc::new(move || {
            let (target, password) = (target.clone(), password.clone());
            Box::pin(async move { connect_with(&target, password).await })
        }),
    }
}

/// Connects to a single database.
async fn connect_one(target: &str, password: Option<Password>) -> Result<Arc<dyn Target>> {
    let Some(name) = target.strip_prefix('@') else {
        return connect_url(target, password).await;
    };
    let named = named::find(name)?;
    let NamedPlace::Url(url) = &named.place else {
        return Err(nested(target));
    };
    let password = match password {
        Some(password) => Some(password),
        None => named.password()?,
    };
    let connected = connect_url(url, password).await;
    connected.map_err(|error| error.at(format!("{target} of {}", named.file)))
}

async fn connect_url(url: &str, password: Option<Password>) -> Result<Arc<dyn Target>> {
    let driver = driver_of_url(url)?;
    if password.is_some() && !driver.passwords {
        return Err(
            Error::config(format!("{} takes no password", driver.name)).hint("leave the password out")
        );
    }
    (driver.connect)(url, password).await
}

/// `target` as it may be shown: without its password. A name is shown as the URL that it means, if it is one.
pub fn redact(target: &str) -> String {
    let shown = |url: &str| driver_of_url(url).map(|d| (d.redact)(url)).unwrap_or_default();
    let Some(name) = target.strip_prefix('@') else {
        return shown(target);
    };
    match named::find(name).map(|named| named.place) {
        Ok(NamedPlace::Url(url)) => shown(&url),
        Ok(NamedPlace::Sharded { .. }) | Err(_) => target.to_owned(),
    }
}

/// The files of this machine that `target` consists of, whether they are there or not; of a name also the `targets.toml`
/// that explains it. None where nothing is known by that name.
pub fn files(target: &str) -> Vec<PathBuf> {
    let of_url = |url: &str| {
        driver_of_url(url)
            .map(|driver| (driver.files)(url))
            .unwrap_or_default()
    };
    let Some(named) = target.strip_prefix('@').map(named::find) else {
        return of_url(target);
    };
    let Ok(named) = named else {
        return Vec::new();
    };
    let mut found = vec![PathBuf::from(&named.file)];
    match &named.place {
        NamedPlace::Url(url) => found.extend(of_url(url)),
        // Members that are sharded themselves are refused.
        NamedPlace::Sharded { members, .. } => {
            for member in members {
                match member.strip_prefix('@').map(named::find) {
                    None => found.extend(of_url(member)),
                    Some(Ok(Named {
                        place: NamedPlace::Url(url),
                        ..
                    })) => found.extend(of_url(&url)),
                    Some(_) => {}
                }
            }
        }
    }
    found
}
