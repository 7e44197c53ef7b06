//! Rows of one session, a batch at a time.
//!
//! The session lives in a task of its own, which answers one question after another and is never more than a few
//! batches ahead of whoever takes them; the server waits meanwhile. What nobody takes to its end is ended at the server:
//! left alone it would send all of it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use mysql_async::{Conn, Params, Statement, Value, prelude::Queryable};
use tokio::sync::mpsc;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::BatchBounds,
};

use super::{
    connect::{self, Counting},
    decode::{Decoder, Rows, weight},
    errors,
    settings::Settings,
};

/// Batches that may wait to be taken, so that reading goes on meanwhile.
const BATCHES_AHEAD: usize = 2;

/// What rows become.
pub(super) struct RowDecoding {
    pub decoder: Decoder,
    pub batch: BatchBounds,
}

struct Question {
    sql: String,
    parameters: Vec<Value>,
    answer: mpsc::Sender<Sent>,
}

/// Rows, or the mark of an answer's end: a task that is gone is never taken for one that is done.
type Sent = Result<Option<RecordBatch>>;

/// A session that answers.
pub(super) struct Answering {
    questions: mpsc::UnboundedSender<Question>,
    /// None where no answer goes on.
    answer: Option<mpsc::Receiver<Sent>>,
    /// Whether an answer has begun whose end has not been seen.
    unfinished: bool,
    session: u32,
    settings: Settings,
}

impl Answering {
    pub fn start(conn: Conn, form: Arc<RowDecoding>, settings: Settings) -> Self {
        let (questions, asked) = mpsc::unbounded_channel();
        let session = conn.id();
        tokio::spawn(serve(conn, form, asked));
        Self {
            questions,
            answer: None,
            unfinished: false,
            session,
            settings,
        }
    }

    /// Asks; what is left of the last answer is read over.
    pub fn ask(&mut self, sql: String, parameters: Vec<Value>) -> Result<()> {
        let (send, answer) = mpsc::channel(BATCHES_AHEAD);
        self.answer = Some(answer);
        self.unfinished = true;
        let question = Question {
            sql,
            parameters,
            answer: send,
        };
        let gone = |_| Error::new(ErrorKind::Unsent, "the connection to the server was lost");
        self.questions.send(question).map_err(gone)
    }

    /// The next rows; none at the end.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(answer) = &mut self.answer else {
            return Ok(None);
        };
        let gone = || Error::bug("the task that reads ended without a word");
        let next = answer.recv().await.ok_or_else(gone)?;
        if !matches!(next, Ok(Some(_))) {
            self.answer = None;
        }
        if let Ok(None) = next {
            self.unfinished = false;
        }
        next
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        self.answer = None;
        if self.unfinished {
            let (session, settings) = (self.session, self.settings.clone());
            runtime.spawn(async move {
                // A session that cannot be ended ends with its rows.
                if let Ok((mut conn, _)) = connect::open(&settings, Counting::Found).await {
                    let _ = conn.query_drop(format!("KILL {session}")).await;
                }
            });
        }
    }
}

async fn serve(mut conn: Conn, form: Arc<RowDecoding>, mut asked: mpsc::UnboundedReceiver<Question>) {
    // Questions are of few texts, one after another: each is prepared when it is another one than before.
    let mut prepared = None;
    while let Some(question) = asked.recv().await {
        if let Err(error) = answer(&mut conn, &mut prepared, &form, &question).await {
            let lost = error.kind() == ErrorKind::Unsent;
            // Nobody listening means nobody to tell.
            let _ = question.answer.send(Err(error)).await;
            if lost {
                return;
            }
        }
    }
}

/// The statement of a question; `prepared` is that of the one before.
async fn statement(
    conn: &mut Conn,
    prepared: &mut Option<(String, Statement)>,
    sql: &str,
) -> std::result::Result<Statement, mysql_async::Error> {
    match prepared.take() {
        Some((text, statement)) if text == sql => {
            return Ok(prepared.insert((text, statement)).1.clone());
        }
        Some((_, statement)) => conn.close(statement).await?,
        None => {}
    }
    let statement = conn.prep(sql).await?;
    Ok(prepared.insert((sql.to_owned(), statement)).1.clone())
}

async fn answer(
    conn: &mut Conn,
    prepared: &mut Option<(String, Statement)>,
    form: &RowDecoding,
    question: &Question,
) -> Result<()> {
    let parameters = match question.parameters.as_slice() {
        [] => Params::Empty,
        parameters => Params::Positional(parameters.to_vec()),
    };
    let statement = statement(conn, prepared, &question.sql).await.map_err(of_rows)?;
    let mut result = conn.exec_iter(statement, parameters).await.map_err(of_rows)?;
    let mut rows = Rows::new();
    let mut bytes = 0;
    let mut listened = true;
    while let Some(row) = result.next().await.map_err(of_rows)? {
        // Read over: the session is of no use before its answer's end.
        if !listened {
            continue;
        }
        let row = row.unwrap();
        bytes += weight(&row);
        rows.push(row);
        if rows.len() >= form.batch.rows_max || bytes >= form.batch.bytes_max {
            let batch = form.decoder.decode(&rows)?;
            rows.clear();
            bytes = 0;
            listened = question.answer.send(Ok(Some(batch))).await.is_ok();
        }
    }
    if !rows.is_empty() {
        let batch = form.decoder.decode(&rows)?;
        // Nobody listening means nobody who wants it.
        let _ = question.answer.send(Ok(Some(batch))).await;
    }
    let _ = question.answer.send(Ok(None)).await;
    Ok(())
}

/// An error while rows arrive. Nothing that was asked for can be had from another attempt by the same words.
fn of_rows(failure: mysql_async::Error) -> Error {
    let error = errors::statement(failure);
    match error.kind() {
        ErrorKind::Rejected => error.of_kind(ErrorKind::Refused),
        _ => error,
    }
}
