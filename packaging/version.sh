#!/bin/sh
# Prints the version of the commit, by the last tag before it: 1.2.3 for the tag v1.2.3 itself, and
# 1.2.3+4.g5f3c11aa four commits after it. Before the first tag it is 0.0.0. With --tag it fails if
# the commit has no tag, if files differ from it, or if CHANGELOG.md has no such version. A version
# such as 1.2.3-rc.1 need not be there.
set -eu
cd "$(dirname "$0")/.."

described=$(git describe --tags --match 'v[0-9]*' --abbrev=8 --long --dirty 2>/dev/null) ||
	described=v0.0.0-$(git rev-list --count HEAD)-g$(git rev-parse --short=8 HEAD)
if [ "${1-}" = --tag ]; then
	case $described in
	*-0-g????????)
		version=${described#v}
		version=${version%-0-g*}
		if [ "${version#*-}" = "$version" ] && ! grep -qF "## [$version] - " CHANGELOG.md; then
			echo "version: CHANGELOG.md has no release $version: give it \"## [$version] - $(date +%F)\"" >&2
			exit 1
		fi
		;;
	*-dirty)
		echo "version: files differ from the commit: commit or stash them" >&2
		exit 1
		;;
	*)
		echo "version: the commit $(git rev-parse --short=8 HEAD) has no tag: git tag -a vX.Y.Z" >&2
		exit 1
		;;
	esac
fi
# v1.2.3-rc.1-4-g5f3c11aa-dirty: the tag, the commits after it, the commit
echo "$described" | sed -E 's/^v//; s/-([0-9]+)-g([0-9a-f]{8})(-dirty)?$/+\1.g\2\3/; s/\+0\.g[0-9a-f]{8}$//; s/-dirty$/.dirty/'
