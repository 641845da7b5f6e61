# Completions of mount-s3 for fish. The program itself tells what can stand where.

function __mount_s3_candidates
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    set --append words "$current"
    set -l program (string replace --regex '^~' $HOME -- $words[1])
    set -l prefix (string match --regex '^--[^=]*=' -- $current; or echo "")
    set -l value (string replace -- "$prefix" "" $current)
    set -l lines ($program completions fish --candidates -- $words 2>/dev/null)
    switch "$lines[1]"
        case :files
            set lines (__fish_complete_path $value)
        case :directories
            set lines (__fish_complete_directories $value)
    end
    for line in $lines
        echo -- $prefix$line
    end
end

complete --command mount-s3 --no-files --arguments '(__mount_s3_candidates)'
