DELETE FROM memory_tool.file WHERE memory = 'default' AND path = '/records/history/head';
