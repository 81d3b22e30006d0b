-- The files and records of all memories. `{schema}` is the quoted name of the schema.

CREATE TABLE {schema}.file (
    memory text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL, -- under /memories, or under /records for data of a policy
    version bytea NOT NULL, -- unique to this content, never used again
    created_at bigint NOT NULL, -- in milliseconds since 1970
    modified_at bigint NOT NULL, -- in milliseconds since 1970
    content bytea NOT NULL,
    PRIMARY KEY (memory, path)
);

-- The frequent statements are functions, because the server plans these once per connection, also behind a pooler.

-- The file at a path with its content, unless that is longer, or the files under the path without their contents: a
-- range of the primary key, because `0` is the character after `/`.
CREATE FUNCTION {schema}.read_path(of_memory text, wanted text, longest bigint)
RETURNS TABLE (path text, version bytea, size integer, created_at bigint, modified_at bigint, content bytea)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT path, version, octet_length(content), created_at, modified_at,
        CASE WHEN octet_length(content) <= longest THEN content END
    FROM {schema}.file WHERE memory = of_memory AND path = wanted;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT path, NULL::bytea, octet_length(content), created_at, modified_at, NULL::bytea
        FROM {schema}.file WHERE memory = of_memory AND path > wanted || '/' AND path < wanted || '0';
    END IF;
END $$;

-- What is at each path.
CREATE FUNCTION {schema}.stat_paths(of_memory text, wanted text[])
RETURNS TABLE (path text, version bytea, is_directory boolean)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT wanted_path,
        (SELECT version FROM {schema}.file WHERE memory = of_memory AND path = wanted_path),
        EXISTS (SELECT FROM {schema}.file
            WHERE memory = of_memory AND path > wanted_path || '/' AND path < wanted_path || '0')
    FROM unnest(wanted) AS wanted_path;
END $$;

-- Writes files if all required paths have these versions or, for null, do not exist, no leaf is a directory, and no
-- parent is a file. Only in a transaction that has the lock of the memory. Returns whether it wrote.
CREATE FUNCTION {schema}.write_files(
    of_memory text, paths text[], versions bytea[], created bigint[], modified bigint[], contents bytea[],
    required_paths text[], required_versions bytea[], leaves text[], parents text[])
RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF current_setting('memory_tool.batch', true) IS DISTINCT FROM 'on'
        OR EXISTS (SELECT FROM unnest(required_paths, required_versions) AS required (path, version)
            WHERE required.version IS DISTINCT FROM
                (SELECT version FROM {schema}.file WHERE memory = of_memory AND path = required.path))
        OR EXISTS (SELECT FROM unnest(leaves) AS leaf WHERE EXISTS (SELECT FROM {schema}.file
            WHERE memory = of_memory AND path > leaf || '/' AND path < leaf || '0'))
        OR EXISTS (SELECT FROM {schema}.file WHERE memory = of_memory AND path = ANY (parents))
    THEN
        RETURN false;
    END IF;
    INSERT INTO {schema}.file (memory, path, version, created_at, modified_at, content)
    SELECT of_memory, new.path, new.version,
        least(coalesce(new.created_at, old.created_at, new.modified_at), new.modified_at), new.modified_at, new.content
    FROM unnest(paths, versions, created, modified, contents)
        AS new (path, version, created_at, modified_at, content)
    LEFT JOIN {schema}.file AS old ON old.memory = of_memory AND old.path = new.path
    ON CONFLICT (memory, path) DO UPDATE SET version = excluded.version, created_at = excluded.created_at,
        modified_at = excluded.modified_at, content = excluded.content;
    RETURN true;
END $$;
