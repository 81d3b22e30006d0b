
# Completes paths in the memory, which the program quotes.
_memory_tool_with_paths() {
    local path paths
    if paths=$(memory-tool completions bash -- "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null </dev/null); then
        COMPREPLY=()
        compopt +o default +o bashdefault 2>/dev/null
        while IFS= read -r path; do
            [[ -n $path ]] && COMPREPLY+=("$path")
        done <<<"$paths"
        [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null
        return 0
    fi
    _memory__tool "$@"
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _memory_tool_with_paths -o nosort -o bashdefault -o default memory-tool
fi
