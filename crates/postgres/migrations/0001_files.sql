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
