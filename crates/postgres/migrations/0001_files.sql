-- The files and records of all memories. `{schema}` is the quoted name of the schema.
--
-- Each statement of a store is one call of a function, and each change one transaction. All functions are volatile,
-- although some only read: proxies send calls of other functions to replicas. A proxy that sends one there anyway gets
-- the error MT001. The search path is fixed, so that no function or operator of another role can take part. Plans are
-- generic, because the server would otherwise plan statements with arrays at each call. They find files by the primary
-- key, because a plan made for a small table would otherwise scan the grown one.

CREATE TABLE {schema}.file (
    memory text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL, -- under /memories, or under /records for data of a policy
    version bytea NOT NULL, -- unique to this content, never used again
    created_at bigint NOT NULL, -- in milliseconds since 1970
    modified_at bigint NOT NULL, -- in milliseconds since 1970
    content bytea NOT NULL,
    PRIMARY KEY (memory, path)
);

-- ANALYZE would copy short contents to the statistics, and leave them there after the last file is deleted.
ALTER TABLE {schema}.file ALTER content SET STATISTICS 0;

-- What the server has decided about the batches of a writer, which numbers its calls and makes one at a time. After a
-- lost connection, it is the proof of the outcome. A row that was not used for a day is removed.
CREATE TABLE {schema}.writer (
    id bytea PRIMARY KEY, -- random
    role name NOT NULL DEFAULT current_user,
    decided bigint NOT NULL, -- its newest call here: an earlier one that arrives later has no effect
    applied bigint NOT NULL, -- its newest call that changed files
    used_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

ALTER TABLE {schema}.writer ENABLE ROW LEVEL SECURITY;

CREATE POLICY own_rows ON {schema}.writer USING (role = current_user);

-- The file at a path with its content, unless that is longer, and the files under the path without their contents: a
-- range of the primary key, because `0` is the character after `/`. One statement reads one snapshot.
CREATE FUNCTION {schema}.read_path(of_memory text, wanted text, longest bigint, may_lag boolean)
RETURNS TABLE (path text, version bytea, size integer, created_at bigint, modified_at bigint, content bytea)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    IF NOT may_lag AND pg_is_in_recovery() THEN
        RAISE 'the server is a read-only replica' USING ERRCODE = 'MT001';
    END IF;
    RETURN QUERY
    SELECT path, version, octet_length(content), created_at, modified_at,
        CASE WHEN octet_length(content) <= longest THEN content END
    FROM {schema}.file WHERE memory = of_memory AND path = wanted
    UNION ALL
    SELECT path, NULL, octet_length(content), created_at, modified_at, NULL
    FROM {schema}.file WHERE memory = of_memory AND path > wanted || '/' AND path < wanted || '0';
END $$;

-- What is at each path, and the usage of each measured path.
CREATE FUNCTION {schema}.state(of_memory text, paths text[], measured text[], may_lag boolean)
RETURNS TABLE (path text, version bytea, is_directory boolean, files bigint, bytes bigint, depth integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    IF NOT may_lag AND pg_is_in_recovery() THEN
        RAISE 'the server is a read-only replica' USING ERRCODE = 'MT001';
    END IF;
    RETURN QUERY
    SELECT top, (SELECT version FROM {schema}.file WHERE memory = of_memory AND path = top),
        (SELECT true FROM {schema}.file
            WHERE memory = of_memory AND path > top || '/' AND path < top || '0' LIMIT 1) IS NOT NULL,
        NULL::bigint, NULL::bigint, NULL::integer
    FROM unnest(paths) AS top
    UNION ALL
    SELECT top, NULL, NULL, usage.files, usage.bytes, usage.depth
    FROM unnest(measured) AS top, LATERAL (
        -- The depth is the number of slashes minus one, because the first slash starts `/memories`.
        SELECT count(*) AS files, coalesce(sum(octet_length(content)), 0)::bigint AS bytes,
            coalesce(max(length(path) - length(replace(path, '/', ''))), 1) - 1 AS depth
        FROM {schema}.file WHERE memory = of_memory AND path >= top AND path < top || '0'
            AND (path = top OR path > top || '/')
    ) AS usage;
END $$;

-- Applies a batch if its condition holds: no file is at the first paths and no directory at the second, something is at
-- the third, files have the required versions, each usage is as measured, and no renamed path gets longer than allowed.
-- Returns a row of nulls, or otherwise the state of the checked paths, with the paths that are too long. An empty array
-- is null.
--
-- The lock of the memory comes first, so the later statements read what was committed before. `number` is the number of
-- this call, and `first` that of the first call with this batch.
--
-- Without `jit = off`, the server would compile the only scan, of writers, because of its cost.
CREATE FUNCTION {schema}.apply_batch(
    of_memory text, lock bigint, lock_timeout integer, writer bytea, first bigint, number bigint,
    checked text[], no_file text[], no_directory text[], something text[], versioned text[], required bytea[],
    measured text[], files_before bigint[], bytes_before bigint[], depths_before integer[],
    removed text[], renamed text[], targets text[], longest integer[],
    written text[], versions bytea[], created bigint[], modified bigint[], contents bytea[])
RETURNS TABLE (path text, version bytea, is_directory boolean, files bigint, bytes bigint, depth integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET jit = off AS $$
#variable_conflict use_column
DECLARE
    is_repeated CONSTANT boolean = first < number;
    holds boolean = true;
    top text;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE 'the server is a read-only replica' USING ERRCODE = 'MT001';
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE 'the isolation must be READ COMMITTED' USING ERRCODE = 'MT001';
    END IF;
    PERFORM set_config('lock_timeout', lock_timeout::text, true),
        set_config('idle_in_transaction_session_timeout', '10s', true), -- a disappeared client must not keep the lock
        CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
        pg_advisory_xact_lock(lock);
    IF is_repeated AND (SELECT applied >= first FROM {schema}.writer WHERE id = apply_batch.writer) THEN
        RETURN NEXT;
        RETURN;
    END IF;
    IF no_file IS NOT NULL THEN
        holds = NOT EXISTS (SELECT FROM {schema}.file WHERE memory = of_memory AND path = ANY (no_file));
    END IF;
    FOR i IN 1 .. coalesce(cardinality(no_directory), 0) LOOP
        EXIT WHEN NOT holds;
        top = no_directory[i];
        holds = NOT EXISTS (SELECT FROM {schema}.file
            WHERE memory = of_memory AND path > top || '/' AND path < top || '0');
    END LOOP;
    FOR i IN 1 .. coalesce(cardinality(something), 0) LOOP
        EXIT WHEN NOT holds;
        top = something[i];
        holds = EXISTS (SELECT FROM {schema}.file
            WHERE memory = of_memory AND path >= top AND path < top || '0' AND (path = top OR path > top || '/'));
    END LOOP;
    FOR i IN 1 .. coalesce(cardinality(versioned), 0) LOOP
        EXIT WHEN NOT holds;
        holds = EXISTS (SELECT FROM {schema}.file
            WHERE memory = of_memory AND path = versioned[i] AND version = required[i]);
    END LOOP;
    IF holds AND measured IS NOT NULL THEN
        holds = NOT EXISTS (
            SELECT FROM unnest(measured, files_before, bytes_before, depths_before) AS before (top, files, bytes, depth)
            JOIN {schema}.state(of_memory, NULL, measured, false) AS found ON found.path = before.top
            WHERE (found.files, found.bytes, found.depth) IS DISTINCT FROM (before.files, before.bytes, before.depth));
    END IF;
    FOR i IN 1 .. coalesce(cardinality(renamed), 0) LOOP
        EXIT WHEN NOT holds;
        top = renamed[i];
        holds = NOT EXISTS (SELECT FROM {schema}.file WHERE memory = of_memory
            AND path > top || '/' AND path < top || '0' AND octet_length(path) > longest[i]);
    END LOOP;
    IF holds THEN
        FOR i IN 1 .. coalesce(cardinality(removed), 0) LOOP
            top = removed[i];
            DELETE FROM {schema}.file
            WHERE memory = of_memory AND path >= top AND path < top || '0' AND (path = top OR path > top || '/');
        END LOOP;
        FOR i IN 1 .. coalesce(cardinality(renamed), 0) LOOP
            top = renamed[i];
            UPDATE {schema}.file SET path = targets[i] || substr(path, length(top) + 1)
            WHERE memory = of_memory AND path >= top AND path < top || '0' AND (path = top OR path > top || '/');
        END LOOP;
        FOR i IN 1 .. coalesce(cardinality(written), 0) LOOP
            INSERT INTO {schema}.file AS old VALUES (of_memory, written[i], versions[i],
                least(coalesce(created[i], modified[i]), modified[i]), modified[i], contents[i])
            ON CONFLICT (memory, path) DO UPDATE SET version = excluded.version, modified_at = excluded.modified_at,
                content = excluded.content, created_at = least(coalesce(created[i], old.created_at), modified[i]);
        END LOOP;
    END IF;
    IF holds OR is_repeated THEN
        INSERT INTO {schema}.writer AS known (id, decided, applied)
        VALUES (apply_batch.writer, number, CASE WHEN holds THEN number ELSE 0 END)
        ON CONFLICT (id) DO UPDATE SET decided = excluded.decided,
            applied = greatest(known.applied, excluded.applied), used_at = excluded.used_at
        WHERE known.decided < excluded.decided;
        IF NOT FOUND THEN
            RAISE 'the batch was given up';
        END IF;
    END IF;
    IF number = 1 THEN
        DELETE FROM {schema}.writer WHERE used_at < now() - interval '1 day';
    END IF;
    IF holds THEN
        RETURN NEXT;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT * FROM {schema}.state(of_memory, checked, measured, false)
    UNION ALL
    SELECT path, NULL, NULL, NULL, NULL, NULL
    FROM {schema}.file, unnest(renamed, apply_batch.longest) AS moved (old, longest)
    WHERE memory = of_memory AND path >= old AND path < old || '0' AND (path = old OR path > old || '/')
        AND octet_length(path) > moved.longest;
END $$;

-- The names of all memories with a file or record. Jumps from one name to the next in the primary key: `DISTINCT`
-- would read the row of every file.
CREATE FUNCTION {schema}.memory_names(may_lag boolean)
RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
BEGIN
    IF NOT may_lag AND pg_is_in_recovery() THEN
        RAISE 'the server is a read-only replica' USING ERRCODE = 'MT001';
    END IF;
    RETURN QUERY
    WITH RECURSIVE found (name) AS (
        SELECT min(memory) FROM {schema}.file
        UNION ALL SELECT (SELECT min(memory) FROM {schema}.file WHERE memory > name) FROM found WHERE name IS NOT NULL
    ) SELECT name FROM found WHERE name IS NOT NULL;
END $$;

-- All paths, and again each path that is under a file, with that file.
CREATE FUNCTION {schema}.all_paths(may_lag boolean)
RETURNS TABLE (memory text, path text, file_above text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    IF NOT may_lag AND pg_is_in_recovery() THEN
        RAISE 'the server is a read-only replica' USING ERRCODE = 'MT001';
    END IF;
    RETURN QUERY
    SELECT memory, path, NULL FROM {schema}.file
    UNION ALL
    SELECT upper.memory, lower.path, upper.path FROM {schema}.file AS upper
    JOIN {schema}.file AS lower ON lower.memory = upper.memory
        AND lower.path > upper.path || '/' AND lower.path < upper.path || '0';
END $$;
