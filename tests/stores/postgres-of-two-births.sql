-- The log is of another memory with the same changes.
DELETE FROM memory_tool.file WHERE memory = 'default' AND path LIKE '/records/history/log/%';
INSERT INTO memory_tool.file
SELECT 'default', path, version, created_at, modified_at, content FROM memory_tool.file
WHERE memory = 'alice' AND path LIKE '/records/history/log/%';
