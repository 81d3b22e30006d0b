UPDATE memory_tool.file SET content = '{' WHERE memory = 'default' AND path = '/records/history/head';
