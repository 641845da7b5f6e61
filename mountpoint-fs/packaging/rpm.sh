#!/usr/bin/env bash
# Builds the RPM package from a built binary: rpm.sh BINARY FOLDER puts mountpoint-fs-VERSION-1.ARCH.rpm into FOLDER.
#
# Needs rpmbuild, binutils and gzip. COMPRESSION (w19.zstdio by default) is what `_binary_payload` takes.
set -euo pipefail

binary=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)
workspace=$here/../..
. "$here/facts.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/tree.sh" "$binary" "$work/tree"
# These distributions have /sbin as a link to /usr/sbin, which a package must not replace by a folder.
mkdir -p "$work/tree/usr/sbin"
rm -r "$work/tree/sbin"
ln -s ../bin/mount-s3 "$work/tree/usr/sbin/mount.mount-s3"
set_times "$work/tree"

# What is built is there already: rpmbuild only packs. Each setting below keeps the machine and its clock out of the package.
rpmbuild --quiet -bb \
  --define "_topdir $work/build" --define "_rpmdir $work/packages" --define "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
  --define "_binary_payload ${COMPRESSION:-w19.zstdio}" --define "_buildhost reproducible" \
  --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
  --define "_build_id_links none" --define "debug_package %{nil}" --define "__os_install_post %{nil}" \
  --define "version_ $version" --define "libc_ $libc" --define "tree_ $work/tree" \
  "$here/mountpoint-fs.spec"
mkdir -p "$folder"
package=$(basename "$work"/packages/*.rpm)
mv "$work/packages/$package" "$folder/"
echo "$folder/$package"
