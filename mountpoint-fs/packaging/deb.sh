#!/usr/bin/env bash
# Builds the Debian package from a built binary: deb.sh BINARY FOLDER puts mountpoint-fs_VERSION_ARCH.deb into FOLDER.
#
# Needs dpkg, binutils and gzip. COMPRESSION (xz by default) is what `dpkg-deb -Z` takes.
set -euo pipefail

binary=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)
workspace=$here/../..

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

put() { # MODE SOURCE TARGET
  install -D -m "$1" "$2" "$root/$3"
}
link() { # TO TARGET
  mkdir -p "$(dirname "$root/$2")"
  ln -s "$1" "$root/$2"
}
make_text() { # TARGET COMMAND…: what the command prints
  local target=$root/$1
  shift
  mkdir -p "$(dirname "$target")"
  "$@" >"$target"
}

put 0755 "$binary" usr/bin/mount-s3
strip --strip-unneeded "$root/usr/bin/mount-s3"
# Where mount(8) looks. Absolute: /sbin may be a link itself.
link /usr/bin/mount-s3 sbin/mount.mount-s3

make_text usr/share/man/man1/mount-s3.1 "$binary" man
link ../man1/mount-s3.1.gz usr/share/man/man8/mount.mount-s3.8.gz
make_text usr/share/bash-completion/completions/mount-s3 "$binary" completions bash
make_text usr/share/zsh/vendor-completions/_mount-s3 "$binary" completions zsh
make_text usr/share/fish/vendor_completions.d/mount-s3.fish "$binary" completions fish

put 0644 "$here/mount-s3@.service" usr/lib/systemd/system/mount-s3@.service
doc=usr/share/doc/mountpoint-fs
put 0644 "$here/my-data.conf" $doc/examples/my-data.conf
put 0644 "$here/copyright" $doc/copyright
put 0644 "$workspace/CHANGELOG.md" $doc/changelog
for document in CONFIGURATION PROGRAMS SEMANTICS TROUBLESHOOTING; do
  put 0644 "$workspace/doc/$document.md" "$doc/$document.md"
done
# The crates that are linked in, with their licences. It builds nothing.
make_text $doc/crates sh -c "cd '$workspace' && cargo tree --offline --locked --package mountpoint-fs \
  --edges normal --prefix none --format '{p} {l}' | sed -e 's| ([^)]*)||' -e 's| (\\*)\$||' | sort -u"
gzip -9n "$root/usr/share/man/man1/mount-s3.1" "$root/$doc/changelog"

version=$("$binary" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
# The newest C library symbol that the binary asks for is the oldest C library that it runs with.
libc=$(objdump -T "$root/usr/bin/mount-s3" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
size=$(du -sk "$root" | cut -f1)
mkdir -p "$root/DEBIAN" "$folder"
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@LIBC@/${libc#GLIBC_}/" \
  -e "s/@SIZE@/$size/" "$here/control" >"$root/DEBIAN/control"
(cd "$root" && find usr -type f -exec md5sum {} + | sort -k 2 >DEBIAN/md5sums)
chmod -R u=rwX,go=rX "$root"

# The commit's time for every file: the same sources and binary make the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$workspace" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
package=$folder/mountpoint-fs_${version}_$architecture.deb
dpkg-deb --root-owner-group "-Z${COMPRESSION:-xz}" --build "$root" "$package" >/dev/null
echo "$package"
