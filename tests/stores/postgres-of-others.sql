-- Another program changes texts without a version, writes bytes that are no text and times that no clock has, and adds a table.
UPDATE memory_tool.file SET content = 'Edited by hand.' WHERE memory = 'default' AND path = '/memories/profile.md';
INSERT INTO memory_tool.file VALUES
    ('default', '/memories/latin.md', '\x01', 1795000000000, 1795000000000, '\x636166e90a'),
    ('default', '/memories/times.md', '', 9223372036854775807, -9223372036854775808, 'text');
CREATE TABLE memory_tool.notes (text text);
ANALYZE memory_tool.file;
