#!/bin/sh
# Builds grpc-gateway and a Go gRPC server from Debian's packages alone: build.sh FOLDER makes FOLDER/gateway.
# Exits with 69 and says what to install if something is missing.
set -eu
sources=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
target=$(cd "$1" && pwd)

packages="golang-go golang-goprotobuf-dev golang-google-grpc-dev golang-google-genproto-dev
golang-github-grpc-ecosystem-grpc-gateway-dev protobuf-compiler libprotobuf-dev"
gopath=/usr/share/gocode
gateway=github.com/grpc-ecosystem/grpc-gateway
missing=
for program in go protoc protoc-gen-go; do
	command -v "$program" >/dev/null || missing="$missing $program"
done
for folder in "$gateway" google.golang.org/grpc google.golang.org/genproto; do
	[ -d "$gopath/src/$folder" ] || missing="$missing $folder"
done
if [ -n "$missing" ]; then
	echo "missing:$missing; on Debian 12: apt-get install" $packages >&2
	exit 69 # EX_UNAVAILABLE
fi

export GO111MODULE=off GOFLAGS= GOPATH="$target:$gopath" GOCACHE="$target/cache" PATH="$target/bin:$PATH"
mkdir -p "$target/bin" "$target/src/bench/pb"
go build -o "$target/bin/protoc-gen-grpc-gateway" "$gateway/protoc-gen-grpc-gateway"

# protoc's own files name Go packages that are newer than Debian's plugin.
golang=github.com/golang/protobuf/ptypes
api=google.golang.org/genproto/googleapis/api/annotations
map="Mgoogle/protobuf/struct.proto=$golang/struct,Mgoogle/protobuf/timestamp.proto=$golang/timestamp"
map="$map,Mgoogle/api/annotations.proto=$api"
protoc -I "$sources" -I "$gopath/src/$gateway/third_party/googleapis" -I /usr/include \
	--go_out="plugins=grpc,$map:$target/src" --grpc-gateway_out="logtostderr=true,$map:$target/src" \
	"$sources/tasks.proto"
cp "$sources/main.go" "$target/src/bench/"
go build -o "$target/gateway" bench
