#!/bin/sh
# Build the image localhost/a2ad without Docker and without a registry of images: with buildah, on a Debian that
# debootstrap makes from packages. It needs root, buildah and debootstrap. docs/deploy.md says more.
set -eu
cd "$(dirname "$0")/.."
export BUILDAH_ISOLATION="${BUILDAH_ISOLATION:-chroot}"

for program in buildah debootstrap; do
    command -v "$program" >/dev/null || { echo "deploy/image.sh needs $program: apt-get install $program" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo 'deploy/image.sh needs root' >&2; exit 1; }

suite=bookworm
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

# keep NAME: make an image of the folder.
keep() {
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$made/debian" / >/dev/null
    buildah commit --quiet "$container" "localhost/$1" >/dev/null
    buildah rm "$container" >/dev/null
}

if ! buildah inspect localhost/a2ad-builder >/dev/null 2>&1; then
    echo "Making $suite with Python, and the same with a C compiler. This takes a few minutes, once." >&2
    # From where this machine has its own packages.
    mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' |
        awk -v suite="$suite" '$2 == suite { print $1; exit }')
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip,python3-venv "$suite" "$made/debian" \
        ${mirror:+"$mirror"} >&2
    # Whom this machine trusts: there may be a mirror between it and the packages.
    cp /etc/ssl/certs/ca-certificates.crt "$made/debian/etc/ssl/certs/"
    keep a2ad-base
    chroot "$made/debian" apt-get update --quiet=2 >&2
    chroot "$made/debian" apt-get install --quiet=2 --yes --no-install-recommends gcc libc6-dev python3-dev >&2
    keep a2ad-builder
fi

buildah build --format docker --layers --build-arg BASE=localhost/a2ad-base --build-arg BUILDER=localhost/a2ad-builder \
    --tag localhost/a2ad . >&2
