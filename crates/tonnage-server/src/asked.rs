//! What a request says besides its body, taken out of it before a handler sees it.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Path},
    http::{HeaderMap, Uri, request::Parts},
};
use percent_encoding::percent_decode_str;
use tonnage::table::TableName;

use crate::{
    App,
    access::{Caller, Right},
    refusal::Refusal,
    tables::Database,
};

/// The parameters of a URL, in order.
#[derive(Debug)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Of a URL. 400 where they are not UTF-8.
    pub fn of(uri: &Uri) -> Result<Self, Refusal> {
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            let text = percent_decode_str(&text).decode_utf8();
            text.map(|text| text.into_owned())
                .map_err(|_| Refusal::bad("a parameter of the URL is not UTF-8"))
        };
        let pairs = uri.query().unwrap_or_default().split('&');
        let pairs = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    /// The first one of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The list of names in a parameter: `columns=a,b`.
    pub fn names(&self, name: &str) -> Option<Vec<String>> {
        let names = self.get(name)?.split(',');
        Some(names.map(|name| name.trim().to_owned()).collect())
    }

    /// 400 where there is one that is not among `known`.
    pub fn only(&self, known: &[&str]) -> Result<(), Refusal> {
        match self.iter().find(|(name, _)| !known.contains(name)) {
            Some((name, _)) => Err(Refusal::bad(format!("there is no parameter '{name}'"))
                .hint(format!("{} are there", known.join(", ")))),
            None => Ok(()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Parameters {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        Self::of(&parts.uri)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    /// As the guard has found it.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        parts
            .extensions
            .get::<Self>()
            .cloned()
            .ok_or_else(Refusal::stranger)
    }
}

/// A name in a path. 400 where it is not UTF-8.
#[derive(Debug)]
pub struct Named(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path(name) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| Refusal::bad("the name in the path is not UTF-8"))?;
        Ok(Self(name))
    }
}

/// A request about one table.
#[derive(Debug)]
pub struct Asked {
    /// Who asks.
    pub caller: Caller,
    /// The table, as the path names it.
    pub table: String,
    /// The parameters of the URL.
    pub parameters: Parameters,
    /// The headers.
    pub headers: HeaderMap,
}

impl Asked {
    /// The table in the catalogue. What [`crate::tables::Tables::find`] refuses.
    pub async fn find(&self, app: &App, right: Right) -> Result<(Arc<Database>, TableName), Refusal> {
        let database = self.parameters.get("database");
        app.tables.find(&self.caller, right, database, &self.table).await
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Named(table) = Named::from_request_parts(parts, state).await?;
        Ok(Self {
            caller: Caller::from_request_parts(parts, state).await?,
            table,
            parameters: Parameters::from_request_parts(parts, state).await?,
            headers: parts.headers.clone(),
        })
    }
}
