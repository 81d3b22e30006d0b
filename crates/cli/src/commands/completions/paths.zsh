# Completes paths in the memory. `compadd` quotes them.
_memory_tool_paths() {
    local -a paths
    paths=("${(@f)$(memory-tool completions zsh -- "${(@)memory_tool_words}" 2>/dev/null </dev/null)}")
    compadd -S '' -- "${(@M)paths:#*/}"
    compadd -- "${(@)paths:#(*/|)}"
}
