//! Puts of coroutines that were acknowledged later: one thread hands them to their event loops, as many at once as there are, since
//! each time that it has the interpreter costs more than a row.

use std::sync::{OnceLock, mpsc};

use pyo3::{prelude::*, types::PyList};
use tonnage::{Error, Result};

use crate::errors::Failed;

/// Acknowledgements that are handed over with one hold of the interpreter.
const AT_ONCE: usize = 1_024;

/// A put that has ended.
pub struct Acknowledged {
    pub put: Result<u64>,
    /// The future of the event loop that waits for it.
    pub future: Py<PyAny>,
    /// What takes a list of such puts.
    pub settle: Py<PyAny>,
}

/// Where puts that have ended go. An error where the system gives no thread.
pub fn sender(py: Python<'_>) -> PyResult<mpsc::Sender<Acknowledged>> {
    static SENDER: OnceLock<mpsc::Sender<Acknowledged>> = OnceLock::new();
    if let Some(sender) = SENDER.get() {
        return Ok(sender.clone());
    }
    let (sender, ended) = mpsc::channel();
    let thread = std::thread::Builder::new().name("tonnage-acknowledge".to_owned());
    thread.spawn(move || hand_over(&ended)).map_err(|error| {
        Failed::of(Error::config(format!("no thread for acknowledgements: {error}"))).raise(py)
    })?;
    // Who comes second leaves a thread that ends at once.
    Ok(SENDER.get_or_init(|| sender).clone())
}

fn hand_over(ended: &mpsc::Receiver<Acknowledged>) {
    while let Ok(first) = ended.recv() {
        let mut all = vec![first];
        all.extend(ended.try_iter().take(AT_ONCE - 1));
        // The interpreter may be ending: nobody waits any more.
        let _ = Python::try_attach(|py| settle(py, all));
    }
}

/// Hands over what belongs to the same event loop together.
fn settle(py: Python<'_>, all: Vec<Acknowledged>) {
    let mut all = all.into_iter().peekable();
    while let Some(first) = all.next() {
        let settle = first.settle.clone_ref(py);
        let mut ended = vec![first.ended(py)];
        while let Some(next) = all.next_if(|next| next.settle.is(&settle)) {
            ended.push(next.ended(py));
        }
        let given = PyList::new(py, ended).and_then(|list| settle.call1(py, (list,)));
        if let Err(error) = given {
            // The loop was closed: nobody waits any more.
            error.write_unraisable(py, None);
        }
    }
}

impl Acknowledged {
    /// The future, the number, the exception.
    fn ended(self, py: Python<'_>) -> (Py<PyAny>, Option<u64>, Option<PyErr>) {
        match self.put {
            Ok(number) => (self.future, Some(number), None),
            Err(error) => (self.future, None, Some(Failed::of(error).raise(py))),
        }
    }
}
