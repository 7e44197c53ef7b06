//! What a caller is told when something is refused or fails.
//!
//! A decision rests on the status and `code`, never on the message. Whoever has shown no token gets only
//! [`Refusal::stranger`], which says nothing of databases or tables.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use tonnage::{Error, ErrorKind};

/// An answer that is not what was asked for.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// A word that names the reason, for programs.
    pub code: &'static str,
    /// One sentence for people.
    pub message: String,
    /// The next step.
    pub hint: Option<String>,
    /// After so many seconds the same may work.
    pub retry_after: Option<u64>,
    /// What else is known, such as the rows that were taken.
    pub detail: Map<String, Value>,
}

impl Refusal {
    /// With a status, a word and a sentence.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            hint: None,
            retry_after: None,
            detail: Map::new(),
        }
    }

    /// The request itself is wrong.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// More than a bound allows.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// Of somebody who has shown no valid token.
    pub fn stranger() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "a valid token is needed",
        )
        .hint("send it as Authorization: Bearer TOKEN")
    }

    /// Of a caller without the right, or where there is no such table: the two are not told apart.
    pub fn forbidden() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "this token has no right to do that here, or there is nothing here",
        )
    }

    /// Of what comes while the server stops.
    pub fn stopping() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the server is stopping",
        )
        .retry_after(5)
    }

    /// Adds the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says when the same may work, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Adds what else is known.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.detail.insert(name.to_owned(), value.into());
        self
    }

    /// As JSON.
    pub fn body(&self) -> Value {
        let mut body = self.detail.clone();
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(hint) = &self.hint {
            error["hint"] = hint.clone().into();
        }
        body.insert("error".to_owned(), error);
        Value::Object(body)
    }
}

impl From<Error> for Refusal {
    /// Of an error that a caller with a right has met.
    fn from(error: Error) -> Self {
        let (status, code) = match error.kind() {
            ErrorKind::Config | ErrorKind::Input | ErrorKind::Schema | ErrorKind::Rejected => {
                (StatusCode::BAD_REQUEST, "bad_request")
            }
            ErrorKind::Overloaded => (StatusCode::TOO_MANY_REQUESTS, "full"),
            ErrorKind::Unsent | ErrorKind::InDoubt | ErrorKind::Fenced | ErrorKind::Altered => {
                (StatusCode::SERVICE_UNAVAILABLE, "database_away")
            }
            ErrorKind::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            ErrorKind::Refused | ErrorKind::Bug | ErrorKind::Uncertain => {
                (StatusCode::INTERNAL_SERVER_ERROR, "failed")
            }
        };
        let refusal = Self::new(status, code, error.to_string());
        let refusal = match error.hint_text() {
            Some(hint) => refusal.hint(hint),
            None => refusal,
        };
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => refusal.retry_after(5),
            _ => refusal,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = Json(self.body());
        let mut response = (self.status, body).into_response();
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response
                .headers_mut()
                .insert("www-authenticate", HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Refused(self.code));
        response
    }
}

/// Marks a response that refuses, for the audit line: its code.
#[derive(Debug, Clone, Copy)]
pub struct Refused(pub &'static str);
