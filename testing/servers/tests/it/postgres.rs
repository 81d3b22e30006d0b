//! The servers of PostgreSQL, without a client of its protocol.

use std::time::Duration;

use memory_tool_test_servers::{PgBouncer, PostgresOptions, PostgresServer, SqlProxy};

#[test]
fn a_server_has_roles_and_databases_and_restarts_with_the_same_data() {
    let mut server = PostgresServer::start().unwrap();
    server.sql("CREATE ROLE alice LOGIN").unwrap();
    server.sql("CREATE DATABASE notes OWNER alice").unwrap();
    server.sql_in("alice", "notes", "CREATE TABLE note AS SELECT 'kept' AS text").unwrap();
    server.restart().unwrap();
    assert_eq!(server.sql_in("alice", "notes", "SELECT text FROM note").unwrap(), "kept");
    let error = server.sql_in("alice", "notes", "SELECT 1/0").unwrap_err().to_string();
    assert!(error.contains("division by zero"), "{error}");
    server.stop().unwrap();
    assert!(server.sql("SELECT 1").is_err());
}

#[test]
fn a_durable_server_keeps_commits_when_it_is_killed() {
    let mut server = PostgresOptions::new().durable().start().unwrap();
    server.sql("CREATE TABLE note AS SELECT 'kept' AS text").unwrap();
    server.kill();
    assert!(server.sql("SELECT 1").is_err());
    server.restart().unwrap();
    assert_eq!(server.sql("SELECT text FROM note").unwrap(), "kept");
    let directory = server.socket().to_owned();
    drop(server);
    assert!(!directory.exists());
}

#[test]
fn backends_of_one_database_can_be_killed() {
    let server = PostgresOptions::new().durable().start().unwrap();
    server.sql("CREATE DATABASE other").unwrap();
    std::thread::scope(|threads| {
        let sleeping = threads.spawn(|| server.sql_in("postgres", "other", "SELECT pg_sleep(60)"));
        while server.kill_backends("other").unwrap() == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(sleeping.join().unwrap().is_err());
    });
    while server.sql("SELECT 1").is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_standby_refuses_writes_until_it_is_promoted() {
    let server = PostgresServer::start().unwrap();
    server.sql("CREATE TABLE note AS SELECT 'kept' AS text").unwrap();
    let standby = server.standby().unwrap();
    assert_eq!(standby.sql("SELECT text FROM note").unwrap(), "kept");
    assert!(standby.sql("DELETE FROM note").unwrap_err().to_string().contains("read-only"));
    drop(server);
    standby.promote().unwrap();
    standby.sql("DELETE FROM note").unwrap();
}

#[test]
fn a_pooler_and_a_proxy_lead_to_the_server() {
    let server = PostgresOptions::new().tls().start().unwrap();
    let pooler = PgBouncer::start(&server, &["postgres"], 1).unwrap();
    let psql = |url: &str| {
        let output =
            std::process::Command::new("psql").args(["-X", "-A", "-t", "-c", "SELECT 1", url]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n", "{}", String::from_utf8_lossy(&output.stderr));
    };
    psql(&pooler.url("postgres", "postgres"));
    let proxy = SqlProxy::start(&server, Duration::from_millis(20)).unwrap();
    psql(&(proxy.url("postgres", "postgres") + "?sslmode=disable"));
    // The connection, the statement, and the end, which psql does not wait for.
    while proxy.round_trips() < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(proxy.round_trips(), 3);
    server.sql("CREATE ROLE alice LOGIN PASSWORD 'secret'").unwrap();
    let authority = server.certificates().unwrap().authority();
    let url = format!("postgres://alice:secret@localhost:{}/postgres?sslmode=verify-full", server.port());
    psql(&format!("{url}&sslrootcert={}", authority.display()));
}
