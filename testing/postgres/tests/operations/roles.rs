//! Roles with fewer rights than the owner of the tables.

use memory_tool_core::{ErrorKind, OpenMode, OpenOptions, StoreExt as _};
use memory_tool_test_postgres::{Database, builder, open, open_with, server};

use crate::{create, fail, message_of_opening, succeed, view};

/// Creates the tables as their owner, and a role with the least rights to use them. Returns the URL of the role.
async fn with_program_role(database: &Database) -> String {
    assert!(builder(&database.url(server())).migrate().await.unwrap() >= 1);
    let role = format!("{}_program", database.role());
    server().sql(&format!("CREATE ROLE {role} LOGIN")).unwrap();
    let grants = format!(
        "GRANT USAGE ON SCHEMA memory_tool TO {role}; GRANT SELECT ON memory_tool.schema_version TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON memory_tool.file TO {role}"
    );
    server().sql_in(database.role(), database.name(), &grants).unwrap();
    server().url(&role, database.name())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_needs_no_right_to_create_tables() {
    let database = Database::new(server());
    let url = with_program_role(&database).await;
    let role = format!("{}_program", database.role());
    assert!(server().sql_in(&role, database.name(), "CREATE TABLE memory_tool.other ()").is_err());
    let store = open(&url).await.unwrap();
    succeed(&store, create("/memories/a", "text")).await;
    let edit =
        serde_json::json!({"command": "str_replace", "path": "/memories/a", "old_str": "text", "new_str": "new"});
    succeed(&store, edit).await;
    let rename = serde_json::json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"});
    succeed(&store, rename).await;
    assert!(succeed(&store, view("/memories/b")).await.contains("new"));
    assert!(store.verify(|_| ()).await.unwrap().problems.is_empty());
    assert_eq!(store.memory_names().await.unwrap().len(), 1);
    succeed(&store, serde_json::json!({"command": "delete", "path": "/memories/b"})).await;
    // A second migration of the owner changes nothing.
    builder(&database.url(server())).migrate().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_rights_is_told_to_migrate() {
    let database = Database::new(server());
    let role = format!("{}_stranger", database.role());
    server().sql(&format!("CREATE ROLE {role} LOGIN")).unwrap();
    let url = server().url(&role, database.name());
    let error = open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error:?}");
    assert!(message_of_opening(&error).contains("memory-tool migrate"), "{}", message_of_opening(&error));
    let error = open_with(&url, OpenOptions::new().mode(OpenMode::Existing)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
    // The owner migrates, but grants nothing.
    builder(&database.url(server())).migrate().await.unwrap();
    let error = open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{}", message_of_opening(&error));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_only_read_is_refused_changes() {
    let database = Database::new(server());
    let url = with_program_role(&database).await;
    let store = open(&url).await.unwrap();
    succeed(&store, create("/memories/a", "text")).await;
    let role = format!("{}_program", database.role());
    let revoke = format!("REVOKE INSERT, UPDATE, DELETE ON memory_tool.file FROM {role}");
    server().sql_in(database.role(), database.name(), &revoke).unwrap();
    let message = fail(&store, create("/memories/b", "text"), &[ErrorKind::AccessDenied]).await;
    assert!(message.contains("permission denied for table file"), "{message}");
    assert!(succeed(&store, view("/memories/a")).await.contains("text"));
}

#[tokio::test(flavor = "multi_thread")]
async fn row_level_security_hides_other_tenants_even_from_a_wrong_name() {
    let database = Database::new(server());
    let url = with_program_role(&database).await;
    let role = format!("{}_program", database.role());
    let owner = open(&database.url(server())).await.unwrap();
    for tenant in ["alice", "bob"] {
        let store = owner.memory(tenant.parse().unwrap());
        succeed(&store, create("/memories/note", &format!("the note of {tenant}"))).await;
    }
    let policy = format!(
        "ALTER TABLE memory_tool.file ENABLE ROW LEVEL SECURITY; \
         CREATE POLICY alice ON memory_tool.file TO {role} USING (memory = 'alice') WITH CHECK (memory = 'alice')"
    );
    server().sql_in(database.role(), database.name(), &policy).unwrap();
    let alice = open(&format!("{url}?memory=alice")).await.unwrap();
    assert!(succeed(&alice, view("/memories/note")).await.contains("the note of alice"));
    succeed(&alice, create("/memories/new", "text")).await;
    assert_eq!(alice.memory_names().await.unwrap(), ["alice".parse().unwrap()]);
    // A program that opens the wrong memory sees nothing and changes nothing.
    let bob = open(&format!("{url}?memory=bob")).await.unwrap();
    assert_eq!(bob.list("/memories").await.unwrap(), []);
    for path in ["/memories/note", "/memories/new"] {
        let message = fail(&bob, create(path, "overwritten"), &[ErrorKind::AccessDenied]).await;
        assert!(message.contains("row-level security"), "{message}");
    }
    let bob = owner.memory("bob".parse().unwrap());
    assert!(succeed(&bob, view("/memories/note")).await.contains("the note of bob"));
    assert_eq!(bob.list("/memories").await.unwrap().len(), 1);
}
