# What each package says of the binary; sourced with `binary` and `workspace` set.

version=$("$binary" --version | cut -d' ' -f2)
# The newest C library symbol that the binary asks for is the oldest C library that it runs with.
libc=$(objdump -T "$binary" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
libc=${libc#GLIBC_}
# The commit's time for every file: the same sources and binary make the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$workspace" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

# Gives every file below $1 the commit's time.
set_times() {
  find "$1" -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}
