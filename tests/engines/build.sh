#!/bin/sh
# build.sh DIRECTORY [nomad|kubernetes]: builds Nomad and the API server of Kubernetes there, or one of
# them, from the module proxy. What is there already, by its version, stays. They are tools of tests:
# superd links none of them. libcontainer, which Nomad has, needs cgo and a C compiler.
set -eu

NOMAD=v1.10.5
# The module of Nomad's API at the commit of that version
NOMAD_API=v0.0.0-20250909143645-a3b86c697f38
KUBERNETES=v1.34.1
STAGING=v0.34.1 # of the modules k8s.io/api and so on, which are part of it

dir=$1 only=${2:-}
mkdir -p "$dir"
export GOFLAGS=-mod=mod GOWORK=off

# source MODULE VERSION: copies a module into a directory that can be written, and prints its name.
source_of() {
	from=$(cd "$dir" && GOFLAGS= go mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	to=$(mktemp -d)
	cp -R "$from/." "$to"
	chmod -R u+w "$to"
	echo "$to"
}

if [ "$only" != kubernetes ] && [ ! -x "$dir/nomad-$NOMAD" ]; then
	src=$(source_of github.com/hashicorp/nomad $NOMAD)
	trap 'rm -rf "$src"' EXIT
	(cd "$src" && go mod edit -replace="github.com/hashicorp/nomad/api=github.com/hashicorp/nomad/api@$NOMAD_API" &&
		CGO_ENABLED=1 go build -trimpath -ldflags="-s -w" -o "$dir/nomad-$NOMAD.new" .)
	rm -rf "$src"
	mv "$dir/nomad-$NOMAD.new" "$dir/nomad-$NOMAD"
fi
if [ "$only" != nomad ] && [ ! -x "$dir/kube-apiserver-$KUBERNETES" ]; then
	src=$(source_of k8s.io/kubernetes $KUBERNETES)
	trap 'rm -rf "$src"' EXIT
	(cd "$src" && sed -n 's|^\t\(k8s.io/[a-z-]*\) => ./staging/.*|\1|p' go.mod | while read -r module; do
		go mod edit -replace="$module=$module@$STAGING"
	done
	CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o "$dir/kube-apiserver-$KUBERNETES.new" ./cmd/kube-apiserver)
	rm -rf "$src"
	mv "$dir/kube-apiserver-$KUBERNETES.new" "$dir/kube-apiserver-$KUBERNETES"
fi
ln -sf "nomad-$NOMAD" "$dir/nomad"
ln -sf "kube-apiserver-$KUBERNETES" "$dir/kube-apiserver"
