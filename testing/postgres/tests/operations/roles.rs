//! Roles with fewer rights than the owner of the tables.

use memory_tool_core::{Batch, ErrorKind, OpenMode, OpenOptions, Quota, Store as _, StoreExt as _, StorePath};
use memory_tool_test_postgres::{Database, builder, open, open_with, server};

use crate::{create, fail, message_of_opening, succeed, view};

/// Creates the tables as their owner, and a role with the least rights to use them. Returns the URL of the role.
async fn with_program_role(database: &Database) -> String {
    assert!(builder(&database.url(server())).migrate().await.unwrap() >= 1);
    let role = format!("{}_program", database.role());
    server().sql(&format!("CREATE ROLE {role} LOGIN")).unwrap();
    let grants = format!(
        "GRANT USAGE ON SCHEMA memory_tool TO {role}; GRANT SELECT ON memory_tool.schema_version TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON memory_tool.file, memory_tool.writer TO {role}"
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

/// Everybody may create functions in `public` on PostgreSQL 14.
#[tokio::test(flavor = "multi_thread")]
async fn functions_and_operators_of_another_role_take_no_part() {
    let database = Database::new(server());
    let sql = |statements: &str| server().sql_in("postgres", database.name(), statements).unwrap();
    let hijackers: usize = sql(HIJACK).parse().unwrap();
    assert!(hijackers > 1_000, "{hijackers} functions and operators");
    sql(&format!("ALTER ROLE {} SET search_path = public, pg_catalog", database.role()));
    let hijacked = server().sql_in(database.role(), database.name(), "SELECT * FROM unnest(ARRAY['x'::text])");
    assert!(hijacked.unwrap_err().to_string().contains("hijacked"));
    let store = open(&database.url(server())).await.unwrap();
    succeed(&store, create("/memories/a", "text")).await;
    for command in [
        serde_json::json!({"command": "str_replace", "path": "/memories/a", "old_str": "text", "new_str": "new"}),
        serde_json::json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/d/b"}),
        view("/memories"),
        view("/memories/d/b"),
        serde_json::json!({"command": "delete", "path": "/memories/d"}),
    ] {
        succeed(&store, command).await;
    }
    let quota = Batch::new().limit(StorePath::memories(), Quota::new().with_files(1).with_bytes(9).with_depth(1));
    store.apply(quota.write("/memories/c".parse::<StorePath>().unwrap(), "text")).await.unwrap();
    assert!(store.verify(|_| ()).await.unwrap().problems.is_empty());
    assert_eq!(store.memory_names().await.unwrap().len(), 1);
    open_with(&format!("{}?memory=default", database.url(server())), OpenOptions::new().read_only()).await.unwrap();
}

/// Creates failing copies of the server's functions and operators in the schema `public`, and returns their number.
const HIJACK: &str = r#"
GRANT CREATE ON SCHEMA public TO PUBLIC;
CREATE TEMP TABLE hijacker AS SELECT false AS done;
CREATE FUNCTION public.unnest(text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
CREATE FUNCTION public.unnest(bytea[]) RETURNS SETOF bytea LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
CREATE FUNCTION public.cardinality(text[]) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
DO $do$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT proname, pg_get_function_identity_arguments(oid) AS arguments, pg_get_function_result(oid) AS result
        FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f'
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS '
                '$$ BEGIN RAISE ''hijacked''; END $$',
                f.proname, f.arguments, f.result);
            INSERT INTO hijacker VALUES (true);
        EXCEPTION WHEN OTHERS THEN
        END;
    END LOOP;
    FOR f IN SELECT oprname, oprleft::regtype AS l, oprright::regtype AS r, oprresult::regtype AS result
        FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprleft <> 0
            AND ARRAY[oprleft, oprright] <@ ARRAY['text', 'bytea', 'bigint', 'integer', 'boolean', 'oid', 'name',
                'timestamptz', 'interval']::regtype[]::oid[]
    LOOP
        BEGIN
            EXECUTE format('CREATE OR REPLACE FUNCTION public.hijack(%s, %s) RETURNS %s LANGUAGE plpgsql AS '
                '$$ BEGIN RAISE ''hijacked''; END $$', f.l, f.r, f.result);
            EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.hijack)',
                f.oprname, f.l, f.r);
            INSERT INTO hijacker VALUES (true);
        EXCEPTION WHEN OTHERS THEN
        END;
    END LOOP;
END $do$;
SELECT count(*) FROM hijacker;
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_another_role_is_refused() {
    let database = Database::new(server());
    let url = database.url(server());
    let stranger = format!("{}_stranger", database.role());
    server().sql(&format!("CREATE ROLE {stranger} LOGIN")).unwrap();
    server().sql(&format!("GRANT CREATE ON DATABASE {} TO {stranger}", database.name())).unwrap();
    let prepare = format!("CREATE SCHEMA memory_tool; GRANT ALL ON SCHEMA memory_tool TO {}", database.role());
    server().sql_in(&stranger, database.name(), &prepare).unwrap();
    let refuse = async |url: &str| {
        let error = open(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error:?}");
        assert!(message_of_opening(&error).contains(&stranger), "{}", message_of_opening(&error));
    };
    refuse(&url).await;
    open(&format!("{url}?owner={stranger}")).await.unwrap();
    refuse(&url).await;

    // A function in a schema of the owner.
    let url = format!("{url}?schema=agents");
    open(&url).await.unwrap();
    let replace = "ALTER FUNCTION agents.memory_names(boolean) OWNER TO";
    server().sql_in("postgres", database.name(), &format!("{replace} {stranger}")).unwrap();
    refuse(&url).await;
    server().sql_in("postgres", database.name(), &format!("{replace} postgres")).unwrap();
    open(&url).await.unwrap();
}
