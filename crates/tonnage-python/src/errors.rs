//! Errors of the engine as exceptions of the package, which `tonnage._errors` makes.

use pyo3::prelude::*;
use tonnage::Error;

/// Why a call has failed.
pub struct Failed {
    error: Error,
    /// The account, as JSON, where there is one.
    report: Option<String>,
    /// What the program itself raised, where that was the reason.
    cause: Option<PyErr>,
}

impl Failed {
    /// Of an error that comes without an account.
    pub fn of(error: Error) -> Self {
        Self {
            error,
            report: None,
            cause: None,
        }
    }

    /// With the account.
    pub fn with_report(mut self, report: String) -> Self {
        self.report = Some(report);
        self
    }

    /// Because of what the program raised.
    pub fn caused_by(mut self, cause: Option<PyErr>) -> Self {
        self.cause = cause;
        self
    }

    /// The exception.
    pub fn raise(self, py: Python<'_>) -> PyErr {
        let Self { error, report, cause } = self;
        let kind = format!("{:?}", error.kind());
        let arguments = (
            kind,
            error.to_string(),
            error.hint_text(),
            error.code_text(),
            report,
        );
        let made = py
            .import("tonnage._errors")
            .and_then(|module| module.call_method1("make", arguments));
        match made {
            Ok(exception) => {
                let exception = PyErr::from_value(exception);
                if cause.is_some() {
                    exception.set_cause(py, cause);
                }
                exception
            }
            Err(error) => error,
        }
    }
}
