-- Names that the tool refuses, in this memory and in others.
INSERT INTO memory_tool.file
SELECT memory, path, decode(md5(memory || path), 'hex'), 1795000000000, 1795000000000, 'text'
FROM (VALUES
    ('default', '/memories'),
    ('default', '/memories/'),
    ('default', '/memories/a/'),
    ('default', '/memories/a//b.md'),
    ('default', '/memories/../etc/passwd'),
    ('default', E'/memories/line\nfeed.md'),
    ('default', '/memories/profile.md/under-a-file.md'),
    ('default', '/memories/' || repeat('long', 64)),
    ('default', '/records/history/log/seven'),
    ('default', '/elsewhere/c.md'),
    ('default', ''),
    ('', '/memories/d.md'),
    ('../alice', '/memories/e.md'),
    ('alice', '/records/../f')
) AS made (memory, path);
