#!/usr/bin/env bash
# Puts the files of a package below a folder: tree.sh BINARY ROOT. Every package has the same ones.
#
# Needs binutils, gzip and cargo. ZSH names the folder of zsh's completions; each family of distributions has its own.
set -euo pipefail

binary=$1 root=$2
here=$(cd "$(dirname "$0")" && pwd)
workspace=$here/../..

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
for helper in $("$binary" man | sed -n '/^.SH "SEE ALSO"/,/^.fi/p' | tr -d '\\' | grep -o 'mount-s3-[a-z]*'); do
  make_text "usr/share/man/man1/$helper.1" "$binary" man "${helper#mount-s3-}"
done
link ../man1/mount-s3.1.gz usr/share/man/man8/mount.mount-s3.8.gz
make_text usr/share/bash-completion/completions/mount-s3 "$binary" completions bash
make_text "${ZSH:-usr/share/zsh/site-functions}/_mount-s3" "$binary" completions zsh
make_text usr/share/fish/vendor_completions.d/mount-s3.fish "$binary" completions fish

put 0644 "$here/mount-s3@.service" usr/lib/systemd/system/mount-s3@.service
doc=usr/share/doc/mountpoint-fs
put 0644 "$here/my-data.conf" $doc/examples/my-data.conf
put 0644 "$here/copyright" $doc/copyright
put 0644 "$workspace/CHANGELOG.md" $doc/changelog
for document in COMPATIBILITY CONFIGURATION KUBERNETES LOADING-MODELS METRICS PROGRAMS SEMANTICS TRACES TROUBLESHOOTING; do
  put 0644 "$workspace/doc/$document.md" "$doc/$document.md"
done
put 0644 "$workspace/doc/dashboard.json" $doc/dashboard.json
# Where mount-s3@.service looks for NAME.conf.
mkdir -p "$root/etc/mount-s3"
# The crates that are linked in, with their licences. It builds nothing.
make_text $doc/crates sh -c "cd '$workspace' && cargo tree --offline --locked --package mountpoint-fs \
  --edges normal --prefix none --format '{p} {l}' | sed -e 's| ([^)]*)||' -e 's| (\\*)\$||' | sort -u"
gzip -9n "$root"/usr/share/man/man1/*.1 "$root/$doc/changelog"
chmod -R u=rwX,go=rX "$root"
