#!/usr/bin/env bash
# Builds the Debian package from a built binary: deb.sh BINARY FOLDER puts mountpoint-fs_VERSION_ARCH.deb into FOLDER.
#
# Needs dpkg, binutils and gzip. COMPRESSION (xz by default) is what `dpkg-deb -Z` takes.
set -euo pipefail

binary=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)
workspace=$here/../..
. "$here/facts.sh"

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
ZSH=usr/share/zsh/vendor-completions "$here/tree.sh" "$binary" "$root"

architecture=$(dpkg --print-architecture)
size=$(du -sk "$root" | cut -f1)
mkdir -p "$root/DEBIAN" "$folder"
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@LIBC@/$libc/" \
  -e "s/@SIZE@/$size/" "$here/control" >"$root/DEBIAN/control"
(cd "$root" && find usr -type f -exec md5sum {} + | sort -k 2 >DEBIAN/md5sums)
chmod -R u=rwX,go=rX "$root"
set_times "$root"
package=$folder/mountpoint-fs_${version}_$architecture.deb
dpkg-deb --root-owner-group "-Z${COMPRESSION:-xz}" --build "$root" "$package" >/dev/null
echo "$package"
