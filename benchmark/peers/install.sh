#!/bin/sh
# Builds the peers that are Go programs into a folder: rclone, geesefs and goofys, all from their published modules.
#
# usage: install.sh FOLDER NAME …
set -eu

here=$(dirname "$(readlink -f "$0")")
folder=$(mkdir -p "$1" && cd "$1" && pwd)
shift

# Pinned, so that figures of two days can be compared.
rclone=github.com/rclone/rclone@v1.76.0
geesefs=github.com/yandex-cloud/geesefs@v0.43.8
goofys=github.com/kahing/goofys@v0.24.0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOFLAGS=-mod=mod

# A copy of the source of a module, to be changed.
copy() {
    source=$(go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    test -n "$source" || { echo "$1 cannot be fetched" >&2; exit 1; }
    mkdir "$work/$2"
    cp -r "$source/." "$work/$2"
    chmod -R u+w "$work/$2"
    cd "$work/$2"
}

build_rclone() {
    GOBIN=$folder go install -ldflags='-s -w' "$rclone"
}

# Its module leaves out its changed copy of the AWS SDK. What that adds is for Yandex's own store; geesefs/yandex.go
# stands in for it, in the published SDK.
build_geesefs() {
    copy "$geesefs" geesefs
    go mod edit -dropreplace=github.com/aws/aws-sdk-go
    go mod download github.com/aws/aws-sdk-go
    go mod vendor
    sdk=vendor/github.com/aws/aws-sdk-go/service/s3
    cp "$here/geesefs/yandex.go" "$sdk/"
    sed -i 's/^type Object struct {$/&\n\tUserMetadata map[string]*string/' "$sdk/api.go"
    GOFLAGS=-mod=vendor go build -ldflags="-s -w -X main.Version=${geesefs#*@}" -o "$folder/geesefs" .
}

# It is older than modules: goofys/go.mod names what it was written for.
build_goofys() {
    copy "$goofys" goofys
    cp "$here/goofys/go.mod" go.mod
    go build -ldflags="-s -w -X main.Version=${goofys#*@}" -o "$folder/goofys" .
}

for name; do
    case $name in
    rclone | geesefs | goofys) echo "building $name"; "build_$name" ;;
    *) echo "there is no recipe for $name" >&2; exit 1 ;;
    esac
done
