#!/usr/bin/env bash
# Packs a built binary for machines without a package manager of ours: tarball.sh BINARY FOLDER puts
# mount-s3-VERSION-ARCH-linux-gnu.tar.gz into FOLDER.
#
# Needs GNU tar, binutils and gzip. COMPRESSION (9 by default) is the level of gzip.
set -euo pipefail

binary=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)
workspace=$here/../..
. "$here/facts.sh"

name=mount-s3-$version-$(uname -m)-linux-gnu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/tree.sh" "$binary" "$work/$name"
# The user decides where mount(8) looks, and where the service's files are.
rm -r "$work/$name/sbin" "$work/$name/etc"
cp -a "$work/$name/usr/." "$work/$name/" && rm -r "$work/$name/usr"
install -m 0644 "$workspace/LICENSE" "$work/$name/LICENSE"
cat >"$work/$name/INSTALL" <<TEXT
mount-s3 $version for Linux on $(uname -m)

Needs the GNU C library $libc or later, /dev/fuse (Linux 4.14 or later; 6.9 or later for passthrough of cached files), the
certificates of ca-certificates, and, for users other than root, fusermount3 of fuse3.

  cp bin/mount-s3 /usr/local/bin/
  ln -s /usr/local/bin/mount-s3 /sbin/mount.mount-s3    # for lines in /etc/fstab
  cp -r share/man share/bash-completion share/fish share/zsh /usr/local/share/
  cp lib/systemd/system/mount-s3@.service /etc/systemd/system/   # its ExecStart names /usr/bin/mount-s3
  mkdir -p /etc/mount-s3                                # for its files, as share/doc/mountpoint-fs/examples/my-data.conf
TEXT
chmod -R u=rwX,go=rX "$work/$name"
mkdir -p "$folder"
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu \
  --directory "$work" "$name" | gzip -n "-${COMPRESSION:-9}" >"$folder/$name.tar.gz"
echo "$folder/$name.tar.gz"
