UPDATE memory_tool.file SET content = substring(content FOR 20) WHERE memory = 'default' AND path LIKE '%/history/log/%5';
