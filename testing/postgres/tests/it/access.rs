//! Rights of roles, row-level security, passwords and TLS.

use memory_tool_core::{ErrorKind, OpenOptions, StoreError};
use memory_tool_test_servers::PostgresOptions;
use serde_json::json;

use crate::support::{OWNER, builder, create_owner, open, reply, server, text, write};

/// The rights that a program needs, as in the documentation of the crate.
const GRANTS: &str = "GRANT USAGE ON SCHEMA memory_tool TO app; \
     GRANT SELECT ON memory_tool.schema_version TO app; \
     GRANT SELECT, INSERT, UPDATE, DELETE ON memory_tool.file TO app";

const DENIED: &str = "Error: The memory storage refused access. Nothing was changed.";

#[tokio::test]
async fn a_program_needs_no_right_to_create_tables() {
    let server = server();
    server.sql("CREATE ROLE app LOGIN").unwrap();
    let app = server.url("app", OWNER);
    let error = builder(&app).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied);
    assert!(error.to_string().contains("As their owner, run memory-tool migrate"), "{error}");

    let migrate = || builder(&server.url(OWNER, OWNER)).migrate();
    assert_eq!((migrate().await.unwrap(), migrate().await.unwrap()), (1, 1));
    assert_eq!(builder(&app).open().await.unwrap_err().kind(), ErrorKind::AccessDenied);
    server.sql_in(OWNER, OWNER, GRANTS).unwrap();
    let store = open(&app).await;
    let file = "/memories/a.txt";
    for (input, expected) in [
        (json!({"command": "create", "path": file, "file_text": "one"}), "File created"),
        (json!({"command": "str_replace", "path": file, "old_str": "one", "new_str": "two"}), "The memory file"),
        (json!({"command": "rename", "old_path": file, "new_path": "/memories/b/c"}), "Successfully renamed"),
        (json!({"command": "delete", "path": "/memories/b"}), "Successfully deleted"),
    ] {
        let reply = reply(&store, input).await;
        assert!(reply.starts_with(expected), "{reply}");
    }
    server.sql_in(OWNER, OWNER, "REVOKE INSERT ON memory_tool.file FROM app").unwrap();
    let refused = reply(&store, json!({"command": "create", "path": file, "file_text": "one"})).await;
    assert_eq!(refused, DENIED);
    assert_eq!(text(&store, file).await, None);
}

#[tokio::test]
async fn a_policy_on_rows_confines_a_role_to_its_memory() {
    let server = server();
    let store = open(&server.url(OWNER, OWNER)).await;
    for name in ["alice", "bob"] {
        write(&store.memory(name.parse().unwrap()), "/memories/a", name).await.unwrap();
    }
    server.sql("CREATE ROLE app; CREATE ROLE alice LOGIN IN ROLE app").unwrap();
    server.sql_in(OWNER, OWNER, GRANTS).unwrap();
    let policy = "ALTER TABLE memory_tool.file ENABLE ROW LEVEL SECURITY; \
         CREATE POLICY own_memory ON memory_tool.file TO app USING (memory = current_user)";
    server.sql_in(OWNER, OWNER, policy).unwrap();

    let own = open(&format!("{}?memory=alice", server.url("alice", OWNER))).await;
    assert_eq!(text(&own, "/memories/a").await.as_deref(), Some("alice"));
    let edit = json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "b"});
    assert!(!reply(&own, edit).await.starts_with("Error"));
    assert_eq!(own.memory_names().await.unwrap(), ["alice".parse().unwrap()]);
    let other = own.memory("bob".parse().unwrap());
    assert_eq!(text(&other, "/memories/a").await, None);
    for file in ["/memories/a", "/memories/b"] {
        let refused = write(&other, file, "alice was here").await;
        assert!(matches!(refused, Err(StoreError::Failure { kind: ErrorKind::AccessDenied, .. })), "{refused:?}");
    }
    let bob = store.memory("bob".parse().unwrap());
    assert_eq!(text(&bob, "/memories/a").await.as_deref(), Some("bob"));
    assert_eq!(text(&bob, "/memories/b").await, None);
}

#[tokio::test]
async fn passwords_come_from_the_environment_and_are_not_shown() {
    let server = server();
    let url = server.tcp_url(OWNER, OWNER);
    let error = builder(&url).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other, "{error}"); // no password was given
    let mut config: tokio_postgres::Config = url.parse().unwrap();
    let pool = |config: &tokio_postgres::Config| {
        let manager = deadpool_postgres::Manager::new(config.clone(), tokio_postgres::NoTls);
        deadpool_postgres::Pool::builder(manager).max_size(2).build().unwrap()
    };
    config.password("WrongSecret");
    let error = memory_tool_postgres::PostgresStore::builder(pool(&config)).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied);
    assert!(!format!("{error} {error:?}").contains("WrongSecret"));
    config.password("secret");
    let store = memory_tool_postgres::PostgresStore::builder(pool(&config)).open().await.unwrap();
    write(&store, "/memories/a", "a").await.unwrap();
    assert!(!format!("{store:?}").contains("secret"));
    let program = |password: Option<&str>, timeout: &str| {
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        program.args(["--ignored", "--exact", "access::open_the_url_of_the_environment", "--nocapture"]);
        program.env("MEMORY_TOOL_TEST_URL", &url).env("PGPASSFILE", timeout);
        if let Some(password) = password {
            program.env("PGPASSWORD", password);
        }
        program.output().unwrap().status.success()
    };
    assert!(program(Some("secret"), "/nowhere"));
    assert!(!program(Some("WrongSecret"), "/nowhere"));
    let file = server.socket().join("pgpass");
    std::fs::write(&file, format!("127.0.0.1:*:{OWNER}:{OWNER}:secret\n")).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert!(program(None, file.to_str().unwrap()));
}

/// In a process of the test above.
#[tokio::test]
#[ignore = "another test starts it"]
async fn open_the_url_of_the_environment() {
    let store = open(&std::env::var("MEMORY_TOOL_TEST_URL").unwrap()).await;
    assert_eq!(text(&store, "/memories/a").await.as_deref(), Some("a"));
}

#[tokio::test]
async fn certificates_are_verified() {
    let server = PostgresOptions::new().tls().start().unwrap();
    create_owner(&server);
    std::fs::write(
        server.socket().join("data/pg_hba.conf"),
        "local all all trust\nhostssl all all 127.0.0.1/32 trust\n",
    )
    .unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    let certificates = server.certificates().unwrap();
    let (authority, stranger) = (certificates.authority(), certificates.stranger());
    let (authority, stranger) = (authority.display(), stranger.display());
    let localhost = format!("postgres://{OWNER}@localhost:{}/{OWNER}", server.port());
    let by_number = server.tcp_url(OWNER, OWNER);
    for (url, is_accepted) in [
        (format!("{localhost}?sslmode=verify-full&sslrootcert={authority}"), true),
        (format!("{localhost}?sslmode=verify-full&sslrootcert={stranger}"), false),
        (format!("{localhost}?sslmode=verify-full"), false),
        (format!("{by_number}?sslmode=verify-full&sslrootcert={authority}"), false),
        (format!("{by_number}?sslmode=verify-ca&sslrootcert={authority}"), true),
        (format!("{by_number}?sslmode=verify-ca&sslrootcert={stranger}"), false),
        (format!("{by_number}?sslmode=require"), true),
        (by_number.clone(), true),
        (format!("{by_number}?sslmode=disable"), false),
    ] {
        let opened = builder(&url).options(OpenOptions::new()).open().await;
        assert_eq!(opened.is_ok(), is_accepted, "{url}: {:?}", opened.err());
    }
}
