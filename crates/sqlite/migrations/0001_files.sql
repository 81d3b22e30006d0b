-- The files and records of all memories. Contents are in a table of their own, so that a listing does not read them.

-- Ids are never reused and revisions grow by random steps, so the pair identifies a content. Steps of 1 would repeat
-- pairs after a restoration of the database.
CREATE TABLE content (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    revision INTEGER NOT NULL DEFAULT 1,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE file (
    memory TEXT NOT NULL,
    path TEXT NOT NULL, -- under /memories, or under /records for data of a policy
    size INTEGER NOT NULL, -- of the content, in bytes
    content_id INTEGER NOT NULL UNIQUE REFERENCES content (id),
    created_at INTEGER NOT NULL, -- in milliseconds since 1970
    modified_at INTEGER NOT NULL, -- in milliseconds since 1970
    PRIMARY KEY (memory, path)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER revision_grows BEFORE UPDATE ON content WHEN new.id <> old.id OR new.revision <= old.revision BEGIN
    SELECT RAISE(ABORT, 'a content that changes needs a higher revision');
END;

CREATE TRIGGER content_goes_with_its_file AFTER DELETE ON file BEGIN
    DELETE FROM content WHERE id = old.content_id;
END;

-- For reading with `sqlite3`.
CREATE VIEW file_text AS
SELECT
    memory,
    path,
    CAST(bytes AS TEXT) AS text,
    size,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created,
    strftime('%Y-%m-%dT%H:%M:%fZ', modified_at / 1000.0, 'unixepoch') AS modified
FROM file
JOIN content ON content.id = file.content_id
WHERE path < '/records';
