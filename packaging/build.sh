#!/usr/bin/env bash
# Builds the packages and archives of superd into a directory: build.sh DIR. Run by make packages.
#
# The result depends on the commit and on the versions of Go and xz alone: two builds are
# byte-identical. Variables: VERSION (default: that of version.sh), ARCHES, FORMATS (default: deb rpm
# apk tar.gz cdx.json; image is another), MAINTAINER (default: who committed).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# = 1 ] || { echo "usage: build.sh DIR" >&2; exit 2; }
command -v xz >/dev/null || { echo "build.sh: no xz in PATH: install xz-utils" >&2; exit 1; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
export VERSION=${VERSION:-$(packaging/version.sh)}
read -ra arches <<<"${ARCHES:-amd64 arm64}"
read -ra formats <<<"${FORMATS:-deb rpm apk tar.gz cdx.json}"
MAINTAINER=${MAINTAINER:-$(git log -1 --format='%cn <%ce>')}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
commit=$(git describe --always --abbrev=40 --exclude '*' --dirty=-modified)
date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
export MAINTAINER SOURCE_DATE_EPOCH CGO_ENABLED=0 LC_ALL=C
umask 022

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build ARCH PACKAGE TO [FLAG...]: a static binary without symbols, and without the paths of this
# machine.
build() {
	local arch=$1 package=$2 to=$3
	shift 3
	GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false -o "$to" \
		-ldflags="-s -w -buildid= -X main.version=$VERSION -X main.commit=$commit -X main.date=$date" \
		"$@" "$package"
}

# binaries ARCH DIR: superd with its exec shim, and superd-ui. The shim of the work tree stays as it
# is.
binaries() {
	local arch=$1 dir=$2
	build "$arch" ./cmd/superd-exec "$work/shim-$arch"
	printf '{"Replace": {"%s": "%s"}}\n' "$PWD/sandbox/shim/bin/superd-exec" "$work/shim-$arch" >"$work/overlay-$arch.json"
	build "$arch" ./cmd/superd "$dir/superd" -overlay "$work/overlay-$arch.json"
	build "$arch" ./cmd/superd-ui "$dir/superd-ui"
}

# documents DIR: what does not depend on the architecture.
documents() {
	local dir=$1 page
	mkdir -p "$dir"/{man/man1,man/man5,completions,doc}
	# With -trimpath a build elsewhere finds what is compiled in the cache of Go.
	go test -trimpath -vet=off -count=1 -run 'ManPages|ConfigurationPage' ./cmd/superd ./cmd/superd-ui \
		./tests/manpages -man "$dir/man" >"$work/man.log" || { cat "$work/man.log" >&2; exit 1; }
	mv "$dir"/man/*.1 "$dir/man/man1"
	mv "$dir"/man/*.5 "$dir/man/man5"
	gzip -9n "$dir"/man/man?/*
	go build -trimpath -buildvcs=false -o "$work/superd" ./cmd/superd
	"$work/superd" completion bash >"$dir/completions/superd.bash"
	"$work/superd" completion zsh >"$dir/completions/_superd"
	"$work/superd" completion fish >"$dir/completions/superd.fish"
	# The pages for users. The site has the pictures.
	for page in tutorial guide reference commands switching alerts sockets sandbox services metrics top web development \
		containers clusters packages troubleshooting faq glossary comparison compatibility security api; do
		cp "docs/$page.md" "$dir/doc/"
	done
	cp -r docs/howto docs/switching "$dir/doc/"
	for page in README SECURITY; do
		sed 's|](docs/|](|g' $page.md >"$dir/doc/$page.md"
	done
	go -C tools run ./copyright >"$dir/copyright"
	gzip -9n <CHANGELOG.md >"$dir/changelog.gz"
}

# version_for FORMAT: the version as the format writes it, so that 1.2.3-rc.1 comes before 1.2.3, and
# 1.2.3+4.g5f3c11aa, four commits after it, behind.
version_for() {
	case $1 in
	apk) sed -E 's/-rc\.?/_rc/; s/-(alpha|beta)\.?/_\1/; s/\+([0-9]+)\.g.*/_p\1/' <<<"$VERSION" ;;
	*) echo "${VERSION/-/\~}" ;;
	esac
}

# changelog: the Debian changelog and that of the rpm, as nfpm reads it
changelog() {
	cat <<-END
		- semver: "$(version_for deb)-1"
		  date: "$date"
		  packager: "$MAINTAINER"
		  deb: {urgency: medium, distributions: [stable]}
		  changes: [{note: "What has changed is in changelog.gz, in the same directory."}]
	END
}

# archive ARCH STAGE: the same files without a package manager, below superd-VERSION-linux-ARCH.
archive() {
	local arch=$1 stage=$2 name=superd-$VERSION-linux-$1
	mkdir -p "$work/$name"/{systemd,openrc,examples}
	cp -r "$stage"/{bin,man,completions,doc,copyright} LICENSE "$work/$name/"
	cp packaging/superd.{service,socket,sysusers,tmpfiles} "$work/$name/systemd/"
	cp packaging/superd.initd "$work/$name/openrc/superd"
	cp packaging/superd.toml packaging/superd.service.d/hardened.conf "$work/$name/examples/"
	tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
		--format=ustar -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
}

# sbom ARCH STAGE: a list of what each binary links, as CycloneDX. superd-exec, which is in superd,
# links a part of it.
sbom() {
	local arch=$1 stage=$2 binary
	for binary in superd superd-ui; do
		"$work/tools/cyclonedx-gomod" bin -json -std -noserial -notimestamp -version "$VERSION" \
			-output "$out/$binary-$VERSION-linux-$arch.cdx.json" "$stage/bin/$binary" 2>"$work/sbom.log" ||
			{ cat "$work/sbom.log" >&2; exit 1; }
	done
}

# image: a container image for all architectures
image() {
	local arch directories=()
	for arch in "${arches[@]}"; do
		directories+=("$arch=$work/$arch/bin")
	done
	go -C packaging/container run . -o "$out/superd-$VERSION-image.tar" -version "$VERSION" \
		-commit "$commit" "${directories[@]}"
}

go -C packaging/tools build -trimpath -buildvcs=false -o "$work/tools/" \
	github.com/goreleaser/nfpm/v2/cmd/nfpm github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
documents "$work/documents"
for arch in "${arches[@]}"; do
	stage=$work/$arch
	mkdir -p "$stage/bin"
	binaries "$arch" "$stage/bin"
	cp -r "$work/documents/." "$stage/"
	changelog >"$stage/changelog.yaml"
	cp -r packaging/apk "$stage/"
	touch -d "@$SOURCE_DATE_EPOCH" "$stage"/apk/* # nfpm takes the times of these scripts as they are
	sed "s|\${STAGE}|$stage|g" packaging/nfpm.yaml >"$stage/nfpm.yaml"
	for format in "${formats[@]}"; do
		case $format in
		tar.gz) archive "$arch" "$stage" ;;
		cdx.json) sbom "$arch" "$stage" ;;
		image) ;; # after all architectures
		*)
			ARCH=$arch PACKAGE_VERSION=$(version_for "$format") "$work/tools/nfpm" package \
				--config "$stage/nfpm.yaml" --packager "$format" --target "$out/" >"$work/nfpm.log" ||
				{ cat "$work/nfpm.log" >&2; exit 1; }
			;;
		esac
	done
done
[[ " ${formats[*]} " != *" image "* ]] || image
(cd "$out" && rm -f SHA256SUMS && sha256sum -- * >"$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$out/"
