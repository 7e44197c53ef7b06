//! Statements as data.

use super::*;

const POSTGRES: Dialect = Dialect {
    dollars: true,
    brackets: false,
    backticks: false,
    hashes: false,
    backslashes: false,
    slashes: false,
    keeps_case: false,
    own_parameters: &['$'],
};

const SQLITE: Dialect = Dialect {
    dollars: false,
    brackets: true,
    backticks: true,
    own_parameters: &['?', '@', '$'],
    ..POSTGRES
};

const MYSQL: Dialect = Dialect {
    dollars: false,
    backticks: true,
    hashes: true,
    backslashes: true,
    keeps_case: true,
    own_parameters: &['?'],
    ..POSTGRES
};

fn numbered(index: usize) -> String {
    format!("${}", index + 1)
}

fn parsed(text: &str, dialect: Dialect) -> Statement {
    Statement::parse(text, dialect).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn placeholders_are_found_where_they_are() {
    let cases: &[(Dialect, &str, &str)] = &[
        (
            MYSQL,
            r#"update t set v = 5--:a, w = "a\":b" -- :c"#,
            r#"update t set v = 5--$1, w = "a\":b""#,
        ),
        (
            POSTGRES,
            "update t set v = :v where id = :id",
            "update t set v = $1 where id = $2",
        ),
        (POSTGRES, "update t set v=:a+:b,w=:a", "update t set v=$1+$2,w=$1"),
        (
            POSTGRES,
            "update t set v = ':x', w = 'it''s :y' || :z",
            "update t set v = ':x', w = 'it''s :y' || $1",
        ),
        (
            POSTGRES,
            r"update t set v = E'\':x' || :z",
            r"update t set v = E'\':x' || $1",
        ),
        (
            POSTGRES,
            r"update t set v = '\' || :z",
            r"update t set v = '\' || $1",
        ),
        (
            POSTGRES,
            "update \":t\" set \"a\"\":b\" = :z",
            "update \":t\" set \"a\"\":b\" = $1",
        ),
        (
            POSTGRES,
            "update t set v = $$:x$$ || $a$ $$ :y $a$ || :z",
            "update t set v = $$:x$$ || $a$ $$ :y $a$ || $1",
        ),
        (
            POSTGRES,
            "update t -- :x '\nset v = :z",
            "update t -- :x '\nset v = $1",
        ),
        (
            POSTGRES,
            "update t /* :x /* :y */ ' */ set v = :z",
            "update t /* :x /* :y */ ' */ set v = $1",
        ),
        (
            POSTGRES,
            "update t set v = :z::int, w = '1'::text",
            "update t set v = $1::int, w = '1'::text",
        ),
        (
            POSTGRES,
            "update t set v = a[1:2] where b = :z",
            "update t set v = a[1:2] where b = $1",
        ),
        (
            POSTGRES,
            "update t set v = a[i:j] where b = a[:z]",
            "update t set v = a[i:j] where b = a[$1]",
        ),
        (
            POSTGRES,
            "update t set v = (a[f(:x):j])[1] where b=:z",
            "update t set v = (a[f($1):j])[1] where b=$2",
        ),
        (
            POSTGRES,
            "update t set v = a$1 where größe = :größe",
            "update t set v = a$1 where größe = $1",
        ),
        (
            POSTGRES,
            "update t set j = j || '{\"a\":1}' where j ? 'a' and i = :i",
            "update t set j = j || '{\"a\":1}' where j ? 'a' and i = $1",
        ),
        (
            POSTGRES,
            "  update t set v = :v ; -- done\n;",
            "update t set v = $1",
        ),
        (
            SQLITE,
            "update [a:b] set `c:d` = :z /* :x /* */",
            "update [a:b] set `c:d` = $1",
        ),
        (
            MYSQL,
            "update `a:b` set v = '\\':x' # :y\n where i = :z",
            "update `a:b` set v = '\\':x' # :y\n where i = $1",
        ),
    ];
    for (dialect, text, expected) in cases {
        assert_eq!(parsed(text, *dialect).render(numbered), *expected, "{text}");
    }
    assert_eq!(
        parsed("update t set v = :a + :b, w = :a", POSTGRES).parameters(),
        ["a", "b"]
    );
}

#[test]
fn what_is_no_statement_for_rows_is_refused_with_the_reason() {
    let cases: &[(Dialect, &str, &str)] = &[
        (POSTGRES, "", "it is empty"),
        (POSTGRES, "-- nothing", "it is empty"),
        (
            POSTGRES,
            ":a",
            "it does not begin with INSERT, UPDATE, DELETE or MERGE",
        ),
        (
            POSTGRES,
            "select :a",
            "SELECT reads, and what it reads would go nowhere",
        ),
        (
            POSTGRES,
            "with a as (delete from t) select :a",
            "SELECT reads, and what it reads would go nowhere",
        ),
        (
            POSTGRES,
            "begin",
            "BEGIN is about transactions, which are tonnage's own",
        ),
        (POSTGRES, "drop table t", "DROP is no statement for every row"),
        (
            POSTGRES,
            "call f(:a)",
            "CALL is neither INSERT, UPDATE, DELETE nor MERGE",
        ),
        (
            SQLITE,
            "replace into t values (:a)",
            "REPLACE deletes what is in its way, whatever refers to it",
        ),
        (
            POSTGRES,
            "delete from t where a = :a; delete from u",
            "the text holds several statements",
        ),
        (
            POSTGRES,
            "delete from t",
            "it has no :parameter, so every row would do the same",
        ),
        (
            POSTGRES,
            "delete from t where a = ':a'",
            "it has no :parameter, so every row would do the same",
        ),
        (
            POSTGRES,
            "delete from t where a = :a returning b",
            "RETURNING at column 28: the rows that it returns would go nowhere",
        ),
        (
            POSTGRES,
            "update t set a = ':a",
            "the string at column 18 is not closed",
        ),
        (
            POSTGRES,
            "update t\nset a = $x$ :a",
            "the string at line 2, column 9 is not closed",
        ),
        (
            POSTGRES,
            "update t set \"a = :a",
            "the quoted name at column 14 is not closed",
        ),
        (
            POSTGRES,
            "update t /* set a = :a",
            "the comment at column 10 is not closed",
        ),
        (
            POSTGRES,
            "update t set a = $1, b = :b",
            "'$' at column 18 is a parameter that nothing gives a value",
        ),
        (
            SQLITE,
            "update t set a = ?, b = :b",
            "'?' at column 18 is a parameter that nothing gives a value",
        ),
        (POSTGRES, "update set a = :a", ""),
        (
            POSTGRES,
            "insert into (a) values (:a)",
            "it names no table where one belongs",
        ),
    ];
    for (dialect, text, why) in cases {
        match Statement::parse(text, *dialect) {
            Err(error) => assert_eq!(
                error.to_string(),
                format!("the statement cannot be run: {why}"),
                "{text}"
            ),
            // The database says what is wrong with it.
            Ok(_) => assert_eq!(*why, "", "{text}"),
        }
    }
}

#[test]
fn verb_table_and_effect_are_read() {
    let cases = [
        ("insert into t (a) values (:a)", Verb::Insert, "t", (true, false)),
        (
            "INSERT INTO S.\"T\" AS x VALUES (:a);",
            Verb::Insert,
            "s.T",
            (true, false),
        ),
        (
            "insert into t (a) values (lower(:a))",
            Verb::Insert,
            "t",
            (true, false),
        ),
        (
            "insert into t (a) values (:a), (:a)",
            Verb::Insert,
            "t",
            (false, false),
        ),
        (
            "insert into t (a) values ((select max(a) from t where b = :b))",
            Verb::Insert,
            "t",
            (false, false),
        ),
        ("insert into t (a) select :a", Verb::Insert, "t", (false, false)),
        (
            "insert into t (a) values (:a) on conflict do nothing",
            Verb::Insert,
            "t",
            (false, true),
        ),
        (
            "insert or ignore into t (a) values (:a)",
            Verb::Insert,
            "t",
            (false, true),
        ),
        (
            "with a as (select 1), insert as (select 2) update only t set a = :a",
            Verb::Update,
            "t",
            (false, false),
        ),
        ("update or fail t set a = :a", Verb::Update, "t", (false, false)),
        (
            "delete from only s.t where a = :a",
            Verb::Delete,
            "s.t",
            (false, false),
        ),
        (
            "with u as (insert into x values (1) returning *) delete from t where a = :a",
            Verb::Delete,
            "t",
            (false, false),
        ),
        (
            "merge into t using (select :a as a) s on t.a = s.a when matched then delete",
            Verb::Merge,
            "t",
            (false, false),
        ),
    ];
    for (text, verb, table, (alone, conflict)) in cases {
        let statement = parsed(text, POSTGRES);
        assert_eq!(
            (statement.verb(), statement.table().to_string().as_str()),
            (verb, table),
            "{text}"
        );
        assert_eq!(
            (statement.stands_alone(), statement.may_conflict()),
            (alone, conflict),
            "{text}"
        );
    }
}

#[test]
fn columns_that_take_a_parameter_as_it_is_are_known() {
    let named = |name: &str, index| (Taker::Named(name.to_owned()), index);
    let cases = [
        (
            "insert into t (a, \"B\", c) values (:x, :y, lower(:z))",
            vec![named("a", 0), named("B", 1)],
        ),
        (
            "insert into t values (:x, 1, :y)",
            vec![(Taker::At(0), 0), (Taker::At(2), 1)],
        ),
        (
            "insert into t (a, b) values (:x, :y) on conflict (a) do update set b = :y, c = :x || 'q'",
            vec![named("a", 0), named("b", 1), named("b", 1)],
        ),
        (
            "insert into t (a, b) values (:x, 1), (:y, :z)",
            vec![named("a", 0)],
        ),
        ("insert into t (a) select :x", vec![]),
        (
            "update t set a = :x, b = :y + 1, c = f(:x, d = :y), \"D\" = :z where e = :w",
            vec![named("a", 0), named("D", 2)],
        ),
        ("update t set (a, b) = (:x, :y), c = :x", vec![named("c", 0)]),
        ("update t set a = :x::int from u where c = :y", vec![]),
        ("delete from t where a = :x", vec![]),
    ];
    for (text, expected) in cases {
        assert_eq!(parsed(text, POSTGRES).assigned(), expected, "{text}");
    }
}

#[test]
fn columns_that_are_compared_with_a_parameter_are_known() {
    let cases = [
        (
            "update t set a = :x where b = :y and \"C\" = :z or d = :x",
            vec![("b", 1), ("C", 2), ("d", 0)],
        ),
        ("delete from t where a = :x + 1 and b = :y", vec![("b", 1)]),
        ("delete from t where b = :y || 'x'", vec![]),
        ("delete from t where b = (select :y)", vec![]),
        ("update t set a = 1 from u where b = :y", vec![]),
    ];
    for (text, expected) in cases {
        let statement = parsed(text, SQLITE);
        let compared = statement.compared().iter();
        let compared: Vec<_> = compared.map(|(name, index)| (name.as_str(), *index)).collect();
        assert_eq!(compared, expected, "{text}");
    }
}

#[test]
fn only_a_row_of_bare_parameters_may_stand_among_others() {
    let bare = |text: &str| {
        let statement = parsed(text, POSTGRES);
        let parts = statement.bare_insert();
        parts.map(|(before, row, after)| (before.to_owned(), row.to_vec(), after.to_owned()))
    };
    let cases = [
        (
            "insert into t (a, b) values (:x, :y);",
            Some(("insert into t (a, b) ", vec![0, 1], "")),
        ),
        (
            "insert into t values (:x, :x)",
            Some(("insert into t ", vec![0, 0], "")),
        ),
        (
            "insert into t (a) overriding system value values (:x) on conflict (a) do nothing",
            Some((
                "insert into t (a) overriding system value ",
                vec![0],
                " on conflict (a) do nothing",
            )),
        ),
        (
            "insert into t (a) values (:x) on conflict (a) do update set a = 1",
            None,
        ),
        ("insert into t (a) values (:x + 1)", None),
        ("insert into t (a, b) values (:x, default)", None),
        ("insert into t (a) values (:x), (:y)", None),
        ("with q as (select 1) insert into t (a) values (:x)", None),
        ("update t set a = :x", None),
    ];
    for (text, expected) in cases {
        let expected = expected.map(|(before, row, after)| (before.to_owned(), row, after.to_owned()));
        assert_eq!(bare(text), expected, "{text}");
    }
}

#[test]
fn a_place_in_what_was_sent_is_a_place_in_what_was_given() {
    let text = "update t\nset a = :long_name + b,\n c = :long_name";
    let statement = parsed(text, POSTGRES);
    let sent = statement.render(numbered);
    let at = |wanted: &str| sent.find(wanted).map(|at| statement.place(at, numbered));
    assert_eq!(at("t\n").as_deref(), Some("line 1, column 8"));
    assert_eq!(at("$1 +").as_deref(), Some("line 2, column 9"));
    assert_eq!(at("b,").as_deref(), Some("line 2, column 22"));
    assert_eq!(at("c =").as_deref(), Some("line 3, column 2"));
    assert_eq!(
        parsed("update ä set b = :b", POSTGRES).place(9, numbered),
        "column 9"
    );
}

#[test]
fn names_that_keep_their_case_and_comments_that_are_run() {
    let statement = parsed("update Stock set Quantity = :q where Id = :id", MYSQL);
    assert_eq!(statement.table().name, "Stock");
    assert_eq!(statement.assigned(), [(Taker::Named("Quantity".to_owned()), 0)]);
    assert_eq!(statement.compared(), [("Id".to_owned(), 1)]);
    let statement = parsed(
        "insert into t (id, v) values (:id, :v) on duplicate key update v = :w, x = x + :v",
        MYSQL,
    );
    let named = |name: &str| Taker::Named(name.to_owned());
    assert_eq!(
        statement.assigned(),
        [(named("id"), 0), (named("v"), 1), (named("v"), 2)]
    );
    assert!(statement.may_conflict() && !statement.stands_alone());
    assert_eq!(statement.places().collect::<Vec<_>>(), [0, 1, 2, 1]);
    for comment in ["/*! or 1 */", "/*!50000 or 1 */", "/*M!100100 or 1 */"] {
        let refused =
            Statement::parse(&format!("delete from t where id = :id {comment}"), MYSQL).unwrap_err();
        assert!(refused.to_string().contains("column 30"), "{refused}");
    }
    parsed("delete /*+ NO_INDEX(t) */ from t where id = :id /* ! */", MYSQL);
}

const CQL: Dialect = Dialect {
    dollars: false,
    slashes: true,
    own_parameters: &[],
    ..POSTGRES
};

#[test]
fn conditions_are_one_expression() {
    let good: &[(Dialect, &str)] = &[
        (POSTGRES, "id = 1"),
        (POSTGRES, "(id = 1) or (id = 2)"),
        (POSTGRES, "id = 1 -- or (id"),
        (
            POSTGRES,
            "name = 'a)' and \"odd)\" = 1 and n = $x$)'$x$ and e = E'\\')'",
        ),
        (POSTGRES, "a[1:(2)] = 1 and j ? 'k' and j @> $1"),
        (POSTGRES, "id /* ) /* ( */ */ = 1"),
        (MYSQL, "name = 'it\\'s)' and `od)d` = \")\" # (((\n and id = 1"),
        (MYSQL, "name = '\\') or ('"),
        (MYSQL, "id = 2--(1)"),
        (SQLITE, "[od)d] = 1 and 'a\\' <> ')'"),
        (CQL, "n = $$it's ($$ // (\n and k = 1"),
        (CQL, "k in (1, 2) and \"limit\" = 1"),
    ];
    for (dialect, text) in good {
        if let Err(error) = condition(text, *dialect) {
            panic!("{text}: {error}");
        }
    }
    let bad: &[(Dialect, &str, &str)] = &[
        (POSTGRES, "id=1) or (id=2", "the ')' at column 5 closes nothing"),
        (POSTGRES, "(id=1", "the '(' at column 1 is not closed"),
        (POSTGRES, "id in (1]", "the ']' at column 9 closes nothing"),
        (
            POSTGRES,
            "id=1 --\r) or (id=2",
            "the ')' at column 9 closes nothing",
        ),
        (POSTGRES, "name = 'a", "the string at column 8 is not closed"),
        (
            POSTGRES,
            "\"name = 1",
            "the quoted name at column 1 is not closed",
        ),
        (POSTGRES, "id=1 /* /* */", "the comment at column 6 is not closed"),
        (
            POSTGRES,
            "id=1; delete from t",
            "there is a semicolon at column 5",
        ),
        (
            POSTGRES,
            "n = $a$ ) or ( $b$",
            "the string at column 5 is not closed",
        ),
        (POSTGRES, " -- id = 1", "is empty"),
        (MYSQL, "id=1 /*! ) or ( */", "is one that the server runs"),
        (MYSQL, "id=1 # (\n)", "the ')' at line 2, column 1 closes nothing"),
        (SQLITE, "id=1) or (id=2", "the ')' at column 5 closes nothing"),
        (
            SQLITE,
            "id=1 /* and more",
            "the comment at column 6 is not closed",
        ),
        (SQLITE, "id=1)\0", "the ')' at column 5 closes nothing"),
        (SQLITE, "id=1\0", "the zero byte at column 5 ends no statement"),
        (CQL, "k = 1 limit 5", "limit at column 7 is a clause of its own"),
    ];
    for (dialect, text, why) in bad {
        let error = condition(text, *dialect).expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn queries_stand_within_others() {
    let good: &[(Dialect, &str, &str)] = &[
        (POSTGRES, " select ';' ; ; ", "select ';' "),
        (POSTGRES, "select 1; -- done", "select 1"),
        (POSTGRES, "select 1 -- done", "select 1 -- done"),
        (
            MYSQL,
            "select /*!40000 sql_no_cache */ 1;",
            "select /*!40000 sql_no_cache */ 1",
        ),
        (SQLITE, "select ?", "select ?"),
    ];
    for (dialect, text, bare) in good {
        assert_eq!(query(text, *dialect).unwrap(), *bare);
    }
    let bad: &[(Dialect, &str, &str)] = &[
        (POSTGRES, " ; ", "the query is empty"),
        (POSTGRES, "select 1; select 2", "there is more than one statement"),
        (
            SQLITE,
            "select 1) union (select 2",
            "the ')' at column 9 closes nothing",
        ),
        (SQLITE, "select 1 /*", "the comment at column 10 is not closed"),
    ];
    for (dialect, text, why) in bad {
        let error = query(text, *dialect).expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn texts_of_the_same_tokens_are_the_same() {
    let normal = |text: &str, dialect| parsed(text, dialect).normal().to_owned();
    let one = "update Stock set q = :q where id = 1";
    let respaced = "UPDATE  Stock\n SET q=:q -- more\n WHERE id=1 ;";
    for dialect in [POSTGRES, MYSQL] {
        assert_eq!(normal(one, dialect), normal(respaced, dialect));
        for other in [
            "update stock2 set q = :q where id = 1",
            "update Stock set q = :q where id = 1 and 'a' = 'A'",
            "update Stock set q = :p where id = 1",
        ] {
            assert_ne!(normal(one, dialect), normal(other, dialect), "{other}");
        }
        assert_ne!(
            normal("update t set q = :q where a = 'x y'", dialect),
            normal("update t set q = :q where a = 'x  y'", dialect),
        );
    }
    let lower = "update stock set q = :q where id = 1";
    assert_eq!(normal(one, POSTGRES), normal(lower, POSTGRES));
    assert_ne!(normal(one, MYSQL), normal(lower, MYSQL), "names keep their case");
}
