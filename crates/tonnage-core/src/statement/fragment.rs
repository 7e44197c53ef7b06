//! Conditions and queries of the user's, which become a part of larger statements.
//!
//! What surrounds such a text must mean the same whatever the text is: so it is one expression, or one query, whose
//! parentheses, quotes and comments end within it.

use super::{Dialect, Kind, Token, lexer::Lexer};
use crate::error::{Error, Result};

/// Clauses of CQL that may follow a condition, and that would apply to each token range by itself.
const CLAUSES: [&str; 4] = ["GROUP", "ORDER", "PER", "LIMIT"];

/// A condition that can be put between parentheses, on separate lines as a comment may end it. `Config` where it is
/// not one expression.
pub fn condition(text: &str, dialect: Dialect) -> Result<()> {
    let subject = format!("the condition ({text})");
    let tokens = lex(text, dialect, false, &subject)?;
    if tokens.is_empty() {
        return Err(Error::config(format!("{subject} is empty"))
            .hint("leave it out to read all rows, or write it as 'id > 5'"));
    }
    if let Some(token) = tokens.iter().find(|token| token.kind == Kind::Sign(b';')) {
        return Err(Error::config(format!(
            "{subject} is not one expression: there is a semicolon at {}",
            super::place(text, token.range.start)
        ))
        .hint("leave the semicolon out"));
    }
    if dialect.slashes {
        let is_clause = |token: &&Token| {
            let word = &text[token.range.clone()];
            token.kind == Kind::Word
                && token.depth == 0
                && CLAUSES.iter().any(|clause| word.eq_ignore_ascii_case(clause))
        };
        if let Some(token) = tokens.iter().find(is_clause) {
            return Err(Error::config(format!(
                "{subject} is not one condition: {} at {} is a clause of its own, which would apply to each part of \
                 the table by itself",
                &text[token.range.clone()],
                super::place(text, token.range.start)
            ))
            .hint("give a condition only; --limit N bounds the rows"));
        }
    }
    Ok(())
}

/// The query without the semicolon that ends it, so that it can be a part of another one. `Config` where it is not one
/// query.
pub fn query(text: &str, dialect: Dialect) -> Result<&str> {
    let text = text.trim();
    let tokens = lex(text, dialect, true, "the query")?;
    let is_end = |token: &Token| token.kind == Kind::Sign(b';');
    let end = tokens.iter().position(is_end).unwrap_or(tokens.len());
    if end == 0 {
        return Err(Error::config("the query is empty").hint("write it as --query 'SELECT ..'"));
    }
    if tokens[end..].iter().any(|token| !is_end(token)) {
        return Err(Error::config("there is more than one statement").hint("write a single query"));
    }
    Ok(match tokens.get(end) {
        Some(semicolon) => &text[..semicolon.range.start],
        None => text,
    })
}

fn lex(text: &str, dialect: Dialect, runs_comments: bool, subject: &str) -> Result<Vec<Token>> {
    // Parameters of the database's own are its to refuse: `?` is an operator of PostgreSQL.
    let dialect = Dialect {
        own_parameters: &[],
        ..dialect
    };
    let mut lexer = Lexer::new(text, dialect);
    lexer.runs_comments = runs_comments;
    lexer
        .run()
        .map_err(|mistake| mistake.of(format!("{subject} cannot be part of a statement")))?;
    Ok(lexer.tokens)
}
