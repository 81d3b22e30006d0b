-- Records of wrappers, and the time of the last write in the table that a listing reads.

-- Ids are never reused, and a record is replaced instead of updated, so an id identifies a content.
CREATE TABLE record (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    store TEXT NOT NULL,
    name TEXT NOT NULL,
    bytes BLOB NOT NULL,
    UNIQUE (store, name)
) STRICT;

CREATE TRIGGER record_is_replaced BEFORE UPDATE ON record BEGIN
    SELECT RAISE(ABORT, 'a record that changes needs a new id: use INSERT OR REPLACE');
END;

DROP VIEW memory;

ALTER TABLE file ADD COLUMN modified_at INTEGER NOT NULL DEFAULT 0; -- in milliseconds since 1970

UPDATE file SET modified_at = coalesce((SELECT modified_at FROM content WHERE id = content_id), created_at);

ALTER TABLE content DROP COLUMN modified_at;

-- For reading with `sqlite3`.
CREATE VIEW memory AS
SELECT
    store,
    path,
    CAST(bytes AS TEXT) AS text,
    size,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created,
    strftime('%Y-%m-%dT%H:%M:%fZ', modified_at / 1000.0, 'unixepoch') AS modified
FROM file
JOIN content ON content.id = file.content_id;
