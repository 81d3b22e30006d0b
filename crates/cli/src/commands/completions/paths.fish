
# Completes paths in the memory. fish quotes them.
function __memory_tool_paths
    memory-tool completions fish -- (commandline -opc) (commandline -ct) 2>/dev/null </dev/null
end

complete -c memory-tool -n "__fish_memory_tool_using_subcommand COMMANDS" -f -a "(__memory_tool_paths)"
