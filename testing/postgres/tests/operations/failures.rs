//! Servers that stop, refuse or are full: a clear message for the operator, no detail for the model, nothing lost, and
//! a session that works again.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use memory_tool_core::{
    Batch, Engine, ErrorKind, MemoryTool as _, OpenMode, OpenOptions, Precondition, Store as _, StoreError,
    StoreExt as _, StorePath,
};
use memory_tool_history::HistoryStore;
use memory_tool_postgres::PostgresStore;
use memory_tool_test_postgres::{Database, open, open_with, server};
use serde_json::json;

use memory_tool_test_servers::{Fault, PostgresOptions, PostgresServer, Requests, SqlProxy};

use crate::{create, fail, impatient, message_of_opening, run, succeed, succeed_again, view};

const UNREACHABLE: &[ErrorKind] = &[ErrorKind::Busy];

#[tokio::test(flavor = "multi_thread")]
async fn a_session_works_again_after_a_restart() {
    let mut server = PostgresServer::start().unwrap();
    let database = Database::new(&server);
    let store = open_with(&database.url(&server), impatient()).await.unwrap();
    succeed(&store, create("/memories/a", "kept")).await;
    server.stop().unwrap();
    for command in [view("/memories/a"), create("/memories/b", "lost")] {
        let message = fail(&store, command, UNREACHABLE).await;
        assert!(message.contains("connect") || message.contains("No such file"), "{message}");
    }
    let error = open_with(&database.url(&server), impatient()).await.unwrap_err();
    assert!(UNREACHABLE.contains(&error.kind()), "{error:?}");
    server.restart().unwrap();
    assert!(succeed(&store, view("/memories/a")).await.contains("kept"));
    succeed(&store, create("/memories/b", "new")).await;
    // A restart between two commands is not noticed.
    for round in 0..3 {
        server.restart().unwrap();
        succeed(&store, create(&format!("/memories/{round}"), "new")).await;
        server.restart().unwrap();
        succeed(&store, view("/memories/a")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_read_only_until_it_is_promoted() {
    let primary = PostgresServer::start().unwrap();
    let database = Database::new(&primary);
    let store = open(&database.url(&primary)).await.unwrap();
    succeed(&store, create("/memories/a", "kept")).await;
    let replica = primary.standby().unwrap();
    let url = database.url(&replica);
    let error = open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error:?}");
    assert!(message_of_opening(&error).contains("read-only replica"), "{}", message_of_opening(&error));
    let reader = open_with(&url, OpenOptions::new().mode(OpenMode::ReadOnly)).await.unwrap();
    assert!(succeed(&reader, view("/memories/a")).await.contains("kept"));
    drop(primary);
    replica.promote().unwrap();
    let promoted = open(&url).await.unwrap();
    succeed(&promoted, create("/memories/b", "after the failover")).await;
    assert!(succeed(&reader, view("/memories/b")).await.contains("after the failover"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_only_reads_is_refused() {
    let database = Database::new(server());
    let url = database.url(server());
    let store = open(&url).await.unwrap();
    succeed(&store, create("/memories/a", "kept")).await;
    let set =
        |value| server().sql(&format!("ALTER ROLE {} SET default_transaction_read_only = {value}", database.role()));
    set("on").unwrap();
    end_sessions(&database);
    fail(&store, create("/memories/b", "x"), &[ErrorKind::AccessDenied]).await;
    assert!(succeed(&store, view("/memories/a")).await.contains("kept"));
    set("off").unwrap();
    end_sessions(&database);
    succeed_again(&store, create("/memories/b", "x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_timeout_reports_a_busy_server() {
    let database = Database::new(server());
    server().sql(&format!("ALTER ROLE {} SET statement_timeout = '300ms'", database.role())).unwrap();
    let store = open(&database.url(server())).await.unwrap();
    succeed(&store, create("/memories/a", "kept")).await;
    let lock = lock(&database);
    for command in [view("/memories/a"), create("/memories/b", "x")] {
        let message = fail(&store, command, &[ErrorKind::Busy]).await;
        assert!(message.contains("statement timeout"), "{message}");
    }
    end(server(), &database, [lock]);
    succeed_again(&store, create("/memories/b", "x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_held_too_long_reports_a_busy_server() {
    let database = Database::new(server());
    let store = open_with(&database.url(server()), impatient()).await.unwrap();
    succeed(&store, create("/memories/a", "kept")).await;
    let lock = lock(&database);
    for command in [view("/memories/a"), create("/memories/b", "x")] {
        fail(&store, command, &[ErrorKind::Busy]).await;
    }
    end(server(), &database, [lock]);
    // The failed command changes nothing later.
    succeed_again(&store, create("/memories/b", "x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reached_connection_limit_reports_a_busy_server() {
    let database = Database::new(server());
    let url = database.url(server());
    drop(open(&url).await.unwrap());
    end_sessions(&database);
    server().sql(&format!("ALTER ROLE {} CONNECTION LIMIT 1", database.role())).unwrap();
    let other = session_of(&url, "SELECT pg_sleep(30)");
    wait_for(&database, "pg_sleep");
    let error = open_with(&url, impatient()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error:?}");
    assert!(message_of_opening(&error).contains("too many connections"), "{}", message_of_opening(&error));
    end(server(), &database, [other]);
    let store = open_with(&url, impatient()).await.unwrap();
    // Several tasks share the only connection that the role may have.
    let writes = (0..8).map(|number| {
        let store = store.clone();
        tokio::spawn(async move { succeed_again(&store, create(&format!("/memories/{number}"), "x")).await })
    });
    for write in writes.collect::<Vec<_>>() {
        write.await.unwrap();
    }
    assert_eq!(store.list("/memories").await.unwrap().len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_free_connections_reports_that_it_is_busy() {
    let server = PostgresOptions::new().setting("max_connections", "6").start().unwrap();
    let database = Database::new(&server);
    let store = open_with(&database.url(&server), impatient()).await.unwrap();
    succeed(&store, create("/memories/a", "kept")).await;
    server.sql(&end_of_sessions(&database)).unwrap();
    // Three more are reserved for superusers.
    let other = || session_of(&database.url(&server), "SELECT pg_sleep(30)");
    let mut others = [other(), other(), other()];
    while server.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'").unwrap() != "3" {
        // The session that counts also takes a connection, so another one may be refused.
        for ended in others.iter_mut().filter_map(|session| session.try_wait().unwrap().map(|_| session)) {
            *ended = other();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let message = fail(&store, view("/memories/a"), &[ErrorKind::Busy]).await;
    assert!(message.contains("connection slots"), "{message}");
    end(&server, &database, others);
    succeed_again(&store, view("/memories/a")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_server_ends_changes_all_or_nothing() {
    let database = Database::new(server());
    let set = format!("ALTER ROLE {} SET idle_in_transaction_session_timeout = '100ms'", database.role());
    server().sql(&set).unwrap();
    let proxy = SqlProxy::start(server(), Duration::ZERO).unwrap();
    let store = open(&proxy.url(database.role(), database.name())).await.unwrap();
    succeed(&store, create("/memories/a", "kept")).await;
    for request in 1..=4 {
        let path = format!("/memories/{request}");
        proxy.fault_at(Requests::all(), request, Fault::DelayRequest(Duration::from_millis(300)));
        let reply = run(&store, create(&path, "x")).await;
        proxy.heal();
        let exists = store.list("/memories").await.unwrap().iter().any(|file| file.path.to_string() == path);
        match reply {
            Ok(_) => assert!(exists, "request {request}"),
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {}
            Err(error) => assert!(!exists, "request {request}: {error:?}"),
        }
    }
    succeed(&store, create("/memories/last", "x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_found_out() {
    let database = Database::new(server());
    let proxy = SqlProxy::start(server(), Duration::ZERO).unwrap();
    let store = open(&proxy.url(database.role(), database.name())).await.unwrap();
    let faults = [Fault::CloseUnanswered, Fault::ResetUnanswered, Fault::CutAnswer, Fault::CutRequest];
    for (number, fault) in faults.into_iter().enumerate() {
        let path = format!("/memories/{number}");
        proxy.fault_at(Requests::all().with("apply_batch"), 1, fault);
        let reply = run(&store, create(&path, "x")).await;
        proxy.heal();
        let exists = store.list("/memories").await.unwrap().iter().any(|file| file.path.to_string() == path);
        reply.unwrap_or_else(|error| panic!("{fault:?}: {error:?}"));
        assert!(exists, "{fault:?}");
    }
    assert!(proxy.faults() == 4, "{} faults", proxy.faults());
}

/// A commit is lost before or after the server gets it. The first packet of each pipeline is matched.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_or_a_rename_with_a_lost_commit_is_made_once() {
    const ROUNDS: usize = 20;
    let database = Database::new(server());
    let proxy = SqlProxy::start(server(), Duration::ZERO).unwrap();
    let store = open(&proxy.url(database.role(), database.name())).await.unwrap();
    let file = |number: usize| format!("/memories/{number}");
    succeed(&store, create(&file(0), "0")).await;
    let faults = [Fault::CutRequest, Fault::CloseUnanswered, Fault::ResetUnanswered, Fault::CutAnswer];
    for (number, fault) in faults.into_iter().cycle().take(ROUNDS).enumerate() {
        let (old, new) = (number.to_string(), (number + 1).to_string());
        let edit = json!({"command": "str_replace", "path": file(number), "old_str": old, "new_str": new});
        let rename = json!({"command": "rename", "old_path": file(number), "new_path": file(number + 1)});
        for command in [edit, rename] {
            proxy.fault_at(Requests::all().with("apply_batch"), 1, fault);
            succeed(&store, command).await;
        }
    }
    assert_eq!(proxy.faults(), 2 * ROUNDS);
    let view = succeed(&store, view(&file(ROUNDS))).await;
    assert!(view.ends_with(&format!("\t{ROUNDS}")), "{view}");
}

/// Some programs drive their connections only during an operation.
#[test]
fn a_refused_change_has_released_its_lock() {
    let database = Database::new(server());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(open(&database.url(server()))).unwrap();
    runtime.block_on(store.write("/memories/a", "kept")).unwrap();
    let batch = Batch::new().require("/memories/a".parse::<StorePath>().unwrap(), Precondition::Absent);
    let refused = runtime.block_on(store.apply(batch.write("/memories/b".parse::<StorePath>().unwrap(), "x")));
    assert!(
        matches!(refused, Err(StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. })),
        "{refused:?}"
    );
    let locks = "SELECT count(*) FROM pg_locks JOIN pg_database ON oid = database \
         WHERE locktype = 'advisory' AND datname = ";
    assert_eq!(server().sql(&format!("{locks}'{}'", database.name())).unwrap(), "0");
}

/// The network can deliver a request after its client has given up.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_arrives_after_a_later_one_has_no_effect() {
    let database = Database::new(server());
    let proxy = SqlProxy::start(server(), Duration::ZERO).unwrap();
    let store = open(&proxy.url(database.role(), database.name())).await.unwrap();
    store.write("/memories/a", "kept").await.unwrap();
    proxy.fault_at(Requests::all().with("apply_batch"), 1, Fault::DelayRequest(Duration::from_secs(1)));
    tokio::time::timeout(Duration::from_millis(200), store.write("/memories/late", "x")).await.unwrap_err();
    store.write("/memories/b", "kept").await.unwrap();
    while proxy.late() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let paths: Vec<_> = store.list("/memories").await.unwrap().iter().map(|file| file.path.to_string()).collect();
    assert_eq!(paths, ["/memories/a", "/memories/b"]);
}

/// The sessions of several programs: stores with the same settings share their connections.
async fn programs(database: &Database, count: usize) -> Vec<HistoryStore<PostgresStore>> {
    let open = |number| async move {
        let url = format!("{}?application_name={number}", database.url(server()));
        HistoryStore::new(open(&url).await.unwrap())
    };
    futures::future::join_all((0..count).map(open)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outcome_of_lost_connections_of_several_writers_with_a_history_is_found_out() {
    const LEAST_ENDED: usize = 10;
    let database = Database::new(server());
    let ended = Arc::new(AtomicUsize::new(0));
    let writers = programs(&database, 4).await.into_iter().enumerate().map(|(number, store)| {
        let ended = Arc::clone(&ended);
        tokio::spawn(async move {
            let tool = Engine::new(store);
            let path = format!("/memories/{number}");
            tool.call(create(&path, "")).await.unwrap();
            let mut edits = 0;
            while ended.load(Ordering::Relaxed) < LEAST_ENDED {
                edits += 1;
                let edit = json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "line"});
                tool.call(edit).await.unwrap_or_else(|error| panic!("{}", crate::operators_message(&error)));
            }
            edits
        })
    });
    let writers: Vec<_> = writers.collect();
    let end = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{}' AND state = 'active'",
        database.name()
    );
    while !writers.iter().all(|writer| writer.is_finished()) {
        ended.fetch_add(server().sql(&end).unwrap().parse::<usize>().unwrap(), Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let store = programs(&database, 1).await.remove(0);
    for (number, writer) in writers.into_iter().enumerate() {
        let file = store.read(&format!("/memories/{number}")).await.unwrap().into_file().unwrap();
        let lines = file.content.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, writer.await.unwrap(), "no edit is lost or doubled");
    }
    assert_eq!(memory_tool_test_fixtures::agreement::disagreement(&store).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_ended_while_it_waited_for_a_lock_changed_nothing() {
    let database = Database::new(server());
    let store = open_with(&database.url(server()), impatient()).await.unwrap();
    succeed(&store, create("/memories/a", "kept")).await;
    let lock = lock(&database);
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { run(&store, create("/memories/b", "x")).await }
    });
    let waits = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE datname = '{}' AND wait_event_type = 'Lock' AND query LIKE '%apply_batch%'",
        database.name()
    );
    while server().sql(&waits).unwrap() == "0" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{}", crate::operators_message(&error));
    end(server(), &database, [lock]);
    succeed_again(&store, create("/memories/b", "x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_is_waited_for() {
    let mut server = PostgresServer::start().unwrap();
    let database = Database::new(&server);
    let store = open(&database.url(&server)).await.unwrap();
    succeed(&store, create("/memories/a", "kept")).await;
    server.stop().unwrap();
    let url = database.url(&server);
    let waiting = tokio::spawn(async move {
        succeed(&store, create("/memories/b", "x")).await;
        succeed(&open(&url).await.unwrap(), view("/memories/b")).await
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    server.restart().unwrap();
    assert!(waiting.await.unwrap().contains('x'));
    server.stop().unwrap();
    let error = open_with(&database.url(&server), impatient()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_encodings_are_refused() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let options = format!("TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'");
        let database = Database::with_options(server(), &options);
        let error = open(&database.url(server())).await.unwrap_err();
        let message = message_of_opening(&error);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{message}");
        assert!(message.contains(encoding) && message.contains("UTF8"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_reported_and_nothing_is_lost() {
    let server = PostgresOptions::new().full_disk().start().unwrap();
    let database = Database::new(&server);
    let store = open(&database.url(&server)).await.unwrap();
    let mut kept = 0;
    let message = loop {
        let text = noise(kept);
        match run(&store, create(&format!("/memories/{kept}"), &text)).await {
            Ok(_) => kept += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{}", crate::operators_message(&error));
                let message = crate::operators_message(&error);
                crate::expect_no_secrets(&memory_tool_test_fixtures::linearizability::line_of(&Err(error)));
                break message;
            }
        }
        assert!(kept < 200, "the disk does not get full");
    };
    assert!(message.contains("could not extend file"), "{message}");
    assert_eq!(store.list("/memories").await.unwrap().len(), kept);
    succeed(&store, create("/memories/small", "x")).await;
    succeed(&store, view("/memories/0")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_database_or_role_is_named_to_the_operator_only() {
    let database = Database::new(server());
    let error = open(&server().url(database.role(), "missing_database")).await.unwrap_err();
    assert!(message_of_opening(&error).contains("missing_database"), "{}", message_of_opening(&error));
    let error = open(&server().url("missing_role", database.name())).await.unwrap_err();
    assert!(message_of_opening(&error).contains("missing_role"), "{}", message_of_opening(&error));
}

/// A text of 500 KB that cannot be compressed.
fn noise(seed: usize) -> String {
    let mut state = seed as u64 + 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b' ' + (state >> 58) as u8)
    };
    (0..500_000).map(next).collect()
}

/// Locks all tables of the database.
const LOCK_ALL: &str = "DO $$ DECLARE name text; BEGIN FOR name IN SELECT format('%I.%I', schemaname, tablename) \
    FROM pg_tables WHERE schemaname !~ '^(pg_|information_schema)' LOOP \
    EXECUTE 'LOCK TABLE ' || name || ' IN ACCESS EXCLUSIVE MODE'; END LOOP; END $$;";

/// Locks the tables until [`end`], as a superuser without the settings of the role.
fn lock(database: &Database) -> Child {
    let locked = session_of(&server().url("postgres", database.name()), &format!("{LOCK_ALL} SELECT pg_sleep(30)"));
    wait_for(database, "pg_sleep");
    locked
}

/// Starts `psql`. All statements are one transaction.
fn session_of(url: &str, statements: &str) -> Child {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "--single-transaction", "-d", url, "-c", statements]);
    psql.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Ends the sleeping sessions of the database with their transactions.
fn end(server: &PostgresServer, database: &Database, sessions: impl IntoIterator<Item = Child>) {
    server.sql(&format!("{} AND query LIKE '%pg_sleep%'", end_of_sessions(database))).unwrap();
    for mut session in sessions {
        session.wait().unwrap();
    }
}

/// Waits until a session of the database runs a statement.
fn wait_for(database: &Database, statement: &str) {
    let count = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND query LIKE '%{statement}%' \
             AND wait_event = 'PgSleep'",
        database.name(),
    );
    while server().sql(&count).unwrap() == "0" {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn end_of_sessions(database: &Database) -> String {
    let name = database.name();
    format!("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
}

fn end_sessions(database: &Database) {
    server().sql(&end_of_sessions(database)).unwrap();
}
