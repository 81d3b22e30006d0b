CREATE SCHEMA memory_tool;
CREATE FUNCTION memory_tool.all_paths(may_lag boolean) RETURNS TABLE(memory text, path text, file_above text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
BEGIN
    IF NOT may_lag AND pg_is_in_recovery() THEN
        RAISE 'the server is a read-only replica' USING ERRCODE = 'MT001';
    END IF;
    RETURN QUERY
    SELECT memory, path, NULL FROM "memory_tool".file
    UNION ALL
    SELECT upper.memory, lower.path, upper.path FROM "memory_tool".file AS upper
    JOIN "memory_tool".file AS lower ON lower.memory = upper.memory
        AND lower.path > upper.path || '/' AND lower.path < upper.path || '0';
END $$;
CREATE FUNCTION memory_tool.apply_batch(of_memory text, lock bigint, lock_timeout integer, writer bytea, first bigint, number bigint, checked text[], no_file text[], no_directory text[], something text[], versioned text[], required bytea[], measured text[], files_before bigint[], bytes_before bigint[], depths_before integer[], removed text[], renamed text[], targets text[], longest integer[], written text[], versions bytea[], created bigint[], modified bigint[], contents bytea[]) RETURNS TABLE(path text, version bytea, is_directory boolean, files bigint, bytes bigint, depth integer)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
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
    IF is_repeated AND (SELECT applied >= first FROM "memory_tool".writer WHERE id = apply_batch.writer) THEN
        RETURN NEXT;
        RETURN;
    END IF;
    IF no_file IS NOT NULL THEN
        holds = NOT EXISTS (SELECT FROM "memory_tool".file WHERE memory = of_memory AND path = ANY (no_file));
    END IF;
    FOR i IN 1 .. coalesce(cardinality(no_directory), 0) LOOP
        EXIT WHEN NOT holds;
        top = no_directory[i];
        holds = NOT EXISTS (SELECT FROM "memory_tool".file
            WHERE memory = of_memory AND path > top || '/' AND path < top || '0');
    END LOOP;
    FOR i IN 1 .. coalesce(cardinality(something), 0) LOOP
        EXIT WHEN NOT holds;
        top = something[i];
        holds = EXISTS (SELECT FROM "memory_tool".file
            WHERE memory = of_memory AND path >= top AND path < top || '0' AND (path = top OR path > top || '/'));
    END LOOP;
    FOR i IN 1 .. coalesce(cardinality(versioned), 0) LOOP
        EXIT WHEN NOT holds;
        holds = EXISTS (SELECT FROM "memory_tool".file
            WHERE memory = of_memory AND path = versioned[i] AND version = required[i]);
    END LOOP;
    IF holds AND measured IS NOT NULL THEN
        holds = NOT EXISTS (
            SELECT FROM unnest(measured, files_before, bytes_before, depths_before) AS before (top, files, bytes, depth)
            JOIN "memory_tool".state(of_memory, NULL, measured, false) AS found ON found.path = before.top
            WHERE (found.files, found.bytes, found.depth) IS DISTINCT FROM (before.files, before.bytes, before.depth));
    END IF;
    FOR i IN 1 .. coalesce(cardinality(renamed), 0) LOOP
        EXIT WHEN NOT holds;
        top = renamed[i];
        holds = NOT EXISTS (SELECT FROM "memory_tool".file WHERE memory = of_memory
            AND path > top || '/' AND path < top || '0' AND octet_length(path) > longest[i]);
    END LOOP;
    IF holds THEN
        FOR i IN 1 .. coalesce(cardinality(removed), 0) LOOP
            top = removed[i];
            DELETE FROM "memory_tool".file
            WHERE memory = of_memory AND path >= top AND path < top || '0' AND (path = top OR path > top || '/');
        END LOOP;
        FOR i IN 1 .. coalesce(cardinality(renamed), 0) LOOP
            top = renamed[i];
            UPDATE "memory_tool".file SET path = targets[i] || substr(path, length(top) + 1)
            WHERE memory = of_memory AND path >= top AND path < top || '0' AND (path = top OR path > top || '/');
        END LOOP;
        FOR i IN 1 .. coalesce(cardinality(written), 0) LOOP
            INSERT INTO "memory_tool".file AS old VALUES (of_memory, written[i], versions[i],
                least(coalesce(created[i], modified[i]), modified[i]), modified[i], contents[i])
            ON CONFLICT (memory, path) DO UPDATE SET version = excluded.version, modified_at = excluded.modified_at,
                content = excluded.content, created_at = least(coalesce(created[i], old.created_at), modified[i]);
        END LOOP;
    END IF;
    IF holds OR is_repeated THEN
        INSERT INTO "memory_tool".writer AS known (id, decided, applied)
        VALUES (apply_batch.writer, number, CASE WHEN holds THEN number ELSE 0 END)
        ON CONFLICT (id) DO UPDATE SET decided = excluded.decided,
            applied = greatest(known.applied, excluded.applied), used_at = excluded.used_at
        WHERE known.decided < excluded.decided;
        IF NOT FOUND THEN
            RAISE 'the batch was given up';
        END IF;
    END IF;
    IF number = 1 THEN
        DELETE FROM "memory_tool".writer WHERE used_at < now() - interval '1 day';
    END IF;
    IF holds THEN
        RETURN NEXT;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT * FROM "memory_tool".state(of_memory, checked, measured, false)
    UNION ALL
    SELECT path, NULL, NULL, NULL, NULL, NULL
    FROM "memory_tool".file, unnest(renamed, apply_batch.longest) AS moved (old, longest)
    WHERE memory = of_memory AND path >= old AND path < old || '0' AND (path = old OR path > old || '/')
        AND octet_length(path) > moved.longest;
END $$;
CREATE FUNCTION memory_tool.memory_names(may_lag boolean) RETURNS SETOF text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
    IF NOT may_lag AND pg_is_in_recovery() THEN
        RAISE 'the server is a read-only replica' USING ERRCODE = 'MT001';
    END IF;
    RETURN QUERY
    WITH RECURSIVE found (name) AS (
        SELECT min(memory) FROM "memory_tool".file
        UNION ALL SELECT (SELECT min(memory) FROM "memory_tool".file WHERE memory > name) FROM found WHERE name IS NOT NULL
    ) SELECT name FROM found WHERE name IS NOT NULL;
END $$;
CREATE FUNCTION memory_tool.read_path(of_memory text, wanted text, longest bigint, may_lag boolean) RETURNS TABLE(path text, version bytea, size integer, created_at bigint, modified_at bigint, content bytea)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
    IF NOT may_lag AND pg_is_in_recovery() THEN
        RAISE 'the server is a read-only replica' USING ERRCODE = 'MT001';
    END IF;
    RETURN QUERY
    SELECT path, version, octet_length(content), created_at, modified_at,
        CASE WHEN octet_length(content) <= longest THEN content END
    FROM "memory_tool".file WHERE memory = of_memory AND path = wanted
    UNION ALL
    SELECT path, NULL, octet_length(content), created_at, modified_at, NULL
    FROM "memory_tool".file WHERE memory = of_memory AND path > wanted || '/' AND path < wanted || '0';
END $$;
CREATE FUNCTION memory_tool.state(of_memory text, paths text[], measured text[], may_lag boolean) RETURNS TABLE(path text, version bytea, is_directory boolean, files bigint, bytes bigint, depth integer)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
    IF NOT may_lag AND pg_is_in_recovery() THEN
        RAISE 'the server is a read-only replica' USING ERRCODE = 'MT001';
    END IF;
    RETURN QUERY
    SELECT top, (SELECT version FROM "memory_tool".file WHERE memory = of_memory AND path = top),
        (SELECT true FROM "memory_tool".file
            WHERE memory = of_memory AND path > top || '/' AND path < top || '0' LIMIT 1) IS NOT NULL,
        NULL::bigint, NULL::bigint, NULL::integer
    FROM unnest(paths) AS top
    UNION ALL
    SELECT top, NULL, NULL, usage.files, usage.bytes, usage.depth
    FROM unnest(measured) AS top, LATERAL (
        -- The depth is the number of slashes minus one, because the first slash starts `/memories`.
        SELECT count(*) AS files, coalesce(sum(octet_length(content)), 0)::bigint AS bytes,
            coalesce(max(length(path) - length(replace(path, '/', ''))), 1) - 1 AS depth
        FROM "memory_tool".file WHERE memory = of_memory AND path >= top AND path < top || '0'
            AND (path = top OR path > top || '/')
    ) AS usage;
END $$;
CREATE TABLE memory_tool.file (
    memory text NOT NULL COLLATE pg_catalog."C",
    path text NOT NULL COLLATE pg_catalog."C",
    version bytea NOT NULL,
    created_at bigint NOT NULL,
    modified_at bigint NOT NULL,
    content bytea NOT NULL
);
ALTER TABLE ONLY memory_tool.file ALTER COLUMN content SET STATISTICS 0;
CREATE TABLE memory_tool.schema_version (
    number integer NOT NULL
);
CREATE TABLE memory_tool.writer (
    id bytea NOT NULL,
    role name DEFAULT CURRENT_USER NOT NULL,
    decided bigint NOT NULL,
    applied bigint NOT NULL,
    used_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='50');
INSERT INTO memory_tool.file VALUES ('default', '/records/history/log/00000000000000000001', '\x9be1aec753e28ce05e7bbd3a1f918135', 1795883253573, 1795883253573, '\x7b226e756d626572223a312c226964223a2237646231656131373134666361363538222c226166746572223a2231643431613661323662393631616632222c2274696d65223a313739353838333235333530322c226163746f72223a226167656e74222c22636f6d6d616e64223a22637265617465222c226368616e676573223a5b7b226368616e6765223a227772697465222c2270617468223a222f6d656d6f726965732f70726f66696c652e6d64222c226166746572223a7b2273697a65223a31332c22736861323536223a2266613361653030376663313963393337396337323039633762653733623337613466373330366539383639306435616338363439313935356161613437646135227d7d5d7d0a');
INSERT INTO memory_tool.file VALUES ('default', '/records/history/head', '\x9be1aec753e28ce05e7bbd3a1f918136', 1795883253573, 1795883253573, '\x7b22666f726d6174223a322c226964223a2231643431613661323662393631616632222c227265766973696f6e223a2236653465656462366232373633323939222c226669727374223a312c22626c6f636b735f656e64223a312c227461696c223a2231643431613661323662393631616632222c226c696d697473223a7b22616765223a6e756c6c2c226368616e676573223a3130303030302c226279746573223a3236383433353435367d7d');
INSERT INTO memory_tool.file VALUES ('default', '/records/history/log/00000000000000000002', '\x0b3150be4ea9914082f9e34c62cba3bb', 1795883253650, 1795883253650, '\x7b226e756d626572223a322c226964223a2232356536616539663764636361623862222c226166746572223a2237646231656131373134666361363538222c2274696d65223a313739353838333235333634392c226163746f72223a226167656e74222c22636f6d6d616e64223a22637265617465222c226368616e676573223a5b7b226368616e6765223a227772697465222c2270617468223a222f6d656d6f726965732f6e6f7465732f612e6d64222c226166746572223a7b2273697a65223a3136302c22736861323536223a2230663830653835653737343866663436383462323938323230636535613732346533333464343466393138343138613736653130383938396364646537343231227d7d5d7d0a');
INSERT INTO memory_tool.file VALUES ('default', '/memories/profile.md', '\x8b42586ebaaf99945da315afe28006e7', 1795883253573, 1795883253666, '\x5072656665727320636f666665652e0a');
INSERT INTO memory_tool.file VALUES ('default', '/records/history/log/00000000000000000003', '\x8b42586ebaaf99945da315afe28006e8', 1795883253666, 1795883253666, '\x7b226e756d626572223a332c226964223a2231303933313332336662303734396662222c226166746572223a2232356536616539663764636361623862222c2274696d65223a313739353838333235333636362c226163746f72223a226167656e74222c22636f6d6d616e64223a227374725f7265706c616365222c226368616e676573223a5b7b226368616e6765223a227772697465222c2270617468223a222f6d656d6f726965732f70726f66696c652e6d64222c226265666f7265223a7b2273697a65223a31332c22736861323536223a2266613361653030376663313963393337396337323039633762653733623337613466373330366539383639306435616338363439313935356161613437646135227d2c226166746572223a7b2273697a65223a31362c22736861323536223a2232306161393734363139353135653930393666323561656135373565623461353363623839343166336639666438333532633261373066666465633332373631227d7d5d7d0a50726566657273207465612e0a');
INSERT INTO memory_tool.file VALUES ('default', '/memories/projects/a.md', '\x0b3150be4ea9914082f9e34c62cba3ba', 1795883253650, 1795883253650, '\x6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a');
INSERT INTO memory_tool.file VALUES ('default', '/records/history/log/00000000000000000004', '\x4be3eb87d3dd6d8f1c71ae84ab1f5ea4', 1795883253682, 1795883253682, '\x7b226e756d626572223a342c226964223a2235663764393938613666323831363061222c226166746572223a2231303933313332336662303734396662222c2274696d65223a313739353838333235333638322c226163746f72223a226167656e74222c22636f6d6d616e64223a2272656e616d65222c226368616e676573223a5b7b226368616e6765223a2272656e616d65222c2266726f6d223a222f6d656d6f726965732f6e6f746573222c22746f223a222f6d656d6f726965732f70726f6a65637473227d5d7d0a');
INSERT INTO memory_tool.file VALUES ('default', '/records/history/log/00000000000000000005', '\xf2f448bee79bda0c48499ae323545227', 1795883253690, 1795883253690, '\x7b226e756d626572223a352c226964223a2232626433653831313262646636616136222c226166746572223a2235663764393938613666323831363061222c2274696d65223a313739353838333235333639302c226163746f72223a226167656e74222c22636f6d6d616e64223a22637265617465222c226368616e676573223a5b7b226368616e6765223a227772697465222c2270617468223a222f6d656d6f726965732f6f6c642e6d64222c226166746572223a7b2273697a65223a31302c22736861323536223a2234633632353933663435383064303062353161363230323661353532303835393131663030383837323738393639633731343333346661393166306337633935227d7d5d7d0a');
INSERT INTO memory_tool.file VALUES ('default', '/records/history/log/00000000000000000006', '\xe6e9f8c5ee52d1050debf5364baf9e9a', 1795883253694, 1795883253694, '\x7b226e756d626572223a362c226964223a2237663163613830646465393937383962222c226166746572223a2232626433653831313262646636616136222c2274696d65223a313739353838333235333639332c226163746f72223a226167656e74222c22636f6d6d616e64223a2264656c657465222c226368616e676573223a5b7b226368616e6765223a2272656d6f7665222c2270617468223a222f6d656d6f726965732f6f6c642e6d64222c226265666f7265223a7b2273697a65223a31302c22736861323536223a2234633632353933663435383064303062353161363230323661353532303835393131663030383837323738393639633731343333346661393166306337633935227d7d5d7d0a666f72676f7474656e0a');
INSERT INTO memory_tool.file VALUES ('alice', '/records/history/log/00000000000000000001', '\xace0df0738d8651d4fef52800facc669', 1795883253797, 1795883253797, '\x7b226e756d626572223a312c226964223a2238653639356337376631376339376330222c226166746572223a2234373336383361653663313761613836222c2274696d65223a313739353838333235333739352c226163746f72223a226167656e74222c22636f6d6d616e64223a22637265617465222c226368616e676573223a5b7b226368616e6765223a227772697465222c2270617468223a222f6d656d6f726965732f70726f66696c652e6d64222c226166746572223a7b2273697a65223a31332c22736861323536223a2266613361653030376663313963393337396337323039633762653733623337613466373330366539383639306435616338363439313935356161613437646135227d7d5d7d0a');
INSERT INTO memory_tool.file VALUES ('alice', '/records/history/head', '\xace0df0738d8651d4fef52800facc66a', 1795883253797, 1795883253797, '\x7b22666f726d6174223a322c226964223a2234373336383361653663313761613836222c227265766973696f6e223a2265356432633032353936633130333437222c226669727374223a312c22626c6f636b735f656e64223a312c227461696c223a2234373336383361653663313761613836222c226c696d697473223a7b22616765223a6e756c6c2c226368616e676573223a3130303030302c226279746573223a3236383433353435367d7d');
INSERT INTO memory_tool.file VALUES ('alice', '/records/history/log/00000000000000000002', '\xadde5da12751fa6e0e9a1e25f2a5d9a2', 1795883253842, 1795883253842, '\x7b226e756d626572223a322c226964223a2238343861303264393433333066353036222c226166746572223a2238653639356337376631376339376330222c2274696d65223a313739353838333235333834322c226163746f72223a226167656e74222c22636f6d6d616e64223a22637265617465222c226368616e676573223a5b7b226368616e6765223a227772697465222c2270617468223a222f6d656d6f726965732f6e6f7465732f612e6d64222c226166746572223a7b2273697a65223a3136302c22736861323536223a2230663830653835653737343866663436383462323938323230636535613732346533333464343466393138343138613736653130383938396364646537343231227d7d5d7d0a');
INSERT INTO memory_tool.file VALUES ('alice', '/memories/profile.md', '\x53d49f504aff85d39a665a17d9014a3f', 1795883253797, 1795883253884, '\x5072656665727320636f666665652e0a');
INSERT INTO memory_tool.file VALUES ('alice', '/records/history/log/00000000000000000003', '\x53d49f504aff85d39a665a17d9014a40', 1795883253884, 1795883253884, '\x7b226e756d626572223a332c226964223a2233363437633966313761303165623334222c226166746572223a2238343861303264393433333066353036222c2274696d65223a313739353838333235333838342c226163746f72223a226167656e74222c22636f6d6d616e64223a227374725f7265706c616365222c226368616e676573223a5b7b226368616e6765223a227772697465222c2270617468223a222f6d656d6f726965732f70726f66696c652e6d64222c226265666f7265223a7b2273697a65223a31332c22736861323536223a2266613361653030376663313963393337396337323039633762653733623337613466373330366539383639306435616338363439313935356161613437646135227d2c226166746572223a7b2273697a65223a31362c22736861323536223a2232306161393734363139353135653930393666323561656135373565623461353363623839343166336639666438333532633261373066666465633332373631227d7d5d7d0a50726566657273207465612e0a');
INSERT INTO memory_tool.file VALUES ('alice', '/memories/projects/a.md', '\xadde5da12751fa6e0e9a1e25f2a5d9a1', 1795883253842, 1795883253842, '\x6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a6f6e650a');
INSERT INTO memory_tool.file VALUES ('alice', '/records/history/log/00000000000000000004', '\xff1dfbd6b9aa7423cadbdc31a5c9cf3a', 1795883253921, 1795883253921, '\x7b226e756d626572223a342c226964223a2230326465343736626364326364383732222c226166746572223a2233363437633966313761303165623334222c2274696d65223a313739353838333235333932312c226163746f72223a226167656e74222c22636f6d6d616e64223a2272656e616d65222c226368616e676573223a5b7b226368616e6765223a2272656e616d65222c2266726f6d223a222f6d656d6f726965732f6e6f746573222c22746f223a222f6d656d6f726965732f70726f6a65637473227d5d7d0a');
INSERT INTO memory_tool.file VALUES ('alice', '/records/history/log/00000000000000000005', '\x196b7aefde9a4344042e87f628db4f99', 1795883253934, 1795883253934, '\x7b226e756d626572223a352c226964223a2236316232333433363964323737363963222c226166746572223a2230326465343736626364326364383732222c2274696d65223a313739353838333235333933342c226163746f72223a226167656e74222c22636f6d6d616e64223a22637265617465222c226368616e676573223a5b7b226368616e6765223a227772697465222c2270617468223a222f6d656d6f726965732f6f6c642e6d64222c226166746572223a7b2273697a65223a31302c22736861323536223a2234633632353933663435383064303062353161363230323661353532303835393131663030383837323738393639633731343333346661393166306337633935227d7d5d7d0a');
INSERT INTO memory_tool.file VALUES ('alice', '/records/history/log/00000000000000000006', '\x2a6dadcc333fb1e6d4c4e51da3279531', 1795883253937, 1795883253937, '\x7b226e756d626572223a362c226964223a2239373365376130646133333063316131222c226166746572223a2236316232333433363964323737363963222c2274696d65223a313739353838333235333933352c226163746f72223a226167656e74222c22636f6d6d616e64223a2264656c657465222c226368616e676573223a5b7b226368616e6765223a2272656d6f7665222c2270617468223a222f6d656d6f726965732f6f6c642e6d64222c226265666f7265223a7b2273697a65223a31302c22736861323536223a2234633632353933663435383064303062353161363230323661353532303835393131663030383837323738393639633731343333346661393166306337633935227d7d5d7d0a666f72676f7474656e0a');
INSERT INTO memory_tool.schema_version VALUES (1);
INSERT INTO memory_tool.writer VALUES ('\x06a97be4836f68ee67f409c6533a80dc', 'test', 6, 6, '2026-11-28 16:27:33.697666+00');
INSERT INTO memory_tool.writer VALUES ('\xfd876ad727315b10b4877f8e393383ec', 'test', 6, 6, '2026-11-28 16:27:33.981782+00');
ALTER TABLE ONLY memory_tool.file
    ADD CONSTRAINT file_pkey PRIMARY KEY (memory, path);
ALTER TABLE ONLY memory_tool.writer
    ADD CONSTRAINT writer_pkey PRIMARY KEY (id);
CREATE POLICY own_rows ON memory_tool.writer USING ((role = CURRENT_USER));
ALTER TABLE memory_tool.writer ENABLE ROW LEVEL SECURITY;
